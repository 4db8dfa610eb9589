"""Pairs of calls that differ by what must not change a law: units, offsets, order, cuts, company.

    python -m tests.inference.metamorphic 200 --seed 7

A system is simulated and discovered, then changed by a random element of the group and discovered
again. Both laws are compared with the true one, written in the units and order of their data. A
pair is wrong if the change loses a law that was found; it is silent if the verdict then neither
withholds nor names the true law among the alternatives.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy

import sjepa
from sjepa import Front, Law
from sjepa.data import Trajectories
from sjepa.data.synthetic.simulate import find_system, simulate
from sjepa.data.synthetic.systems import SYSTEMS


Array = np.ndarray
# Terms outside the default library where the origin is moved: these keep theirs.
PINNED = ("drag_pendulum", "michaelis_menten")
NOISE = 0.01
# A shorter piece of a trajectory is no trajectory of its own.
SHORTEST = 40


@dataclass(frozen=True)
class Change:
    """An element of the group: columns and time in other units, and so on; the rest as before."""

    states: Array
    inputs: Array
    time: float = 1.0
    offset: Array | None = None  # in standard deviations
    columns: Array | None = None
    trajectories: Array | None = None
    cut: tuple[int, float] | None = None
    twice: bool = False
    company: str = ""
    phase: float = 0.0
    storage: str = ""
    kinds: tuple[str, ...] = ()

    KINDS = ("units", "time", "offset", "columns", "trajectories", "cut", "twice", "company",
             "storage")  # fmt: skip

    @classmethod
    def draw(cls, rng: np.random.Generator, data: Trajectories, name: str) -> Change:
        d = data.obs_shape[0]
        m = 0 if data.u is None else data.u[0].shape[1]
        kinds = [k for k in cls.KINDS if rng.random() < 0.3] or [str(rng.choice(cls.KINDS))]
        if "offset" in kinds and name in PINNED:
            kinds = [k for k in kinds if k != "offset"] or ["units"]
        one = cls(np.ones(d), np.ones(m), phase=rng.uniform(0, 6), kinds=tuple(kinds))
        values: dict[str, Any] = {}
        for kind in kinds:
            if kind == "units":
                values["states"] = 10 ** rng.uniform(-8, 8, d)
                values["inputs"] = 10 ** rng.uniform(-8, 8, m)
            elif kind == "time":
                values["time"] = 10 ** rng.uniform(-8, 8)
            elif kind == "offset":
                values["offset"] = rng.uniform(-3, 3, d)
            elif kind == "columns":
                values["columns"] = rng.permutation(d)
            elif kind == "trajectories":
                values["trajectories"] = rng.permutation(len(data))
            elif kind == "cut":
                values["cut"] = (int(rng.integers(len(data))), rng.uniform(0.2, 0.8))
            elif kind == "twice":
                values["twice"] = True
            elif kind == "company":
                values["company"] = str(rng.choice(["oscillator", "wave", "decay"]))
            else:
                kinds_of = ["single", "Fortran", "big-endian", "strided", "reversed", "frozen"]
                values["storage"] = str(rng.choice(kinds_of))
        return replace(one, **values)

    def __str__(self) -> str:
        units = ", ".join(f"{v:.2g}" for v in (*self.states, *self.inputs))
        parts = {
            "units": f"units {units}", "time": f"time {self.time:.2g}",
            "offset": f"offset {self.offset}", "columns": f"columns {self.columns}",
            "cut": f"cut {self.cut}", "company": self.company, "storage": self.storage,
        }  # fmt: skip
        return "; ".join(parts.get(kind, kind) for kind in self.kinds)

    def data(self, given: Trajectories, noise: float = 0.0) -> Trajectories:
        """The data changed; columns that are added are as noisy as the rest."""
        spread = np.concatenate(given.x).std(axis=0)
        x = [a + (0.0 if self.offset is None else self.offset * spread) for a in given.x]
        x, t = [a * self.states for a in x], [a * self.time for a in given.t]
        u = None if given.u is None else [a * self.inputs for a in given.u]
        names = list(given.names or ())
        if self.columns is not None:
            x, names = [a[:, self.columns] for a in x], [names[k] for k in self.columns]
        if self.company:
            rng = np.random.default_rng(round(1e6 * self.phase))
            extra = [self._company(a, i) for i, a in enumerate(given.t)]
            level = noise * np.concatenate(extra).std(axis=0)
            extra = [a + level * rng.normal(size=a.shape) for a in extra]
            x = [np.concatenate(pair, axis=1) for pair in zip(x, extra, strict=True)]
            names += [f"w{k + 1}" for k in range(extra[0].shape[1])]
        if self.cut is not None:
            which, where = self.cut
            at = int(np.clip(where * len(x[which]), SHORTEST, len(x[which]) - SHORTEST))
            for rows in filter(None, (x, t, u)):
                rows[which : which + 1] = [rows[which][:at], rows[which][at:]]
        first = range(len(x)) if self.trajectories is None else self.trajectories.tolist()
        order = [*first, *range(len(first), len(x))] * (1 + self.twice)
        x, t = [self._stored(x[k]) for k in order], [t[k] for k in order]
        u = None if u is None else [u[k] for k in order]
        return Trajectories(x, t, u, names=names, input_names=given.input_names)

    def _company(self, t: Array, number: int) -> Array:
        """Columns that have nothing to do with the law, in time with its step."""
        own = np.arange(len(t)) * 0.07 + self.phase + 1.3 * number
        if self.company == "oscillator":
            return np.stack([np.cos(own), -np.sin(own)], axis=1)
        if self.company == "wave":
            return np.sin(own)[:, None]
        return np.exp(-0.3 * (own - self.phase))[:, None]

    def _stored(self, a: Array) -> Array:
        if self.storage == "single":
            return a.astype(np.float32)
        if self.storage == "Fortran":
            return np.asfortranarray(a)
        if self.storage == "big-endian":
            return a.astype(">f8")
        if self.storage == "strided":
            return np.repeat(np.repeat(a, 2, axis=0), 3, axis=1)[::2, ::3]
        if self.storage == "reversed":
            return np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]
        a = a.copy()
        a.flags.writeable = self.storage != "frozen"
        return a

    def truth(self, name: str, given: Trajectories) -> dict[str, list[sympy.Expr]]:
        """The true equations in these units, by output; each in every form that is right."""
        system, spread = find_system(name), np.concatenate(given.x).std(axis=0)
        law = Law.from_string(list(system.equations), [*system.inputs, *system.actions])
        shift = np.zeros(len(spread)) if self.offset is None else self.offset * spread
        symbols = dict(zip(law.inputs, law.symbols, strict=True))
        own = {
            symbols[n]: symbols[n] / sympy.Float(a) - sympy.Float(c)
            for n, a, c in zip(system.inputs, self.states, shift, strict=True)
        }
        own |= {symbols[n]: symbols[n] / sympy.Float(a)
                for n, a in zip(system.actions, self.inputs, strict=True)}  # fmt: skip
        found = {}
        for n, e, a in zip(system.inputs, law.expressions, self.states, strict=True):
            moved = sympy.Float(a / self.time) * e.subs(own, simultaneous=True)
            forms = [moved, sympy.expand(moved), sympy.expand(moved, trig=True)]
            if name == "michaelis_menten":  # a s/(s + k) is a - a k/(s + k)
                forms.append(sympy.apart(moved, symbols["s"]))
            found[n] = forms
        return found


@dataclass
class Outcome:
    """What became of one pair."""

    system: str
    noise: float
    change: Change
    before: str
    after: str
    seconds: float
    law: str = ""
    kinds: tuple[str, ...] = field(default=())

    @property
    def wrong(self) -> bool:
        return self.before == "right" and self.after not in ("right", "refused")

    def __str__(self) -> str:
        return (
            f"{self.system} {self.noise:g} ({self.change}): {self.before} -> {self.after}: "
            f"{self.law} [{self.seconds:.1f} s]"
        )


def _structure(expression: sympy.Expr, inputs: tuple[str, ...]) -> sympy.Expr:
    law = Law([expression], inputs, ["y"], "discrete")
    return law.with_free_terms().skeleton[0][0]


def is_right(law: Law, truth: dict[str, list[sympy.Expr]]) -> bool:
    """Whether each equation of the truth has the true terms."""
    rows = dict(zip(law.outputs, law.expressions, strict=True))
    return all(
        _structure(rows[name], law.inputs) in [_structure(e, law.inputs) for e in forms]
        for name, forms in truth.items()
    )


def answer(front: Front, truth: dict[str, list[sympy.Expr]]) -> str:
    """Whether the law is right, and what is said where it is not."""
    if is_right(front.best(), truth):
        return "right"
    verdict = front.verdict
    if verdict is None or verdict.adequate is None:
        return "undecided"
    if not verdict.adequate:
        return "warned"
    return "named" if any(is_right(r.law, truth) for r in verdict.rivals) else "silent"


def pairs(
    count: int, seed: int, each: int = 5, names: Sequence[str] = tuple(SYSTEMS),
    level: float | None = None,
) -> Iterator[Outcome]:  # fmt: skip
    """Random pairs; `each` of them share the call that they are compared with."""
    rng, levels = np.random.default_rng(seed), [0.0, NOISE] if level is None else [level]
    for number in range(count):
        if number % each == 0:
            name, noise = str(rng.choice(list(names))), float(rng.choice(levels))
            given = simulate(name, seed=int(rng.integers(2**31)), noise=noise)
            d, m = given.obs_shape[0], len(find_system(name).actions)
            plain = Change(np.ones(d), np.ones(m))
            before, _ = _discovered(given, plain.truth(name, given))
        change = Change.draw(rng, given, name)
        start = time.process_time()
        after, law = _discovered(change.data(given, noise), change.truth(name, given))
        yield Outcome(name, noise, change, before, after, time.process_time() - start, law)


def _discovered(data: Trajectories, truth: dict[str, list[sympy.Expr]]) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            front = sjepa.discover(data, verbose=False)
        except sjepa.errors.DataError as error:
            return "refused", str(error)
    return answer(front, truth), "; ".join(front.best().lines(digits=4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--without", nargs="*", default=[], help="systems to leave out")
    given = parser.parse_args()
    names = [n for n in SYSTEMS if n not in given.without]
    counts: Counter[str] = Counter()
    for number, outcome in enumerate(pairs(given.count, given.seed, names=names), 1):
        counts[f"{outcome.before} -> {outcome.after}"] += 1
        if number % 50 == 0:
            print(f"{number} pairs, {time.process_time():.0f} s CPU: {dict(counts)}", flush=True)
        if outcome.wrong or outcome.after == "refused" or outcome.seconds > 20:
            print(outcome, flush=True)
    print(f"seed {given.seed}: {given.count} pairs, {dict(counts)}")


if __name__ == "__main__":
    main()
