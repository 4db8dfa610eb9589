"""What the next experiment is worth: does the start that is proposed leave only the true law?

    python benchmarks/next_experiment.py [--seed 20261118]

Ten pairs of laws that first data cannot tell apart (small swings, one transient). The library holds
the terms of both; the first data are drawn again until a rival is left. One more trajectory is
simulated by the true law with the same noise, once from the start that `front.next_experiment(1)`
proposes within the bounds, and from five random starts within them, and the law is searched for in
all data. Won is a search that chooses the true law and names no rival within odds of 20 to 1.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from known import terms
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Law
from sjepa.errors import NumericalWarning, SjepaError


# States, true law, library, first starts, bounds, duration, noise.
PAIRS = [
    ("qp", ["p", "-sin(q)"], ["q", "p", "sin(q)"], [[0.3, 0], [0, 0.3]], (-2, 2), 10, 0.03),
    ("qp", ["p", "-q"], ["q", "p", "sin(q)"], [[0.3, 0], [0, 0.3]], (-2, 2), 10, 0.03),
    ("qp", ["p", "-q - 0.5*q**3"], ["q", "p", "q**3"], [[0.7, 0], [0, 0.6]], (-2, 2), 10, 0.08),
    ("qp", ["p", "-q - 0.3*p"], ["q", "p", "p*abs(p)"], [[0.6, 0], [0, 0.6]], (-2, 2), 8, 0.08),
    ("qp", ["p", "-q - 0.3*p*abs(p)"], ["q", "p", "p*abs(p)"], [[1, 0], [0, 1]], (-3, 3), 6, 0.04),
    ("x", ["x - x**2"], ["x", "x**2", "x**3"], [[0.6]], (0.05, 2), 6, 0.02),
    ("x", ["-x**2"], ["x", "x**2", "x**3"], [[0.5]], (0.05, 3), 4, 0.03),
    ("x", ["-x*abs(x)"], ["x", "x*abs(x)", "x**3"], [[0.6]], (-3, 3), 4, 0.03),
    ("xy", ["x - x*y", "x*y - y"], ["x", "y", "x*y", "x**2"], [[1.15, 1]], (0.2, 3), 7, 0.02),
    ("xy", ["y", "-x + y - x**2*y"], ["x", "y", "x**2*y", "x*y"], [[1.9, 0.2]], (-3, 3), 4, 0.1),
]  # fmt: skip
POINTS, RANDOM, DRAWS = 100, 5, 20


def path(law: Law, start: np.ndarray, t: np.ndarray) -> np.ndarray:
    f = law.numpy()
    return solve_ivp(
        lambda _, z: f(z[None])[0], (t[0], t[-1]), start, t_eval=t, rtol=1e-8, atol=1e-10
    ).y.T


def search(x: list[np.ndarray], t: np.ndarray, names: str, library: list[str]) -> sjepa.Front:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        return sjepa.discover(x, t, feature_names=list(names), library=library, verbose=False)


def trial(
    names: str, equations: list[str], library: list[str], starts: list[list[float]],
    bounds: tuple[float, float], duration: float, noise: float, rng: np.random.Generator,
) -> tuple[bool, float]:  # fmt: skip
    """Whether the proposed experiment won, and the share of random ones that did."""
    true, t = Law.from_string(equations, list(names)), np.linspace(0, duration, POINTS)

    def measured(start: np.ndarray) -> np.ndarray:
        x = path(true, start, t)
        return x + noise * rng.normal(size=x.shape)

    def wins(start: np.ndarray) -> bool:
        try:
            front = search([*first, measured(start)], t, names, library)
        except (SjepaError, ValueError):  # the true law leaves every bound from this start
            return False
        assert front.verdict is not None
        return terms(front.best()) == terms(true) and not front.verdict.rivals

    for _ in range(DRAWS):
        first = [measured(np.array(s, dtype=float)) for s in starts]
        front = search(first, t, names, library)
        assert front.verdict is not None
        if rivals := len(front.verdict.rivals):
            break
    else:
        print(f"{equations}: the first data leave no rival", flush=True)
        return False, 0.0
    table = front.next_experiment(1, bounds=dict.fromkeys(names, bounds))
    proposed = wins(table[list(names)].to_numpy()[0])
    random = float(np.mean([wins(rng.uniform(*bounds, len(names))) for _ in range(RANDOM)]))
    word = "won" if proposed else "not won"
    print(f"{equations}: {rivals} rivals before; proposed {word}, random {random:.1f}", flush=True)
    return proposed, random


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=20261118)
    rng = np.random.default_rng(parser.parse_args().seed)
    won, chance = 0, 0.0
    for pair in PAIRS:
        proposed, random = trial(*pair, rng)
        won, chance = won + proposed, chance + random
    print(f"\nproposed experiments won {won} of {len(PAIRS)}, random ones {chance:.1f}")


if __name__ == "__main__":
    main()
