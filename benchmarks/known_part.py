"""What is missing beside a known part of the law: drag of a pendulum, interaction of two species.

    python benchmarks/known_part.py [--noise 0.01] [--seeds 20] [--first 3000] [--budget 4]

Known are q' = p, p' = -sin(q) of the pendulum and growth and death of prey and predators; unknown
are a drag, linear or quadratic by the seed, and the products of both species. Parameters and starts
are drawn for each seed. A law is right if its terms are the true ones and the coefficients of the
missing ones are within a tenth; "found" only asks for these terms, whatever else there is.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import sjepa
from sjepa import Law


WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "stlsq": {"backend": "stlsq"},
    "subset": {"backend": "subset"},
    "weak": {"backend": "subset", "derivatives": "weak"},
    "operon": {"backend": "operon"},
}


def pendulum(rng: np.random.Generator) -> tuple[Law, list[str], np.ndarray, np.ndarray]:
    drag = rng.choice(["p", "p*abs(p)"])
    law = Law.from_string(["p", f"-sin(q) - {rng.uniform(0.1, 0.4):.3f}*{drag}"], ["q", "p"])
    return law, ["q' = p", "p' = -sin(q)"], rng.uniform(-2, 2, (3, 2)), np.arange(0, 12, 0.05)


def species(rng: np.random.Generator) -> tuple[Law, list[str], np.ndarray, np.ndarray]:
    a, b, c, d = (np.array([1.1, 0.4, 0.1, 0.4]) * rng.uniform(0.8, 1.2, 4)).round(3)
    law = Law.from_string([f"{a}*x - {b}*x*y", f"{c}*x*y - {d}*y"], ["x", "y"])
    starts = np.array([4.0, 2.75]) * rng.uniform(0.5, 2.0, (2, 2))
    return law, [f"x' = {a}*x", f"y' = -{d}*y"], starts, np.arange(0, 20, 0.1)


def paths(
    law: Law, starts: np.ndarray, t: np.ndarray, noise: float, rng: np.random.Generator
) -> list[np.ndarray]:
    clean = [law.simulate(start, t).z for start in starts]
    size = noise * np.concatenate(clean).std(axis=0)
    return [x + size * rng.normal(size=x.shape) for x in clean]


def compared(found: Law, true: Law, known: Sequence[str]) -> tuple[bool, bool]:
    """Whether the missing terms are in the law, and whether it has no others."""
    given = [text.partition("= ")[2] for text in known]
    present = right = True
    for i, part in enumerate(given):
        own, wanted = ({t: c for c, t in law.terms[i]} for law in (found, true))
        old = {t for _, t in Law.from_string(part, true.inputs, ["y"]).terms[0]}
        for term in wanted.keys() - old:
            present &= term in own and abs(own[term] / wanted[term] - 1) < 0.1
        right &= own.keys() == wanted.keys()
    return present, present and right


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.01])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=3000)
    parser.add_argument("--budget", type=float, default=4.0, help="of operon, in CPU seconds")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("system    noise  way      found  right  adequate  of  CPU s each")
    for problem in (pendulum, species):
        for noise in asked.noise:
            for way in asked.ways:
                rows, start = [], time.process_time()
                for seed in range(asked.first, asked.first + asked.seeds):
                    rng = np.random.default_rng(seed)
                    law, known, starts, t = problem(rng)
                    front = sjepa.discover(
                        paths(law, starts, t, noise, rng), t, feature_names=law.inputs,
                        known=known, budget=asked.budget if way == "operon" else None, **WAYS[way],
                    )  # fmt: skip
                    verdict = front.verdict
                    adequate = verdict is not None and verdict.adequate is True
                    rows.append((*compared(front.best(), law, known), adequate))
                seconds = (time.process_time() - start) / len(rows)
                found, right, adequate = np.sum(rows, axis=0)
                print(
                    f"{problem.__name__:9} {noise:5.3f}  {way:8} {found:5} {right:6} {adequate:9}"
                    f" {len(rows):3} {seconds:11.1f}", flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
