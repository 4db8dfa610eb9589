"""The jury of the verdict: right and wrong laws, eight kinds of noise, one or several trajectories.

    python benchmarks/verdict.py [--seed 20261118] [--share 0.1] [--part 1/2] [--out FILE]
    python benchmarks/verdict.py --p-values 500

The 17 systems and 13 laws with parameters inside, each noise at 1 and 5 %, each with a library that
has all terms of the law and with one that lacks one of them, from several trajectories and from
one. The seed is a date: data of another day are other data. All of it takes hours on one core;
`--share` takes a random part. A law is right if its terms are the true ones (benchmarks/wide.py
compares those with parameters), and a wrong one is excused if the true law is among the rivals.

`--p-values` looks at the true laws alone: how often the test of adequacy gives less than 0.01 and
0.1, for each kind of noise.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from known import terms
from wide import shapes
from wide_systems import SUITE

import sjepa
from sjepa import Law, Library
from sjepa.data import SYSTEMS, Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.data.synthetic.systems import System


# Every third of the suite's thirty laws with parameters inside, and three more.
WIDE = [*SUITE[::3], SUITE[1], SUITE[13], SUITE[22]]
LEVELS = (0.01, 0.05)
# Trajectories of the laws with parameters where several are given, and their points.
SEVERAL, POINTS = 6, 200


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...], rho: float) -> np.ndarray:
    e = rng.standard_normal(shape)
    for i in range(1, len(e)):
        e[i] = rho * e[i - 1] + np.sqrt(1 - rho**2) * e[i]
    return e


def noisy(kind: str, data: Trajectories, level: float, rng: np.random.Generator) -> Trajectories:
    """The data with noise of one kind, `level` times the spread of each state."""
    every = np.concatenate(data.x)
    spread, width = every.std(axis=0), np.ptp(every, axis=0)
    noisy_data = []
    for x in data.x:
        e = rng.standard_normal(x.shape)
        if kind == "level by trajectory":
            noise = level * x.std(axis=0) * e
        elif kind.startswith("AR(1)"):
            noise = level * spread * autoregressive(rng, x.shape, float(kind.split()[1]))
        elif kind == "multiplicative":
            noise = level * np.abs(x) * e
        elif kind == "Student t(3)":
            noise = level * spread * rng.standard_t(3, x.shape) / np.sqrt(3)
        elif kind == "1 % outliers":
            noise = level * spread * np.where(rng.random(x.shape) < 0.01, 10.0, 1.0) * e
        elif kind == "rounding":  # to 1 % of the range at both levels, 5 % would leave 20 values
            step = 0.01 * width
            noise = np.round(x / step) * step - x
        else:
            noise = level * spread * e
        noisy_data.append(x + noise)
    return Trajectories(noisy_data, data.t, data.u, names=data.names, input_names=data.input_names)


NOISES = (
    "white", "level by trajectory", "AR(1) 0.5", "AR(1) 0.9", "multiplicative", "Student t(3)",
    "1 % outliers", "rounding",
)  # fmt: skip


def clean(system: System, several: bool, seed: int) -> Trajectories:
    if not several:
        return simulate(system, seed=seed, trajectories=1, points=512)
    if system.trajectories > 1:
        return simulate(system, seed=seed)
    return simulate(system, seed=seed, trajectories=SEVERAL, points=POINTS)


def lacking(system: System, law: Law, data: Trajectories) -> list[str]:
    """The law's own terms and all monomials of degree two, less a term that matters.

    That is the second largest of all; of laws with parameters inside, those terms. Terms that would
    imitate what is missing (sin x + x**3/6 is x within a thousandth) are not in this library.
    """
    names = [*system.inputs, *system.actions]
    library = Library.polynomial(names, 2)
    if system in WIDE:
        return library.names
    true_terms = list(dict.fromkeys(t for row in law.terms for _, t in row))
    inputs = np.concatenate(
        [np.concatenate([x, *(() if data.u is None else (data.u[i],))], axis=1)
         for i, x in enumerate(data.x)]
    )  # fmt: skip
    values = Library(true_terms, names, canonical=False).numpy()(inputs).std(axis=0)
    spread = dict(zip(true_terms, values.tolist(), strict=True))
    pairs = [pair for row in law.terms for pair in row]
    pairs.sort(key=lambda pair: abs(pair[0]) * spread[pair[1]])
    gone = pairs[-min(2, len(pairs))][1]
    remaining = [t for t in dict.fromkeys([*library.terms, *true_terms]) if t != gone]
    return Library(remaining, names, canonical=False).names


def cells() -> Iterator[tuple[System, str, float, bool, bool]]:
    for system in (*SYSTEMS.values(), *WIDE):
        for noise in NOISES:
            for level in LEVELS:
                for whole in (True, False):
                    for several in (True, False):
                        yield system, noise, level, whole, several


def trial(
    system: System, noise: str, level: float, whole: bool, several: bool, seed: int
) -> dict[str, Any]:
    true = Law.from_string(list(system.equations), [*system.inputs, *system.actions])
    rng = np.random.default_rng(seed)
    data = noisy(noise, clean(system, several, seed), level, rng)
    library = None if whole else lacking(system, true, data)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        front = sjepa.discover(data, library=library, verbose=False)
    seconds = time.process_time() - begin
    verdict = front.verdict

    def right(law: Law) -> bool:
        return terms(law) == terms(true) or shapes(law) == shapes(true)

    law_found = front.best()
    return {
        "system": system.name, "noise": noise, "level": level, "library": "full" if whole else
        "lacks a term", "trajectories": "several" if several else "one", "seed": seed,
        "right": right(law_found),
        "verdict": "none" if verdict is None else verdict.word,
        "excused": verdict is not None and any(right(r.law) for r in verdict.rivals),
        "p": None if verdict is None else verdict.figures.get("p_value"),
        "seconds": round(seconds, 2), "law": "; ".join(law_found.lines(digits=3)),
    }  # fmt: skip


def table(rows: pd.DataFrame) -> str:
    """Right and wrong laws against the verdict, a row for each noise and number of trajectories."""
    summary = []
    for (several, noise), part in rows.groupby(["trajectories", "noise"], sort=False):
        right, wrong = part[part.right], part[~part.right]
        row: dict[str, Any] = {"trajectories": several, "noise": noise}
        for name, laws in (("right", right), ("wrong", wrong)):
            for word in ("adequate", "not adequate", "undecided"):
                row[f"{name}, {word}"] = int((laws.verdict == word).sum())
        row["wrong, adequate, truth no rival"] = int(
            ((wrong.verdict == "adequate") & ~wrong.excused).sum()
        )
        row["right flagged"] = f"{100 * (right.verdict == 'not adequate').mean():.1f} %"
        summary.append(row)
    return pd.DataFrame(summary).to_string(index=False)


def p_values(count: int, seed: int) -> str:
    """Shares of p-values of true laws below 0.01 and 0.1, over `count` data sets for each noise."""
    from sjepa.inference.evidence import Simulation
    from sjepa.inference.segments import Segments

    rng = np.random.default_rng(seed)
    names = [n for n in SYSTEMS if n not in ("michaelis_menten", "forced_oscillator")]
    values = []
    for noise in NOISES:
        ps = []
        for k in range(count):
            system = SYSTEMS[names[k % len(names)]]
            law = Law.from_string(list(system.equations), list(system.inputs))
            start = int(rng.integers(2**31))
            data = noisy(noise, clean(system, True, start), float(rng.choice(LEVELS)), rng)
            simulation = Simulation(Segments.of(data), lambda law: 0.0)
            p = simulation.adequacy(law).p_value
            if p is not None:
                ps.append(p)
        below = np.array(ps)
        values.append(
            {"noise": noise, "data sets": len(ps), "p < 0.01": (below < 0.01).mean(),
             "p < 0.1": (below < 0.1).mean(), "p < 0.5": (below < 0.5).mean()}
        )  # fmt: skip
        print(values[-1], flush=True)
    return pd.DataFrame(values).round(3).to_string(index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=20261118)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--part", default="1/1", help="k/n: every n-th cell, from the k-th")
    parser.add_argument("--out", help="a CSV file; rows are added as they come")
    parser.add_argument("--p-values", type=int, default=0, help="data sets for each noise")
    args = parser.parse_args()
    if args.p_values:
        print(p_values(args.p_values, args.seed))
        return
    k, n = map(int, args.part.split("/"))
    rng = np.random.default_rng(args.seed)
    drawn = [(c, int(rng.integers(2**31))) for c in cells() if rng.random() < args.share]
    rows = []
    for cell, seed in drawn[k - 1 :: n]:
        rows.append(trial(*cell, seed))
        print(" ".join(f"{v}" for v in rows[-1].values()), flush=True)
        if args.out:
            pd.DataFrame(rows).to_csv(args.out, index=False)
    print("\n" + table(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
