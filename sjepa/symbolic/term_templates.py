"""Templates of parametric terms: x/(c + x), exp(a*x), x**p.

A template is a term with free nonlinear parameters. Searches on a list of terms see it at a few
initial guesses, chosen by the scale of the data; the best of those are then optimized.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, product
from typing import Any

import numpy as np
import sympy

from sjepa.errors import LawError
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.complexity import term_weight
from sjepa.symbolic.law import TIME, Law
from sjepa.symbolic.operators import SPELLINGS
from sjepa.symbolic.parse import CONSTANTS, check_names, parse, symbol


# How the user writes a nonlinear parameter: one lower-case letter, perhaps with digits.
_OPEN = re.compile(r"(?<![\w.])[a-z]\d*(?!\w)(?!\s*\()")
POWERS = (-3.0, -2.0, -1.0, -0.5, 1 / 3, 0.5, 2 / 3, 1.5, 2.5)
# Places of one number, and how far they reach in units of the data's own scale.
PLACES, LOW, HIGH = 8, 0.2, 5.0
CENTERS = (0.15, 0.5, 0.85)
MAX_PLACES = 60
# Waves of the time: phases of each, the fewest samples in a period, and the most places.
PHASES, PER_TURN, MAX_WAVES = (0.0, math.pi / 3, 2 * math.pi / 3), 6, 1000
HALF_PHASE = math.pi / 6
# Columns that reach so many times their typical size stand next to a pole.
STEEP = 1e4


@dataclass(frozen=True)
class TermTemplate:
    """A term of some inputs with free nonlinear parameters.

    Examples
    --------
    >>> template = TermTemplate.read("x/(c + x)", ["x"])
    >>> template.constants, template.at([0.5])
    (('c',), x/(2*x + 1))
    """

    expr: sympy.Expr
    inputs: tuple[str, ...]
    constants: tuple[str, ...]

    @classmethod
    def read(cls, text: str, inputs: Sequence[str]) -> TermTemplate:
        """From text; lower-case letters that are not inputs are nonlinear parameters."""
        names = check_names(inputs, "input")
        constants = nonlinear_parameters(text, names)
        shape = cls(parse(text, [*names, *constants]), names, constants)
        for c in map(symbol, constants):
            if not shape.expr.xreplace({c: c + 1}).as_independent(c)[1].free_symbols - {c}:
                raise LawError(
                    f"{text}: {c} stands alone; a nonlinear parameter belongs inside a term."
                )
            if (shape.expr / c).has(c) is False:
                raise LawError(f"{text}: every term has a coefficient already; leave {c} out.")
        return shape

    @classmethod
    def of(cls, term: sympy.Expr, inputs: Sequence[str]) -> tuple[TermTemplate, tuple[float, ...]]:
        """A term with its doubles as free parameters, and their values."""
        (expr,), symbols, values = Law([term], inputs, ["y"], canonical=False).skeleton
        names = [f"inner_{i + 1}" for i in range(len(symbols))]
        renamed = dict(zip(symbols, map(symbol, names), strict=True))
        return cls(expr.xreplace(renamed), tuple(inputs), tuple(names)), tuple(values.tolist())

    def expr_at(self, values: Sequence[float]) -> sympy.Expr:
        """The term with these numbers as it stands, whatever factor that leaves."""
        pairs = zip(self.constants, values, strict=True)
        return self.expr.xreplace({symbol(c): sympy.Float(float(v)) for c, v in pairs})

    def at(self, values: Sequence[float]) -> sympy.Expr:
        """The term with these numbers, canonical and without a factor."""
        return canonicalize(self.expr_at(values)).as_coeff_Mul()[1]

    @cached_property
    def _run(self) -> Law:
        return Law([self.expr], [*self.inputs, *self.constants], ["y"], "discrete", canonical=False)

    @cached_property
    def _numpy(self) -> Any:
        return self._run.numpy()

    def columns(self, x: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Values (n, places) at inputs (n, d) for numbers (places, constants)."""
        places = np.asarray(places, dtype=float)
        z = np.empty((len(places), len(x), x.shape[1] + places.shape[1]))
        z[..., : x.shape[1]] = x
        z[..., x.shape[1] :] = places[:, None]
        return self._numpy(z)[..., 0].T

    @cached_property
    def _slopes(self) -> Any:
        slopes = [sympy.diff(self.expr, symbol(c)) for c in self.constants]
        names = [f"y{i}" for i in range(1 + len(slopes))]
        return Law(
            [self.expr, *slopes], self._run.inputs, names, "discrete", canonical=False
        ).numpy()

    def with_slopes(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values and derivatives by the numbers (n, 1 + constants)."""
        return self._slopes(
            np.concatenate([x, np.broadcast_to(values, (len(x), len(values)))], axis=1)
        )

    def places(self, x: np.ndarray) -> np.ndarray:
        """Initial guesses (places, constants) for inputs (n, d); none where undefined."""
        free = {symbol(c) for c in self.constants}
        roles = [self._role(symbol(c), free) for c in self.constants]
        steps = [
            self._values(kind, e, x, c) for (kind, e), c in zip(roles, self.constants, strict=True)
        ]
        rows = []
        for chosen in product(*(s if s is not None else [None] for s in steps)):
            known = dict(zip(self.constants, chosen, strict=True))
            open_ = [c for c, v in known.items() if v is None]
            if not open_:
                rows.append(chosen)
                continue
            (c,) = open_  # an offset beside a rate: the middle of the step lies in the data
            e = roles[self.constants.index(c)][1]
            values = _evaluate(
                e.xreplace({symbol(k): sympy.Float(v) for k, v in known.items() if v is not None}),
                self.inputs,
                x,
            )
            wave = self._is_wave(c)
            for shift in PHASES if wave else -np.quantile(values, CENTERS):
                rows.append(tuple(shift if k == c else v for k, v in known.items()))
        places = np.array(rows, dtype=float).reshape(len(rows), len(self.constants))
        columns = self.columns(x, places)
        size = np.abs(columns)
        with np.errstate(invalid="ignore"):
            good = np.isfinite(columns).all(axis=0) & (
                size.max(axis=0) <= STEEP * np.median(size, axis=0)
            )
        return places[good][: MAX_WAVES if self.is_clock else MAX_PLACES]

    def reach(self, values: Sequence[float]) -> np.ndarray:
        """How far around `values` a term is about linear in its parameters.

        Half a number, and of a phase half the way to the next place.
        """
        each = zip(self.constants, values, strict=True)
        return np.array([HALF_PHASE if self._is_phase(c) else 0.5 * abs(v) for c, v in each])

    def _is_phase(self, c: str) -> bool:
        """Whether a number stands alone beside the rest of a wave's argument."""
        waves = self.expr.atoms(sympy.sin, sympy.cos)
        return any(symbol(c) in sympy.Add.make_args(f.args[0]) for f in waves)

    def _is_wave(self, c: str) -> bool:
        return any(f.has(symbol(c)) for f in self.expr.atoms(sympy.sin, sympy.cos))

    @property
    def is_clock(self) -> bool:
        """Whether it has waves of the time."""
        waves = self.expr.atoms(sympy.sin, sympy.cos)
        return any(f.free_symbols <= {symbol(n) for n in (TIME, *self.constants)} for f in waves)

    def _role(self, c: sympy.Symbol, free: set[sympy.Symbol]) -> tuple[str, sympy.Expr]:
        """What a number does: an exponent, a rate before something, an offset beside it."""
        for node in sympy.preorder_traversal(self.expr):
            if node.is_Pow and c in node.exp.free_symbols:
                return "power", node.base
            if node.is_Mul and c in node.args:
                return "rate", node / c
            if node.is_Add and c in node.args:
                return "offset", node - c
        raise LawError(f"{self.expr}: cannot tell what {c} does; write it as c*x, c + x or x**c.")

    def _values(self, kind: str, e: sympy.Expr, x: np.ndarray, c: str) -> list[float] | None:
        if kind == "power":
            return list(POWERS)
        if e.free_symbols & {symbol(o) for o in self.constants}:
            return None
        values = _evaluate(e, self.inputs, x)
        typical, spread = np.sqrt(np.mean(values**2)), values.std()
        if not (np.isfinite(typical) and np.ptp(values) > 0):
            return []
        if kind == "offset":
            first = max(-values.min(), 0.0)
            return list(
                first + np.geomspace(LOW / 4, HIGH, PLACES) * (spread if first else typical)
            )
        if self._is_wave(c):
            # Waves one quarter turn apart over the data; those of time itself may turn often.
            step = 1.5 / np.ptp(values)
            if self.is_clock:
                turns = (len(np.unique(values)) - 1) / PER_TURN
                count = min(
                    int(turns * 2 * math.pi / 1.5),
                    MAX_WAVES // (1 if len(self.constants) == 1 else len(PHASES)),
                )
            else:
                count = MAX_PLACES if (np.diff(values) > 0).all() else int(HIGH / spread / step)
                count = min(count, MAX_PLACES)
            return list(step * np.arange(1, count + 1))
        rates = np.geomspace(LOW / np.abs(values).max(), HIGH / spread, PLACES)
        mirrored = self.expr.xreplace({symbol(c): -symbol(c)})
        if mirrored in (self.expr, -self.expr):
            return list(rates)
        return [*rates, *-rates]


def weight(term: sympy.Expr) -> float:
    """What a term costs; a saturating quotient x/(c + x) no more than 1/(c + x).

    Otherwise 1 - c/(c + x), with a coefficient more, would be the cheaper spelling of it.
    """
    top, bottom = sympy.fraction(term)
    if bottom.is_Add:
        for part in (a.as_coeff_Mul()[1] for a in bottom.args):
            if part != 1 and not sympy.fraction(sympy.cancel(top / part))[1].free_symbols:
                return term_weight(top / part / bottom)
    return term_weight(term)


def one_wave(shapes: Sequence[TermTemplate]) -> list[TermTemplate]:
    """The shapes with each sine and cosine of the time that share a letter as one wave.

    sin(w*t) and cos(w*t) mean one frequency, and their sum is sin(w*t + phase).
    """
    found: list[TermTemplate] = []
    for shape in shapes:
        twin = shape.expr.replace(sympy.cos, sympy.sin)
        turned = shape.expr.replace(sympy.sin, sympy.cos)
        other = next((s for s in found if s.expr != shape.expr and s.expr in (twin, turned)), None)
        waves = shape.expr.atoms(sympy.sin, sympy.cos)
        if other is None or len(waves) != 1 or not shape.is_clock:
            found.append(shape)
            continue
        (wave,) = waves
        phase = next(f"a{i}" for i in count(1) if f"a{i}" not in (*shape.inputs, *shape.constants))
        expr = shape.expr.xreplace({wave: sympy.sin(wave.args[0] + symbol(phase))})
        constants = (*shape.constants, phase)
        found[found.index(other)] = TermTemplate(expr, shape.inputs, constants)
    return found


def _evaluate(e: sympy.Expr, inputs: Sequence[str], x: np.ndarray) -> np.ndarray:
    return Law([e], inputs, ["y"], "discrete", canonical=False).numpy()(x)[:, 0]


def nonlinear_parameters(text: str, inputs: Sequence[str]) -> tuple[str, ...]:
    """The letters of a term that stand for nonlinear parameters."""
    known = {*inputs, *SPELLINGS, *CONSTANTS}
    return tuple(dict.fromkeys(n for n in _OPEN.findall(text) if n not in known))


def extended_templates(
    states: Sequence[str], actions: Sequence[str], positive: Sequence[str]
) -> list[TermTemplate]:
    """Quotients, Hill and sigmoid curves, exponentials, logarithms, powers, products of sines.

    Those of `positive` inputs may have a pole or an end at 0.
    """
    names = (*states, *actions)
    a, b = sympy.Symbol("inner_1", real=True), sympy.Symbol("inner_2", real=True)

    def alone(x: sympy.Symbol) -> Iterator[sympy.Expr]:
        yield from (sympy.exp(a * x), sympy.tanh(a * x), 1 / (1 + sympy.exp(a * x + b)))
        # One wave where the origin of x is a convention: sin and cos would need the same number.
        yield from (sympy.sin(a * x), sympy.cos(a * x), sympy.sin(a * x + b))
        yield from (x**2 / (a + x**2), 1 / (a + x**2))
        if str(x) in positive:
            yield from (x / (a + x), 1 / (a + x), x**3 / (a + x**3), 1 / (a + x**3))
            yield from (sympy.log(1 + a * x), sympy.log(x), x * sympy.log(x), x**a)
        else:
            yield from (sympy.Abs(x) ** a, sympy.sign(x) * sympy.Abs(x) ** a)

    def factors(x: sympy.Symbol) -> Iterator[sympy.Expr]:
        """What another state may multiply."""
        yield from (sympy.exp(a * x), x**2 / (a + x**2), 1 / (a + x**2))
        yield from (sympy.sin(x), sympy.cos(x))
        if str(x) in positive:
            yield from (x / (a + x), 1 / (a + x), sympy.log(1 + a * x), sympy.log(x), x**a)

    z = [symbol(n) for n in states]
    found = [e for x in z for e in alone(x)] + [x * sympy.exp(a * x) for x in z]
    found += [y * e for x in z for y in map(symbol, names) if y != x for e in factors(x)]
    for i, x in enumerate(z):
        found += [sympy.sin(x) * sympy.cos(x), sympy.sin(x) ** 2]
        for y in z[i + 1 :]:
            found += [f(x) * g(y) for f in (sympy.sin, sympy.cos) for g in (sympy.sin, sympy.cos)]
            found += [sympy.sin(x - y), sympy.cos(x - y), sympy.sin(x + y), sympy.cos(x + y)]
    rows = []
    for expr in found:
        used = tuple(str(s) for s in (a, b) if expr.has(s))
        rows.append(TermTemplate(expr, names, used))
    return rows
