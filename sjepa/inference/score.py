"""The score of a law in nats: log likelihood less one code length for structure and coefficients.

Noise that is correlated in time repeats itself, so the likelihood counts each correlation time of
the residuals once. The time is that of the law which leaves least: what a worse law leaves besides
noise must not discount the evidence against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy

from sjepa.inference.constants import ODDS, STRUCTURE
from sjepa.inference.noise import Array, correlation_time
from sjepa.symbolic import Law, Library


@dataclass(frozen=True, eq=False)
class Fit:
    """A law fitted to data: log likelihood (B,) of each block of them, and how long it is.

    `parameters` counts the fitted coefficients, `digits` are nats for those that nearly cancel,
    `residual` (n, B, d) is taken where it is asked for, `nuisance` counts the starts and scales
    that were fitted besides.
    """

    law: Law
    log_likelihood: Array
    complexity: float
    parameters: int
    digits: float
    residual: Callable[[], Array]
    values: int
    memory: float = math.inf
    nuisance: int = 0
    information: float = 1.0  # of a value, as a share of one under normal noise

    @cached_property
    def correlation_time(self) -> float:
        """Of the residuals, as far as it is that of noise.

        What varies as slowly as the motion itself may be what the law lacks: `memory` bounds it.
        """
        return min(correlation_time(self.residual()), max(self.memory, 1.0))

    @cached_property
    def total(self) -> float:
        return float(self.log_likelihood.sum())


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of fits to the same data, and the standard errors of their differences.

    `chosen` is the best where others may only be rivals of it. Without `memory` noise is white:
    the residuals of a law that is not adequate are no noise, and discount nothing.
    """

    fits: tuple[Fit, ...]
    chosen: Fit | None = None
    memory: bool = True

    @cached_property
    def correlation_time(self) -> float:
        if not self.memory:
            return 1.0
        return max(self.fits, key=lambda f: f.total).correlation_time

    @cached_property
    def each_parameter(self) -> float:
        """Nats for a coefficient as precise as the data tell it."""
        return 0.5 * math.log(max(self.fits[0].values / self.correlation_time, 1.0))

    def code_length(self, fit: Fit) -> float:
        """Nats for the structure and for its coefficients."""
        length = STRUCTURE * fit.complexity + self.each_parameter * fit.parameters + fit.digits
        return length + _optimism(fit.parameters + fit.nuisance, fit.information * fit.values)

    def score(self, fit: Fit) -> float:
        return fit.total / self.correlation_time - self.code_length(fit)

    @cached_property
    def highest(self) -> Fit:
        return max(self.fits, key=self.score)

    @cached_property
    def best(self) -> Fit:
        """The simplest law whose score is within a standard error of the highest.

        Where a lead is less than its own error, the data do not ask for the longer law.
        """
        if self.chosen is not None:
            return self.chosen
        near = [f for f in self.fits if f is self.highest or self._is_near(f)]
        return min(near, key=lambda f: (f.complexity, -self.score(f)))

    def _is_near(self, fit: Fit) -> bool:
        error = self.standard_error(fit, self.highest)
        behind = self.score(self.highest) - self.score(fit)
        return error is not None and behind <= min(error, ODDS)

    def lead(self, fit: Fit) -> float:
        """Nats by which the best law is ahead of this one."""
        return self.score(self.best) - self.score(fit)

    def standard_error(self, fit: Fit, than: Fit | None = None) -> float | None:
        """Of the lead, from how it varies between blocks (jackknife); None for a single block."""
        ahead = self.best if than is None else than
        gain = (ahead.log_likelihood - fit.log_likelihood) / self.correlation_time
        return float(np.sqrt(len(gain)) * gain.std(ddof=1)) if len(gain) > 1 else None

    @property
    def probability(self) -> float:
        """Of the best law, among those that were compared."""
        # What is forty nats behind adds nothing to a double.
        near = [f for f in sorted(self.fits, key=self.score) if self.lead(f) < 40.0]
        one = {f.law.skeleton[0]: self.lead(f) for f in near}
        return 1.0 / sum(math.exp(min(-lead, 700.0)) for lead in one.values())

    @property
    def decisive(self) -> Fit | None:
        """A law that is ahead of the chosen one beyond the odds and the error of its lead."""
        ahead = self.highest
        lead = self.score(ahead) - self.score(self.best)
        return ahead if lead - (self.standard_error(ahead) or 0.0) > ODDS else None

    @property
    def rivals(self) -> list[Fit]:
        """Other laws within the odds, most likely first."""
        near = [f for f in self.fits if f is not self.best and self.lead(f) < ODDS]
        return sorted(near, key=self.lead)


def _optimism(parameters: int, values: float) -> float:
    """Nats by which few values flatter a fit of many parameters whose scale is profiled.

    Beyond one for each parameter, which is asymptotic (Hurvich and Tsai).
    """
    return parameters * (parameters + 1) / max(values - parameters - 1, 1)


class TermValues:
    """Terms of laws at some points (rows, inputs), each evaluated once."""

    def __init__(self, points: Array) -> None:
        self.points = points
        self._known: dict[sympy.Expr, Array] = {}

    def _of(self, law: Law) -> Mapping[sympy.Expr, Array]:
        new = [t for row in law.terms for _, t in row if t not in self._known]
        if new := list(dict.fromkeys(new)):
            values = Library(new, law.inputs, canonical=False).numpy()(self.points)
            self._known.update(zip(new, values.T, strict=True))
        return self._known

    def cancelling_digits(self, law: Law) -> float:
        """Nats for terms that are larger than their sum: near-canceling ones need more digits."""
        total, values = 0.0, self._of(law)
        for row in law.terms:
            if len(row) < 2:
                continue
            parts = np.stack([c * values[term] for c, term in row], axis=1)
            with np.errstate(over="ignore", invalid="ignore"):  # terms that run away
                size, whole = _root_mean_square(parts), _root_mean_square(parts.sum(axis=1))
            if np.isfinite(size).all() and whole > 0:
                total += float(np.log(np.maximum(size / whole, 1.0)).sum())
        return total


def _root_mean_square(values: Array) -> Array:
    """Of columns whose squares may be larger than any double."""
    largest = np.abs(values).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(largest * np.sqrt(((values / unit) ** 2).mean(axis=0)))
