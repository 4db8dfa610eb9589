"""Laws of known states: how many points, which actions, and 21 yearly counts.

``python benchmarks/discovery.py [--seed 101] [--parts counts,actions,sizes]``, under ten
minutes on one core.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from outcomes import Record, add_option, outcome, table
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Law
from sjepa.errors import NumericalWarning


STEP = 0.05
POINTS = (400, 2_000, 10_000, 100_000)
PIECE = 200

# Right-hand sides in plain numpy, and the terms of each equation.
FREE: dict[str, tuple[Callable[..., Any], list[float], list[set[str]]]] = {
    "pendulum": (lambda t, s: [s[1], -np.sin(s[0])], [2.0, 0.3], [{"v"}, {"sin(x)"}]),
    "van der Pol": (
        lambda t, s: [s[1], (1 - s[0] ** 2) * s[1] - s[0]],
        [0.5, 0.0],
        [{"v"}, {"v", "v*x**2", "x"}],
    ),
}
DRIVEN: dict[str, tuple[Callable[..., Any], list[set[str]]]] = {
    "pendulum": (
        lambda s, u: [s[1], -np.sin(s[0]) - 0.2 * s[1] + u],
        [{"v"}, {"sin(x)", "v", "u1"}],
    ),
    "Duffing": (
        lambda s, u: [s[1], s[0] - s[0] ** 3 - 0.3 * s[1] + u],
        [{"v"}, {"x", "x**3", "v", "u1"}],
    ),
}
# Yearly counts from 1900 to 1920, in thousands.
HARE = (
    "30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6 14.6 16.2 "
    "24.7"
)
LYNX = "4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6"


def found(x: Any, t: Any, terms: Sequence[set[str]], **options: Any) -> tuple[bool, str, bool, str]:
    """Whether the chosen law has these terms; the form; whether a warning came; the law."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NumericalWarning)
        front = sjepa.discover(x, t, **options)
    law = front.best()
    warned = any(issubclass(w.category, NumericalWarning) for w in caught)
    return has_terms(law, terms), front.form, warned, "; ".join(law.lines(3))


def has_terms(law: Law, terms: Sequence[set[str]]) -> bool:
    return [{str(term) for _, term in pairs} for pairs in law.terms] == list(terms)


def sizes(seed: int, backend: str | None) -> None:
    print("| system | noise | points | whole | pieces of 200 | CPU seconds |\n" + 6 * "|---" + "|")
    for name, (field, start, terms) in FREE.items():
        t = STEP * np.arange(max(POINTS))
        path = solve_ivp(field, (0, t[-1]), start, "DOP853", t, rtol=1e-9, atol=1e-10).y.T
        for noise in (0.0, 0.01):
            for n in POINTS:
                rng = np.random.default_rng([seed, n])
                x = path[:n] + noise * path[:n].std(axis=0) * rng.normal(size=(n, 2))
                begin = time.process_time()
                parts = [slice(i, i + PIECE) for i in range(0, n, PIECE)]
                readings = [(x, t[:n]), ([x[p] for p in parts], [t[:n][p] for p in parts])]
                answers = [
                    found(a, b, terms, feature_names=["x", "v"], backend=backend)
                    for a, b in readings
                ]
                words = [f"exact ({a[1]})" if a[0] else f"{a[3]} ({a[1]})" for a in answers]
                spent = time.process_time() - begin
                print(f"| {name} | {noise:.0%} | {n:,} | {' | '.join(words)} | {spent:.1f} |")


def signals(rng: np.random.Generator, t: np.ndarray) -> dict[str, tuple[np.ndarray, Any]]:
    """What is recorded at the times t, and what drives: a function of time, or None if held."""
    rate, phase = rng.uniform(0.3, 2.5, 3), rng.uniform(0, 6.28, 3)

    def smooth(s: Any) -> Any:
        return 0.4 * np.sin(np.multiply.outer(s, rate) + phase).sum(-1)

    def chirp(s: Any) -> Any:
        return 0.8 * np.sin(0.3 * s + 2.5 / 2 * s**2 / t[-1])

    levels = np.repeat(rng.normal(size=len(t) // 10 + 1), 10)[: len(t)] * 0.7
    binary = np.repeat(rng.choice([-0.7, 0.7], len(t) // 7 + 1), 7)[: len(t)]
    noise = 0.02 * rng.normal(size=len(t))
    return {
        "smooth": (smooth(t), smooth),
        "noisy smooth": (smooth(t) + noise * smooth(t).std(), smooth),
        "held": (levels, None),
        "held with noise": (levels + noise * levels.std(), levels),
        "chirp": (chirp(t), chirp),
        "PRBS": (binary, None),
    }


def driven(
    field: Callable[..., Any], t: np.ndarray, recorded: np.ndarray, drive: Any
) -> np.ndarray:
    """States at t, by an adaptive solver; held actions are integrated step by step."""
    if callable(drive):
        solution = solve_ivp(
            lambda s, z: field(z, drive(s)),
            (0, t[-1]),
            [1.0, 0.0],
            "DOP853",
            t,
            rtol=1e-9,
            atol=1e-10,
        )
        return solution.y.T
    levels = recorded if drive is None else drive
    states = [np.array([1.0, 0.0])]
    for k in range(len(t) - 1):
        step = solve_ivp(
            lambda s, z, u: field(z, u), t[k : k + 2], states[-1], "DOP853", args=(levels[k],),
            rtol=1e-8, atol=1e-9,
        )  # fmt: skip
        states.append(step.y[:, -1])
    return np.array(states)


def actions(seed: int, backend: str | None, noise: float, record: Record) -> None:
    for s, (name, (field, terms)) in enumerate(DRIVEN.items()):
        for times in ("even", "uneven"):
            rng = np.random.default_rng([seed, s, times == "even"])
            steps = np.full(799, STEP) if times == "even" else STEP * rng.uniform(0.4, 1.6, 799)
            t = np.concatenate([[0.0], np.cumsum(steps)])
            for signal, (recorded, drive) in signals(rng, t).items():
                x = driven(field, t, recorded, drive)
                x = x + noise * x.std(axis=0) * rng.normal(size=x.shape)
                options = {"u": recorded, "feature_names": ["x", "v"], "backend": backend}
                record.add(
                    outcome(
                        partial(sjepa.discover, x, t, verbose=False, **options),
                        partial(has_terms, terms=terms),
                        suite="actions", search=backend or "default", noise=noise,
                        system=f"{name}, {times} times, {signal}", seed=seed,
                    )
                )  # fmt: skip


def counts(backend: str | None) -> None:
    x = np.array([HARE.split(), LYNX.split()], dtype=float).T
    terms = [{"hare", "hare*lynx"}, {"lynx", "hare*lynx"}]
    good, form, warned, law = found(x, 1.0, terms, feature_names=["hare", "lynx"], backend=backend)
    print(f"\nHare and lynx, 21 years: {'Lotka-Volterra' if good else 'not Lotka-Volterra'}, {law}")
    print(f"form {form}, {'with' if warned else 'without'} a warning")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--backend", default=None)
    parser.add_argument("--parts", default="counts,actions,sizes")
    parser.add_argument("--noise", default="0,0.005", help="of states under actions")
    add_option(parser)
    args = parser.parse_args()
    parts = args.parts.split(",")
    print(f"backend {args.backend}, seed {args.seed}\n")
    if "counts" in parts:
        counts(args.backend)
    if "actions" in parts:
        record = Record(args.out)
        for noise in map(float, args.noise.split(",")):
            actions(args.seed, args.backend, noise, record)
        print("\n" + table(record.outcomes) + "\n")
    if "sizes" in parts:
        sizes(args.seed, args.backend)


if __name__ == "__main__":
    main()
