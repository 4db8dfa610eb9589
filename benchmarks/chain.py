"""Finite-candidate weights against a sampled posterior on three small grammars.

Candidates are searched on other data of the same kind and weighed by their evidence, as the paper's
Algorithm 2 says; the chain samples structures of the whole grammar together with their numbers. The
prior is the same, with scales of its own. Printed: total variation distance for candidates kept by
either rule and for the whole grammar as candidates, beside the distance of two chains, which is the
error of sampling.

python -m benchmarks.chain [--seeds 3] [--steps 20000]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from benchmarks.bayes_data import drag_pendulum
from sjepa.bayes import Prior, posterior
from sjepa.data import Trajectories
from sjepa.symbolic import Library
from tests.bayes.reversible import all_laws, sample_structures


def walk(matrix: list[list[float]], noise: float, cubic: float, n: int, seed: int) -> Trajectories:
    """A noisy map; a small cubic term keeps its structure in doubt."""
    rng, a = np.random.default_rng(seed), np.array(matrix)
    z = [0.5 * rng.normal(size=len(a))]
    for _ in range(n):
        z.append(a @ z[-1] - cubic * z[-1] ** 3 + noise * rng.normal(size=len(a)))
    return Trajectories([np.array(z)], 1.0, names=["x", "y"][: len(a)])


Grammar = tuple[Library, list[str], str, Callable[[int], Trajectories], dict[str, Any]]


def grammars() -> dict[str, Grammar]:
    cubic = Library.from_terms(["1", "x", "x**2", "x**3"], ["x"])
    two = Library.from_terms(["x", "y", "x*y"], ["x", "y"])
    mask = np.array([[1, 0], [0, 1], [0, 1], [0, 1], [0, 1]], dtype=bool)
    drag = Library.from_terms(["p", "sin(q)", "q", "p*abs(p)", "1"], ["q", "p"], mask=mask)
    fixed = {"prior": Prior(coefficients=1.0, noise=0.3)}
    return {
        "cubic map, 16 structures": (
            cubic, ["x"], "discrete", lambda s: walk([[0.9]], 0.3, 0.1, 60, s), fixed,
        ),
        "rotation, 64 structures": (
            two, ["x", "y"], "discrete",
            lambda s: walk([[0.9, 0.2], [-0.1, 0.8]], 0.3, 0.0, 60, s), fixed,
        ),
        "drag pendulum, 32 structures": (
            drag, ["q", "p"], "continuous", lambda s: drag_pendulum(s, 3, 20, 0.02),
            {"prior": Prior(coefficients=1.0, noise=0.05), "integrator": "euler", "noise": "time"},
        ),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20_000)
    args = parser.parse_args()
    print(f"{'grammar':30} seed  mixed  pareto  whole  chains  acceptance  heaviest  CPU s")
    for name, (library, outputs, dynamics, data, settings) in grammars().items():
        for seed in range(args.seeds):
            begin = process_time()
            evidence, other = data(seed), data(1000 + seed)
            laws = all_laws(library, outputs, dynamics)  # type: ignore[arg-type]
            same = {**settings, "measure": "terms", "library": library, "covariance": "diagonal"}
            chains = [
                sample_structures(evidence, laws=laws, steps=args.steps, seed=s, **same)
                for s in (0, 1)
            ]
            form = {"derivatives": "discrete"} if dynamics == "discrete" else {}
            distances = [
                posterior(
                    evidence, backend="subset", proposal_data=other, retained=rule, **same, **form
                )
                for rule in ("mixed", "pareto")
            ]
            distances.append(posterior(evidence, candidates=laws, max_candidates=len(laws), **same))
            apart = [chains[0].distance(f) for f in distances]
            print(
                f"{name:30} {seed:4d}  {apart[0]:5.3f}  {apart[1]:6.3f}  {apart[2]:5.3f}  "
                f"{chains[0].distance(chains[1]):6.3f}  {chains[0].acceptance:10.2f}  "
                f"{chains[0].weights.max():8.2f}  {process_time() - begin:5.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
