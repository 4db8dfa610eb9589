"""Free runs through data: a law's own motion beside what was seen, over stretches of it.

A regression compares derivatives or integrals, and noise in the states biases it. A free run
compares motion with motion: from a start that is fitted together with the law's numbers, a right
law leaves nothing but the noise of the observations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.fft import dct
from scipy.special import fdtrc

from sjepa.models.stretches import Stretches
from sjepa.symbolic import Law
from sjepa.symbolic.emit import NUMPY, run
from sjepa.symbolic.program import compile_sums
from sjepa.symbolic.use import order_of


# Paths end here, in units of the spread around the mean: a law that blows up is wrong by enough.
FAR = 30.0
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
# Numbers of a path that are filled in at once; bounds the memory to a few megabytes.
BETWEEN = 65_536
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


class Runner:
    """Runs of one structure with any numbers, all stretches at once."""

    def __init__(self, law: Law, stretches: Stretches) -> None:
        self.stretches, self.discrete = stretches, law.dynamics == "discrete"
        self.order = order_of(law)
        self.outputs = len(law.outputs)
        self.size = self.order * self.outputs
        self.program = law.program if not law.free else compile_sums(law.equations, law.symbols)
        self.uses_actions = len(law.inputs) > self.size
        d, spread = stretches.x.shape[2], stretches.spread
        far = FAR * spread + np.abs(stretches.middle)
        if self.order == 2:
            moving = np.abs(stretches.start[:, d:]).max(axis=0)
            far, spread = np.concatenate([far, FAR * moving]), np.concatenate([spread, moving])
        self.far, self.spread = far, np.maximum(spread, 1e-300)

    def memory(self, numbers: Sequence[np.ndarray]) -> list[Any]:
        """What the program starts with, but for states and actions; a number is (..., S)."""
        program = self.program
        memory: list[Any] = [None] * program.size
        for slot, value in (*program.constants, *zip(program.coefficients, numbers, strict=True)):
            memory[slot] = value
        return memory

    def velocity(self, z: np.ndarray, u: np.ndarray | None, memory: list[Any]) -> np.ndarray:
        """Of states (size, ...) with actions (m, S)."""
        program = self.program
        memory[: self.size] = z
        if u is not None:
            memory[self.size : program.inputs] = u
        change = np.empty_like(z)
        if self.order == 2:
            change[: self.size // 2] = z[self.size // 2 :]
        for row, value in zip(change[-self.outputs :], run(program, memory, NUMPY), strict=True):
            row[...] = value
        return change

    def path(self, numbers: np.ndarray, start: np.ndarray) -> np.ndarray:
        """States (H k + 1, ..., S, size) for numbers (..., S, p) and starts (..., S, size)."""
        data, every = self.stretches, self.stretches.every
        numbers = np.broadcast_to(numbers, (*start.shape[:-1], numbers.shape[-1]))
        # The components come first here: every operation is on arrays in one piece.
        memory = self.memory(list(np.ascontiguousarray(np.moveaxis(numbers, -1, 0))))
        z = np.ascontiguousarray(np.moveaxis(start, -1, 0))
        nodes = np.ascontiguousarray(data.t[:, ::every].T)
        steps, ahead = np.diff(nodes, axis=0), None
        far = self.far.reshape(-1, *[1] * (z.ndim - 1))
        path = np.empty((len(steps) * every + 1, *z.shape))
        path[0] = z
        slopes = np.empty((len(steps) + 1 if every > 1 else 0, *z.shape))
        with np.errstate(all="ignore"):
            for h, step in enumerate(steps):
                u = None
                if data.u is not None and self.uses_actions:
                    u = np.moveaxis(data.u[..., h, :, :], (-1, -2), (0, 1))
                z, slope = self._next(z, step, u, memory, ahead)
                if not (np.abs(z) <= far).all():
                    z = np.clip(np.where(np.isfinite(z), z, far), -far, far)
                path[(h + 1) * every] = z
                if every > 1:
                    # Without a jump of actions between, the next step begins with this velocity.
                    ahead = self.velocity(z, None if u is None else u[:, 2], memory)
                    slopes[h], slopes[h + 1] = slope, ahead
            together = max(1, BETWEEN // (every * z.size))
            for first in range(0, len(steps), together) if every > 1 else ():
                self._between(path, slopes, nodes, slice(first, min(first + together, len(steps))))
            path = np.clip(np.nan_to_num(path, copy=False, nan=np.inf), -far, far)
        return np.moveaxis(path, 1, -1)

    def _between(
        self, path: np.ndarray, slopes: np.ndarray, nodes: np.ndarray, here: slice
    ) -> None:
        """Fill in the states between the nodes of some steps, by cubics with their slopes."""
        every, after = self.stretches.every, slice(here.start + 1, here.stop + 1)
        rows = slice(here.start * every, here.stop * every)
        times = self.stretches.t[:, rows].T.reshape(here.stop - here.start, every, -1)
        wide = [1] * (path.ndim - 2)  # one axis of components, and those of copies
        step = nodes[after] - nodes[here]
        share = (times[:, 1:] - nodes[here][:, None]) / step[:, None]
        share = share.reshape(*share.shape[:2], *wide, -1)
        step = step.reshape(len(step), 1, *wide, -1)
        ends = path[::every]
        a, b, v, w = (x[part][:, None] for x in (ends, slopes) for part in (here, after))
        whole = path[rows].reshape(-1, every, *path.shape[1:])
        whole[:, 1:] = _cubic(a, b, v, w, step, share)

    def _next(
        self,
        z: np.ndarray,
        step: np.ndarray,
        u: np.ndarray | None,
        memory: list[Any],
        slope: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The state at the end of a step, by the classic method of order four, and the velocity.

        `slope` is that velocity at the start, if it is known.
        """
        if self.discrete:
            following = self.velocity(z, None if u is None else u[:, 0], memory)
            return following, following
        n = self.stretches.substeps
        part = step / n
        half, sixth = part / 2, part / 6
        slope = self.velocity(z, _parabola(u, 0.0), memory) if slope is None else slope
        for k in range(n):
            first, middle, last = (_parabola(u, (k + share) / n) for share in (0.0, 0.5, 1.0))
            k1 = self.velocity(z, first, memory) if k else slope
            k2 = self.velocity(z + half * k1, middle, memory)
            k3 = self.velocity(z + half * k2, middle, memory)
            k4 = self.velocity(z + part * k3, last, memory)
            z = z + sixth * (k1 + 2 * (k2 + k3) + k4)
        return z, slope

    def normal(self, path: np.ndarray, jacobian: np.ndarray) -> tuple[np.ndarray, ...]:
        """Each stretch's normal equations, sum of squares, log volume of its start; residuals."""
        left = self.residual(path)
        r, a, b = _blocks(left, jacobian, self.size)
        volumes = np.linalg.slogdet(a.transpose(0, 2, 1) @ a)[1]
        return *_normal(r, a, b), (left**2).sum(axis=(0, 2)), volumes, left

    def linearised(
        self, numbers: np.ndarray, start: np.ndarray, numbers_too: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """The path (H + 1, S, size), and its derivatives (H + 1, S, d, size + p) by differences."""
        p, s = numbers.shape[-1], self.size
        copies = 1 + s + (p if numbers_too else 0)
        starts = np.repeat(start[None], copies, axis=0)
        given = np.repeat(np.broadcast_to(numbers, (len(start), p))[None], copies, axis=0).copy()
        by = np.empty(copies - 1)
        for i in range(s):
            by[i] = 1e-6 * self.spread[i]
            starts[1 + i, :, i] += by[i]
        for i in range(copies - 1 - s):
            by[s + i] = 1e-6 * max(abs(float(np.mean(numbers[..., i]))), 1e-6)
            given[1 + s + i, :, i] += by[s + i]
        paths = self.path(given, starts)  # (H + 1, copies, S, size)
        d = self.stretches.x.shape[2]
        change = (paths[:, 1:, :, :d] - paths[:, :1, :, :d]) / by[:, None, None]
        return paths[:, 0], self.stretches.scaled(np.moveaxis(change, 1, -1))

    def residual(self, path: np.ndarray) -> np.ndarray:
        """What was seen less the path, in units of noise (H + 1, S, d)."""
        seen = np.moveaxis(self.stretches.x, 1, 0)
        return self.stretches.scaled(seen - path[..., : seen.shape[-1]])

    def errors(self, path: np.ndarray) -> np.ndarray:
        """Mean square of each stretch, for the values that a fitted start leaves over."""
        left = self.residual(path)
        count = left.shape[0] * left.shape[2]
        return (left**2).sum(axis=(0, 2)) / max(count - self.size, 1)

    def total(self, path: np.ndarray) -> float:
        return float(self.errors(path).sum())


def _parabola(u: np.ndarray | None, share: float) -> np.ndarray | None:
    """Actions at a share of a step, through those at its start, middle and end (m, 3, S)."""
    if u is None:
        return None
    a, b, c = u[:, 0], u[:, 1], u[:, 2]
    return a + share * (4 * b - 3 * a - c) + 2 * share**2 * (a - 2 * b + c)


def _cubic(
    a: np.ndarray, b: np.ndarray, slope_a: np.ndarray, slope_b: np.ndarray, step: np.ndarray,
    share: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Values at shares of steps, by the cubics with these ends and slopes."""
    rest = 1 - share
    near, far = rest**2 * (1 + 2 * share), share**2 * (1 + 2 * rest)
    bend, back = step * share * rest**2, step * share**2 * rest
    return a * near + b * far + slope_a * bend - slope_b * back


def _blocks(
    residual: np.ndarray, jacobian: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residuals (S, n) and their derivatives by starts (S, n, size) and by numbers (S, n, p)."""
    stretches = residual.shape[1]
    r = np.moveaxis(residual, 1, 0).reshape(stretches, -1)
    j = np.moveaxis(jacobian, 1, 0).reshape(stretches, r.shape[1], -1)
    return r, j[..., :size], j[..., size:]


def _normal(
    r: np.ndarray, a: np.ndarray, b: np.ndarray, inverse: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Each stretch's normal equations of the numbers, its start eliminated (by a's `inverse`)."""
    left = b - a @ ((np.linalg.pinv(a) if inverse is None else inverse) @ b)
    across = left.transpose(0, 2, 1)
    return across @ left, (across @ r[..., None])[..., 0]


def _step(
    residual: np.ndarray, jacobian: np.ndarray, size: int, damping: float
) -> tuple[np.ndarray, np.ndarray]:
    """Moves of the numbers (p,) and of the starts (S, size)."""
    r, a, b = _blocks(residual, jacobian, size)
    inverse = np.linalg.pinv(a)
    curvature, slope = _normal(r, a, b, inverse)
    h = curvature.sum(axis=0)
    move = solve_scaled(h + damping * np.diag(np.diag(h)), slope.sum(axis=0))
    return move, (inverse @ (r - b @ move)[..., None])[..., 0]


def solve_scaled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    scale = np.sqrt(np.maximum(np.diag(a), 1e-300))
    solved = np.linalg.lstsq(a / np.outer(scale, scale), b / scale, rcond=1e-12)[0] / scale
    return np.where(np.isfinite(solved), solved, 0.0)
