"""The evidence of laws and their adequacy: by simulation of noisy states, else by regression.

One likelihood, one code length and one test, on one of two residuals. *Simulation* compares states
with states and is right for any noise; it costs a few dozen integrations a law. *Regression*
compares derivatives (or next values, or a column of a table) with the law's; it costs next to
nothing, and noise in the inputs biases it, so it serves where there is none to speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import sympy

from sjepa.data.rows import OnRows
from sjepa.inference.adequacy import Blocks, predictability, predicted_power, whiteness
from sjepa.inference.constants import EXACT, FUNCTIONS, LENGTH, MIN_BLOCKS, SIGNIFICANCE
from sjepa.inference.corrections import bumps, covered, segment_blocks
from sjepa.inference.noise import INFORMATION, Array
from sjepa.inference.score import Fit, TermValues
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import ShootingFit, shoot
from sjepa.symbolic import Law, Library


# Lengths of segments where longer ones make too few blocks.
SHORTER = (LENGTH / 2, LENGTH / 4)
# Blocks of rows in a test of a regression: as many as functions to learn.
BLOCKS = FUNCTIONS
# Inputs that stand for all.
MAX_POINTS = 1_000


class Adequacy(NamedTuple):
    """Whether the residuals of a law are noise, by which test, and the sentence about it."""

    adequate: bool | None
    reason: str
    p_value: float | None = None


@dataclass(eq=False)
class Simulation:
    """Evidence by multiple shooting. Fits are kept: stages of a search share them."""

    segments: Segments
    complexity: Callable[[Law], float]
    refit: bool = True
    grid: Array | float = 0.0  # last digits (d,) of readings, where as coarse as their noise
    cut: Callable[[float], Segments | None] = lambda length: None  # the same data otherwise
    time_left: Callable[[], bool] = lambda: True
    fits: dict[Law, Fit] = field(default_factory=dict)
    shots: dict[Law, ShootingFit] = field(default_factory=dict)
    tested: dict[Law, Adequacy] = field(default_factory=dict)
    longest: float = 0.0  # seconds that a fit took
    _values: TermValues | None = None

    def fit(self, law: Law) -> Fit:
        if law not in self.fits:
            # States that a law went through are nearer to the truth than measured ones.
            best = max(self.shots.values(), key=lambda s: s.log_likelihood, default=None)
            start = None if best is None or best.unexplained.max() > 1 else best.path[0]
            shot = shoot(
                law, self.segments, refit=self.refit, start=start, time_left=self.time_left
            )
            fitted = shot.law.canonical()
            self.shots[law] = shot
            self.fits[law] = Fit(
                fitted, shot.noise.log_likelihood, self.complexity(law),
                len(shot.law.coefficients) if self.refit else 0,
                self._terms(fitted).cancelling_digits(fitted), lambda: shot.residual, shot.values,
                self.segments.memory, shot.path[0].size + shot.noise.scale.size, INFORMATION,
            )  # fmt: skip
        return self.fits[law]

    def _terms(self, law: Law) -> TermValues:
        if self._values is None:
            self._values = TermValues(self.segments.inputs_of(law))
        return self._values

    def adequacy(self, law: Law) -> Adequacy:
        if law not in self.tested:
            self.fit(law)
            found = adequacy_of(self.shots[law], self._again(law), self.grid)
            if found.adequate is False and not self.shots[law].finished:
                text = f"The time was up before the coefficients were fitted. {found.reason}"
                found = found._replace(adequate=None, reason=text)
            self.tested[law] = found
        return self.tested[law]

    def _again(self, law: Law) -> Callable[[float], ShootingFit | None]:
        def again(length: float) -> ShootingFit | None:
            segments = self.cut(length)
            if segments is None or len(segments) <= len(self.segments):
                return None
            return shoot(self.shots[law].law, segments, refit=self.refit)

        return again


def adequacy_of(
    shot: ShootingFit, again: Callable[[float], ShootingFit | None], grid: Array | float = 0.0
) -> Adequacy:
    """Whether the residuals of a fit are noise; `again` repeats it on more segments.

    Errors of readings on a coarse `grid` (d,) are a function of the state and the same at each
    visit: only residuals that are more predictable than those could be are against the law.
    """
    if (shot.unexplained <= EXACT).all():
        return Adequacy(True, "Simulations reproduce the data to 3 parts in 10,000.")
    tested, blocks = shot, _blocks(shot)
    for length in SHORTER if blocks is None else ():  # more blocks, each of less
        shorter = again(length)
        if shorter is not None and (blocks := _blocks(shorter)) is not None:
            tested = shorter
            break
    rounded = bool(np.any(np.asarray(grid) > 0))
    p = None if blocks is None else predictability(blocks)
    if p is not None and blocks is not None and rounded and p < SIGNIFICANCE:
        steps = tested.segments.scaled(np.broadcast_to(grid, tested.residual.shape))
        if predicted_power(blocks) <= float(((steps * tested.weighted) ** 2).sum()) / 12:
            return Adequacy(
                None,
                "The residuals are predictable from the state, by no more than the rounding of the "
                "readings could make them: whether a term is missing cannot be decided.",
                p,
            )
    if p is not None and (p < SIGNIFICANCE or shot.segments.trajectory.max() >= MIN_BLOCKS - 1):
        return _by_predictability(p)
    # Along few paths the residuals are also compared with themselves.
    white = None if rounded else whiteness(shot.residual, shot.starts)
    if white is not None and p is not None:
        white = min(1.0, 2 * white)
    if white is not None and white < SIGNIFICANCE:
        return Adequacy(
            False,
            f"The residuals are not white ({_small(white)} by their signs): a term is missing "
            "or wrong, or the noise has a memory of more than one step. More trajectories "
            "would tell which.",
            white,
        )
    if p is not None:
        return _by_predictability(p)
    if white is not None:
        return Adequacy(
            True,
            f"The residuals are white (p = {white:.2g} by their signs), which assumes noise "
            "with a memory of at most one step. The path does not return to where it was: "
            "other trajectories would test the law further.",
            white,
        )
    return Adequacy(
        None,
        "The readings are rounded as coarsely as the residuals are large, and the path does "
        "not return to where it was: whether the residuals are noise cannot be decided."
        if rounded
        else "There are too few observations to tell whether the residuals are noise.",
    )


def _blocks(shot: ShootingFit) -> Blocks | None:
    """The segments for the test of predictability; None where it has no say."""
    segments = shot.segments
    trajectories = int(segments.trajectory.max()) + 1
    half = segments.trajectory % 2 if trajectories >= MIN_BLOCKS else np.arange(len(segments)) % 2
    if not covered(shot.path, half):
        return None
    blocks = segment_blocks(shot, half)
    return blocks if blocks.enough else None


def _small(p: float) -> str:
    return f"p = {p:.1g}" if p > 1e-12 else "p < 1e-12"


def _by_predictability(p: float, ordered: bool = True) -> Adequacy:
    """Of states along trajectories, or of a table."""
    inputs = "state" if ordered else "inputs"
    if p >= SIGNIFICANCE:
        text = (
            f"The residuals are not predictable from the {inputs} (p = {p:.2g} on data left out)."
        )
        return Adequacy(True, text, p)
    cause, remedy = "an input was not measured", "or search expression trees (backend='operon')"
    if ordered:
        cause, remedy = "a state is not measured", "or try order=2 or Discrete(lags=1)"
    text = (
        f"The residuals are predictable from the {inputs} ({_small(p)}): a term is missing or "
        f"wrong, or {cause}. Extend the library, {remedy}."
    )
    return Adequacy(False, text, p)


@dataclass(eq=False)
class Regression:
    """Evidence on rows of a regression: targets (n, k), and any function of the inputs on them.

    `floor` (k,) is the mean square error of the rows themselves, as far as it is computed;
    `loss_unit` (k,) the variance of whole targets, where these are what a known part leaves.
    """

    on_rows: OnRows
    targets: Array
    complexity: Callable[[Law], float]
    floor: Array
    losses: Callable[[Law], Array] | None = None  # mean squares (k,), where rows need no look
    count: float | None = None  # rows, each as often as its weight says
    ordered: bool = True  # whether rows that follow each other do so in time
    loss_unit: Array | None = None
    fits: dict[Law, Fit] = field(default_factory=dict)

    def residual(self, law: Law) -> Array:
        return np.asarray(self.targets - self.on_rows(law.numpy()))

    @cached_property
    def points(self) -> Array:
        """Inputs as they occur."""
        kept: list[Array] = []

        def look(z: Array) -> Array:
            kept.append(z[:: max(1, len(z) // MAX_POINTS)])
            return np.zeros((len(z), 1))

        self.on_rows(look)
        return np.concatenate(kept)

    def fit(self, law: Law) -> Fit:
        if law not in self.fits:
            square = self._squares(law) + self._least
            count = len(self.targets) if self.count is None else self.count
            values = np.array([-0.5 * count * float(np.log(square).sum())])
            in_time = self.residual if self.ordered else (lambda _: np.zeros((0, 1)))
            self.fits[law] = Fit(
                law, values, self.complexity(law), _parameters(law),
                self._values.cancelling_digits(law), lambda: in_time(law)[:, None],
                round(count * self.targets.shape[1]),
            )  # fmt: skip
        return self.fits[law]

    @cached_property
    def _values(self) -> TermValues:
        return TermValues(self.points)

    @cached_property
    def _least(self) -> Array:
        """Mean square (k,) of the errors that even the true law leaves."""
        variance = self.targets.var(axis=0) if self.loss_unit is None else self.loss_unit
        solver = EXACT * variance if self.ordered else 0.0
        return np.maximum(np.maximum(self.floor, solver), 1e-300)

    def _squares(self, law: Law) -> Array:
        if self.losses is not None:
            return self.losses(law)
        return np.asarray((self.residual(law) ** 2).mean(axis=0))

    def unexplained(self, law: Law) -> Array:
        """Share (k,) of the variance of the targets, or of the mean square of constant ones."""
        unit = self.loss_unit
        if unit is None:
            square = (self.targets**2).mean(axis=0)
            variance = self.targets.var(axis=0)
            unit = np.where(variance > EXACT * square, variance, square)
        return np.asarray(self._squares(law) / np.maximum(unit, 1e-300))

    def exact(self, law: Law) -> bool:
        """Whether nothing is left but the error of the rows themselves."""
        return bool((self._squares(law) <= self.floor).all())

    def adequacy(self, law: Law) -> Adequacy:
        if _parameters(law) >= self.targets.size:
            return Adequacy(None, "There are as many coefficients as values to fit them to.")
        if self.exact(law) or (self.unexplained(law) <= EXACT).all():
            return Adequacy(True, "The law reproduces the targets to 3 parts in 10,000.")
        n = len(self.targets)
        block = np.arange(n) * BLOCKS // n
        if not self.ordered:  # a table may be sorted
            block = np.random.default_rng(0).permutation(block)
        half = np.arange(BLOCKS) % 2
        middle = self.on_rows(lambda z: np.concatenate([np.ones((len(z), 1)), z], axis=1))
        weight = np.where(np.abs(middle[:, :1]) > 0, middle[:, :1], 1.0)
        if not covered((middle[:, 1:] / weight)[None], half[block]):
            return Adequacy(
                None,
                "The data are too sparse to tell from rows left out whether a term is missing.",
            )
        left, flexible = self.residual(law), self.on_rows(bumps(self.points))
        ps = []
        for j, row in enumerate(law.terms):
            own = np.zeros((n, 0))
            if row:
                terms = Library([t for _, t in row], law.inputs, canonical=False)
                own = self.on_rows(terms.numpy())
            columns = np.concatenate([own, flexible], axis=1)
            parts = [columns[block == b] for b in range(BLOCKS)]
            information = np.stack([c.T @ c for c in parts])
            score = np.stack([c.T @ left[block == b, j] for b, c in enumerate(parts)])
            p = predictability(Blocks(information, score, half, own.shape[1]))
            if p is not None:
                ps.append(p)
        if not ps:
            return Adequacy(None, "There are too few rows to tell whether a term is missing.")
        p = min(1.0, min(ps) * len(ps))
        if p >= SIGNIFICANCE and not any(t.free_symbols for row in law.terms for _, t in row):
            none = "No structure was found: nothing explains the data better than a constant."
            return Adequacy(None, none, p)
        return _by_predictability(p, self.ordered)


def _parameters(law: Law) -> int:
    """Coefficients of a law: one for each term, and those inside terms."""
    inside = sum(len(t.atoms(sympy.Float)) for row in law.terms for _, t in row)
    return sum(map(len, law.terms)) + inside
