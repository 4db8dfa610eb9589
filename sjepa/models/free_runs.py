"""Free runs through data: a law's own motion beside what was seen, over stretches of it.

A regression compares derivatives or integrals, and noise in the states biases it. A free run
compares motion with motion: from a start that is fitted together with the law's numbers, a right
law leaves nothing but the noise of the observations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import dct
from scipy.special import fdtrc

from sjepa.models.runner import Runner, blocks, normal_equations
from sjepa.models.stretches import Stretches
from sjepa.symbolic import Law
from sjepa.symbolic.use import order_of


ITERATIONS, STARTS = 6, 3
# A longer law must lower the error by the share MIN_GAIN, and by SIGNIFICANT standard errors of
# the difference between stretches or by the share CLEAR: where a few stretches show all of a
# difference it is real, and its standard error large.
SIGNIFICANT, MIN_GAIN, CLEAR = 2.0, 0.01, 0.1
# Errors that leave no law such a gain.
NOTHING_TO_WIN = MIN_GAIN
# After this many longer laws that gain nothing the rest are skipped: PATIENCE where the errors are
# those of noise alone, LONG_PATIENCE where they are not.
PATIENCE, LONG_PATIENCE = 3, 8
NOISE_ALONE = 1.15
# Waves along a stretch of about a period in which a missing term would show.
WAVES = 3


@dataclass(frozen=True, eq=False)
class FreeRun:
    """A law refitted to free runs, and what it leaves.

    `errors` (S,) are mean squares on each stretch in units of the noise, with numbers that were
    fitted to the other folds; 1 is what a true law leaves. `curvature` (S, p, p) and `slope`
    (S, p) are each stretch's share in the normal equations of the numbers, at the fit. There
    `squares` (S,) are the sums of squares of `values` numbers in all, `start_volumes` (S,) the
    logarithms of the determinants of the starts' own normal equations, and `left` (H k + 1, S, d)
    the residuals.
    """

    law: Law
    errors: np.ndarray
    values: int
    _normal: Callable[[], tuple[np.ndarray, ...]]

    @cached_property
    def normal(self) -> tuple[np.ndarray, ...]:
        """Taken only when asked for: it needs the derivatives of the paths."""
        return self._normal()

    @property
    def curvature(self) -> np.ndarray:
        return self.normal[0]

    @property
    def slope(self) -> np.ndarray:
        return self.normal[1]

    @property
    def squares(self) -> np.ndarray:
        return self.normal[2]

    @property
    def fitted(self) -> float:
        """Mean square at the fit to all stretches, for the values that starts and numbers leave.

        Where one stretch shows what no other does, errors with other stretches' numbers are large
        for a true law too; this is not.
        """
        return float(self.squares.sum()) / max(self.values - self._fits, 1)

    @property
    def _fits(self) -> int:
        return len(self.errors) * order_of(self.law) * len(self.law.outputs) + self.slope.shape[1]

    @property
    def chance(self) -> float:
        """How likely white noise alone leaves residuals that vary so slowly along stretches.

        What a law lacks varies with the motion, noise from one observation to the next: the first
        WAVES waves are compared with all others, whatever the level of the noise.
        """
        power = dct(self.normal[4], axis=0, norm="ortho") ** 2
        slow, fast = power[: 2 * WAVES], power[2 * WAVES :]
        freedom = slow.size - self._fits
        if freedom < 1 or not fast.sum() > 0:
            return 1.0
        return float(fdtrc(freedom, fast.size, slow.sum() / freedom / fast.mean()))

    @property
    def start_volumes(self) -> np.ndarray:
        return self.normal[3]


def free_run(law: Law, stretches: Stretches, folds: int = 4, enough: float = 0.0) -> FreeRun:
    """Fit a law's numbers and the first state of every stretch to what was seen.

    Without folds the numbers stay as they are, and only starts are fitted. A law whose mean error
    is `enough` without any fit is left as it is.
    """
    free = law.with_free_terms()
    runner = Runner(free, stretches)
    numbers, start = free.coefficients, stretches.start.copy()
    if enough:
        errors, count = runner.errors(runner.path(numbers, start)), stretches.x.size
        if errors.mean() <= enough:
            at = numbers, start
            return FreeRun(free, errors, count, lambda: runner.normal(*runner.linearised(*at)))
    path, jacobian = runner.linearised(numbers, start)
    lowest, damping = runner.total(path), 1e-3
    for _ in range(ITERATIONS if folds else 0):
        move, shift = _step(runner.residual(path), jacobian, runner.size, damping)
        trial = runner.linearised(numbers + move, start + shift)
        error = runner.total(trial[0])
        if error < lowest:
            done = error > lowest * (1 - 1e-4)
            numbers, start, (path, jacobian), lowest = numbers + move, start + shift, trial, error
            damping *= 0.1
            if done:
                break
        else:
            damping *= 10.0
    normal = runner.normal(path, jacobian)
    curvature, slope = normal[:2]
    # Numbers without each fold, by one more step of the same equations.
    fold = np.arange(len(start)) * folds // len(start)
    own = np.tile(numbers, (len(start), 1))
    for k in np.unique(fold):
        if (fold != k).any() and len(numbers):
            own[fold == k] += solve_scaled(curvature[fold != k].sum(0), slope[fold != k].sum(0))
    lowest_each = np.full(len(start), np.inf)
    for begin in (start, stretches.start):
        for _ in range(STARTS):
            path, jacobian = runner.linearised(own, begin, numbers_too=False)
            lowest_each = np.minimum(lowest_each, runner.errors(path))
            begin = begin + _step(runner.residual(path), jacobian, runner.size, 0.0)[1]
    best = free.with_coefficients(numbers) if np.isfinite(numbers).all() else free
    return FreeRun(best, lowest_each, stretches.x.size, lambda: normal)


def better(errors: np.ndarray, than: np.ndarray) -> bool:
    """Whether errors on the same stretches are lower by more than chance explains."""
    gain = than - errors
    unit = max(float(than.mean()), 1.0)
    noise = SIGNIFICANT * gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
    return bool(gain.mean() > max(min(noise, CLEAR * unit), MIN_GAIN * unit))


def judge(
    laws: Sequence[Law],
    stretches: Stretches,
    folds: int = 4,
    time_left: Callable[[], bool] = lambda: True,
) -> tuple[int, list[FreeRun]]:
    """Which of some laws, simplest first, is the first that no longer one beats; and the runs.

    Not all of them are run: some laws in a row that are no better end it, or the time does.
    """
    chosen, runs = 0, [free_run(laws[0], stretches, folds, NOTHING_TO_WIN)]
    for i, law in enumerate(laws[1:], 1):
        settled = runs[chosen].errors.mean() < NOISE_ALONE
        if i - chosen > (PATIENCE if settled else LONG_PATIENCE) or not time_left():
            break
        if runs[chosen].errors.mean() <= NOTHING_TO_WIN:
            break
        runs.append(free_run(law, stretches, folds, NOTHING_TO_WIN))
        if better(runs[i].errors, runs[chosen].errors):
            chosen = i
    return chosen, runs


def _step(
    residual: np.ndarray, jacobian: np.ndarray, size: int, damping: float
) -> tuple[np.ndarray, np.ndarray]:
    """Moves of the numbers (p,) and of the starts (S, size)."""
    r, a, b = blocks(residual, jacobian, size)
    inverse = np.linalg.pinv(a)
    curvature, slope = normal_equations(r, a, b, inverse)
    h = curvature.sum(axis=0)
    move = solve_scaled(h + damping * np.diag(np.diag(h)), slope.sum(axis=0))
    return move, (inverse @ (r - b @ move)[..., None])[..., 0]


def solve_scaled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.maximum(np.diag(a), 1e-300))
    solved = np.linalg.lstsq(a / np.outer(scale, scale), b / scale, rcond=1e-12)[0] / scale
    return np.where(np.isfinite(solved), solved, 0.0)
