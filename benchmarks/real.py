"""Data as people have them: drives by the clock, of known and unknown frequency.

    python benchmarks/real.py [--seeds 20] [--first 1000] [--noise 0.01] [--suites drive,season]
    python benchmarks/real.py --broken [--seeds 10] [--first 1000]
    python benchmarks/real.py --dead-time [--seeds 20] [--first 1000]

Every seed has its own system: coefficients, frequency, phase and start are drawn. A law is right if
its terms are the true ones, its frequencies within 1 % of the truth, and its simulation from
another start, over times of the data and as long again, has R2 of 0.99 at least. The last suite has
no drive and may not be given one.

With --broken: twelve ways in which data are broken (broken_data.py), and how often the message, the
warning or a reason of the verdict names the cause, another one, or none.

With --dead-time: a cart that a smooth force moves and a tank that a pump fills, whose inputs act
0.3 to 6 samples late or at once, and how far the delay that is found is from the true one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy
from broken_data import BROKEN, Broken
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Front, Law
from sjepa.errors import SjepaError
from sjepa.metrics import path_r2


Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """One system: its law, where it starts, and the terms to search, with frequencies open."""

    law: Law
    starts: Array
    duration: float
    points: int
    library: Sequence[str]
    frequency: float

    def path(self, start: Array, t: Array) -> Array:
        f, inputs = self.law.numpy(), len(self.law.inputs)

        def field(s: float, z: Array) -> Array:
            return np.asarray(f(np.append(z, s)[:inputs]))

        run = solve_ivp(field, (0.0, t[-1]), start, t_eval=t, rtol=1e-10, atol=1e-12)
        return np.asarray(run.y.T)


def wave(size: float, w: float, rng: np.random.Generator, known: bool) -> str:
    """A wave with a sine and a cosine of which neither is negligible, or with a phase."""
    phase = rng.integers(4) * np.pi / 2 + rng.uniform(0.2, np.pi / 2 - 0.2)
    if known:
        return f"{size * np.cos(phase)}*sin({w}*t) + {size * np.sin(phase)}*cos({w}*t)"
    return f"{size}*sin({w}*t + {phase})"


def drive(rng: np.random.Generator, known: bool) -> Problem:
    """An oscillator driven by a sine of any phase."""
    k, c, a, w = rng.uniform([1, 0.1, 0.5, 0.5], [4, 0.5, 2, 3])
    force = wave(a, w, rng, known)
    law = Law.from_string(["p", f"-{k}*q - {c}*p + {force}"], ["q", "p", "t"], ["q", "p"])
    open_ = f"{w}" if known else "w"
    library = ["q", "p", "q**2", "q*p", "q**3", f"sin({open_}*t)", f"cos({open_}*t)"]
    return Problem(law, rng.uniform(-1, 1, (2, 2)), 40.0, 500, library, w)


def season(rng: np.random.Generator, known: bool) -> Problem:
    """An epidemic with births and a contact rate that follows the season."""
    b, e, g, m, w = rng.uniform([1.2, 0.2, 0.3, 0.04, 0.4], [1.8, 0.4, 0.4, 0.08, 0.9])
    rate = f"({b} + {wave(b * e, w, rng, known)})*S*I"
    law = Law.from_string(
        [f"{m} - {m}*S - {rate}", f"{rate} - {g + m}*I"], ["S", "I", "t"], ["S", "I"]
    )
    open_ = f"{w}" if known else "w"
    waves = [f"S*I*sin({open_}*t)", f"S*I*cos({open_}*t)"]
    starts = rng.uniform([0.3, 0.02], [0.6, 0.1], (2, 2))
    return Problem(law, starts, 100.0, 800, ["1", "S", "I", "S*I", *waves], w)


def calm(rng: np.random.Generator, known: bool) -> Problem:
    """An oscillator that nothing drives, damped or on its limit cycle."""
    k, c = rng.uniform([1, 0.1], [4, 0.5])
    damping = f"-{c}*p" if known else f"{c}*p - {c}*q**2*p"
    law = Law.from_string(["p", f"-{k}*q + {damping}"], ["q", "p"])
    library = ["q", "p", "q**2", "q**2*p", "q**3", "sin(w*t)", "cos(w*t)"]
    return Problem(law, rng.uniform(0.5, 1, (2, 2)), 40.0, 500, library, 0.0)


SUITES: dict[str, tuple[Callable[[np.random.Generator, bool], Problem], tuple[str, str]]] = {
    "drive": (drive, ("driven oscillator, known frequency", "driven oscillator, unknown")),
    "season": (
        season,
        ("epidemic with seasons, known frequency", "epidemic with seasons, unknown"),
    ),
    "calm": (calm, ("no drive: damped oscillator", "no drive: Van der Pol")),
}


def shapes(law: Law) -> tuple[list[set[str]], list[float]]:
    """The terms with every wave of the time as one symbol, and the frequencies of the waves."""
    t, rows, frequencies = sympy.Symbol("t", real=True), [], []
    for row in law.terms:
        bare = set()
        for _, term in row:
            waves = [f for f in term.atoms(sympy.sin, sympy.cos) if f.has(t)]
            frequencies += [abs(float(sympy.diff(f.args[0], t))) for f in waves]
            names = {f: sympy.Symbol(f.func.__name__) for f in waves}
            bare.add(str(term.xreplace(names)))
        rows.append(bare)
    return rows, frequencies


def is_right(problem: Problem, front: Front) -> bool:
    law, times = front.best(), np.linspace(0, 2 * problem.duration, 400)
    (terms, numbers), (wanted, _) = shapes(law), shapes(problem.law)
    near = all(abs(n - problem.frequency) <= 0.01 * problem.frequency for n in numbers)
    if terms != wanted or not near:
        return False
    start = problem.starts[1]
    run = law.simulate(start, times)
    return path_r2([run], [problem.path(start, times)]) >= 0.99


def told(make: Callable[[np.random.Generator], Broken], seed: int) -> str:
    """All that is said of data: warnings, errors and the reasons of the verdict."""
    data = make(np.random.default_rng(seed))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if data.table is not None:
                front = sjepa.discover(sjepa.Trajectories.from_frame(data.table, time="t"))
            else:
                front = sjepa.discover(data.x, data.t, feature_names=data.names)
            said = list(front.verdict.reasons) if front.verdict is not None else []
        except SjepaError as error:
            said = [str(error)]
    return " ".join([*said, *(str(one.message) for one in caught)])


def broken(seeds: range) -> None:
    words = {word for _, word in BROKEN.values()}
    sums = np.zeros(3, dtype=int)
    print("| data | cause named | another one | none | s of CPU time, mean |")
    print("|---|---|---|---|---|")
    for name, (make, word) in BROKEN.items():
        begun = time.process_time()
        said = [told(make, seed) for seed in seeds]
        seconds = (time.process_time() - begun) / len(said)
        right = sum(word in text for text in said)
        wrong = sum(word not in text and any(w in text for w in words) for text in said)
        counts = np.array([right, wrong, len(said) - right - wrong])
        sums += counts
        print(f"| {name} | {' | '.join(map(str, counts))} | {seconds:.1f} |", flush=True)
    shares = 100 * sums / sums.sum()
    print(f"| all, % | {' | '.join(f'{share:.0f}' for share in shares)} | |")


def cart(rng: np.random.Generator, step: float) -> Late:
    """A force of five sines on a cart with a spring and friction."""
    a, c, k = rng.uniform([1, 0.2, 0.5], [2, 0.6, 1.5])
    waves, phases, sizes = rng.uniform([[0.3], [0.0], [0.4]], [[2.5], [2 * np.pi], [1.0]], (3, 5))
    force = lambda s: np.sin(np.multiply.outer(s, waves) + phases) @ sizes  # noqa: E731
    field = lambda z, u: np.array([z[1], a * u - c * z[1] - k * z[0]])  # noqa: E731
    return Late(("q", "v"), force, field, rng.normal(size=2), None)


def tank(rng: np.random.Generator, step: float) -> Late:
    """A pump whose voltage is set anew every few samples, and an outlet."""
    a, b = rng.uniform([0.5, 0.4], [1.0, 0.8])
    levels, hold = rng.uniform(0.3, 1.5, 1000), int(rng.integers(3, 9)) * step
    pump = lambda s: levels[np.floor(np.asarray(s) / hold + 1e-9).astype(int) + 50]  # noqa: E731
    field = lambda z, u: a * u - b * np.sqrt(np.maximum(z, 0))  # noqa: E731
    terms = ["1", "h", "sqrt(h)", "h**2", "u1", "u1*h", "u1**2"]
    return Late(("h",), pump, field, rng.uniform(1, 2, 1), terms)


@dataclass(frozen=True)
class Late:
    """A system with one input, which acts some time after it was set."""

    names: Sequence[str]
    u: Callable[[Array | float], Array]
    field: Callable[[Array, Array], Array]
    start: Array
    library: Sequence[str] | None


def dead_time(seeds: range, noise: float) -> None:
    print("| system | delay | within 0.2 samples | interval holds it | s of CPU time, median |")
    print("|---|---|---|---|---|")
    for name, make, step in (("cart", cart, 0.05), ("tank", tank, 0.1)):
        for late in (True, False):
            near, held, seconds = 0, 0, []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                system = make(rng, step)
                delay = float(rng.uniform(0.3, 6)) * step if late else 0.0
                t = np.arange(400) * step
                x = solve_ivp(
                    lambda s, z, of=system, by=delay: of.field(z, of.u(s - by)), (0.0, t[-1]),
                    system.start, t_eval=t, rtol=1e-9, atol=1e-11, max_step=step / 10,
                ).y.T  # fmt: skip
                x = x + noise * x.std(axis=0) * rng.standard_normal(x.shape)
                begun = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    front = sjepa.discover(
                        x, t, u=system.u(t), feature_names=system.names, library=system.library,
                        constraints=[f"delay(u1) <= {8 * step}"],
                    )  # fmt: skip
                seconds.append(time.process_time() - begun)
                figures = front.verdict.figures
                error = (figures["delay(u1)"] - delay) / step
                low, high = (figures.get(f"delay(u1) {end}", 0.0) for end in ("lower", "upper"))
                good = abs(error) < 0.2 if late else not front.best().delays
                near, held = near + good, held + (low <= delay <= high)
                if not good:
                    print(f"<!-- {name}, {seed}: {error:+.2f} samples off, {front.best()!r} -->")
            counts = f"{near} of {len(seeds)} | {held} of {len(seeds)}"
            print(
                f"| {name} | {'0.3 to 6 samples' if late else 'none'} | {counts} "
                f"| {np.median(seconds):.1f} |", flush=True,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--broken", action="store_true")
    parser.add_argument("--dead-time", action="store_true")
    args = parser.parse_args()
    if args.broken:
        broken(range(args.first, args.first + args.seeds))
        return
    if args.dead_time:
        dead_time(range(args.first, args.first + args.seeds), args.noise)
        return
    print("| data | right | right and flagged | wrong and not flagged | s of CPU time, median |")
    print("|---|---|---|---|---|")
    for suite in args.suites.split(","):
        make, titles = SUITES[suite]
        for known, title in zip((True, False), titles, strict=True):
            right, flagged, missed, seconds = 0, 0, 0, []
            for seed in range(args.first, args.first + args.seeds):
                rng = np.random.default_rng(seed)
                problem = make(rng, known)
                t = np.linspace(0, problem.duration, problem.points)
                x = problem.path(problem.starts[0], t)
                x = x + args.noise * x.std(axis=0) * rng.standard_normal(x.shape)
                begun = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    front = sjepa.discover(
                        x, t, feature_names=problem.law.outputs, library=problem.library
                    )
                seconds.append(time.process_time() - begun)
                good = is_right(problem, front)
                flagged_law = front.verdict is not None and front.verdict.adequate is False
                right, flagged = right + good, flagged + (good and flagged_law)
                missed += not good and not flagged_law
                if not good:
                    print(f"<!-- {title}, {seed}: {front.best()!r} / {problem.law!r} -->")
            row = (f"{n} of {args.seeds}" for n in (right, flagged, missed))
            print(f"| {title} | {' | '.join(row)} | {np.median(seconds):.1f} |", flush=True)


if __name__ == "__main__":
    main()
