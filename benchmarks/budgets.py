"""How well backends keep a budget of seconds on libraries of up to 500 terms.

Prints the CPU time of one thread beyond the budget. Allowed is a tenth of it, or one second.
Each backend searches a small problem first: imports, once in a process, are not part of a search.

    OMP_NUM_THREADS=1 python benchmarks/budgets.py
"""

from __future__ import annotations

import time

import numpy as np

from sjepa.backend import Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.symbolic import Library


CASES = [("stlsq", 200, 2.0), ("stlsq", 500, 5.0), ("stlsq", 500, 20.0)]
CASES += [(name, n, s) for name in ("subset", "pysindy") for n, s in ((200, 2.0), (500, 5.0))]
CASES += [(name, 500, 1.0) for name in ("stlsq", "subset", "pysindy")]


def problem(terms: int, seconds: float, seed: int = 0) -> Problem:
    """Two outputs of five terms each, in correlated columns and noise."""
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(terms)]
    x = rng.normal(size=(2000, terms)) + 0.5 * rng.normal(size=(2000, 1))
    truth = np.zeros((terms, 2))
    for column in truth.T:
        column[rng.choice(terms, 5, replace=False)] = rng.uniform(0.5, 2.0, 5)
    y = x @ truth + 0.1 * rng.normal(size=(2000, 2))
    library = Library.polynomial(names, 1, bias=False)
    budget = Budget(seconds=seconds)
    return Problem(
        x, y, library=library, outputs=["a", "b"], budget=budget, clock=time.process_time
    )


def main() -> None:
    print("backend   terms  budget   CPU s   over  laws      loss")
    for name, terms, seconds in CASES:
        problem(5, 1.0).solve(make_backend(name))
        task = problem(terms, seconds)
        start = time.process_time()
        front = task.solve(make_backend(name))
        spent = time.process_time() - start
        allowed = max(1.0, 0.1 * seconds)
        verdict = "" if spent - seconds <= allowed else "  TOO LONG"
        loss = front.best_candidate().loss
        print(
            f"{name:9} {terms:5d} {seconds:7g} {spent:7.1f} {spent - seconds:+6.1f} "
            f"{len(front):5d} {loss:9.2e}{verdict}"
        )


if __name__ == "__main__":
    main()
