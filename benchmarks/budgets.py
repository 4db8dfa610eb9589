"""How well backends keep a budget of seconds on libraries of up to 500 terms.

Prints the CPU time of one thread beyond the budget. Allowed is a tenth of it, or one second.
Each backend searches a small problem first: imports, once in a process, are not part of a search.
Then `discover` on the known systems with 1 % noise, as they are and beside an oscillator that has
nothing to do with them; budgets may be given.

    OMP_NUM_THREADS=1 python -m benchmarks.budgets            # backends
    OMP_NUM_THREADS=1 python -m benchmarks.budgets 1 2 5 20 --seed 7
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from sjepa import discover
from sjepa.backend import Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.data.synthetic.systems import SYSTEMS
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


def beside(data: Trajectories, rng: np.random.Generator) -> Trajectories:
    """The data with two columns of an oscillator, as noisy as they are."""
    x = []
    for i, (own, t) in enumerate(zip(data.x, data.t, strict=True)):
        other = np.stack([np.cos(1.7 * t + i), -np.sin(1.7 * t + i)], axis=1)
        x.append(np.concatenate([own, other + 0.01 * rng.normal(size=other.shape)], axis=1))
    names = [*(data.names or ()), "w1", "w2"]
    return Trajectories(x, data.t, data.u, names=names, input_names=data.input_names)


def systems(budgets: list[float], seed: int) -> None:
    """`discover` with budgets on the known systems; what overstays is printed."""
    rng = np.random.default_rng(seed)
    warnings.simplefilter("ignore")
    discover(simulate("pendulum", seed=0, trajectories=2), budget=1.0)  # imports what it needs
    for seconds in budgets:
        late, longest = 0, 0.0
        for name in SYSTEMS:
            for alone in (True, False):
                data = simulate(name, seed=int(rng.integers(2**31)), noise=0.01)
                data = data if alone else beside(data, rng)
                start = time.process_time()
                discover(data, budget=seconds)
                over = time.process_time() - start - seconds
                longest = max(longest, over)
                if over > max(1.0, 0.1 * seconds):
                    late += 1
                    print(f"{name}{'' if alone else ' and an oscillator'}: {over:+.1f} s TOO LONG")
        print(f"budget {seconds:g} s: {late} of {2 * len(SYSTEMS)} late, at most {longest:+.2f} s",
              flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("budgets", type=float, nargs="*", help="for discover on known systems")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.budgets:
        systems(given.budgets, given.seed)
    else:
        backends()


def backends() -> None:
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
