"""Segments of trajectories for multiple shooting: where they lie and what was measured there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.interpolate import CubicSpline

from sjepa.data import Trajectories, _check
from sjepa.data.clock import held
from sjepa.data.derivatives import Derivatives, Smoothing, differentiate, second_derivatives
from sjepa.data.noise import noise_level
from sjepa.errors import DataError
from sjepa.inference.constants import EXACT, LENGTH
from sjepa.symbolic import Law


# Segments and steps in each; more of either adds work and little evidence.
MAX_SEGMENTS, MAX_STEPS = 48, 100
MIN_STEPS = 4
# Observations on either side from which a start is estimated, in very long data.
NEAR = 300
# A step of the integration, in the unit of LENGTH, and the most of them between observations:
# three units are half a period, and what moves faster between two observations was not seen.
STEP, MAX_SUBSTEPS = 0.1, 32
# Observations on either side of a segment that its inputs are interpolated from.
AROUND = 16
# Rounding and the error of the integration, as a share of the spread: no noise is less.
FLOOR = math.sqrt(EXACT)


@dataclass(frozen=True, eq=False)
class Segments:
    """S segments of H steps, `every` = k observations in each: x (S, H k + 1, d), t (S, H k + 1).

    Inputs `u` (S, H, 3, m) are those at the start, the middle and the end of each step. `start`
    (S, size) are estimates of the first states, `unit` (d,) a typical size of the noise, or of
    rounding where there is none, `spread` and `speed` (d,) those of states and velocities.
    `trajectory` (S,) says where a segment was cut from, `places` (S, 2) which trajectory of the
    data it is and at which observation it begins. `weights` (S, n, n) whiten the values of a
    segment, in that unit, where measured inputs have noise of their own. `sigma` (S, n, d) are
    measured standard errors as multiples of each channel's mean one: the level stays a parameter.
    What is `known` of the law, with the same inputs, is added to every law that is simulated.
    """

    x: np.ndarray
    t: np.ndarray
    every: int
    u: np.ndarray | None
    start: np.ndarray
    unit: np.ndarray
    spread: np.ndarray
    speed: np.ndarray
    substeps: int
    trajectory: np.ndarray
    places: np.ndarray
    weights: np.ndarray | None = None
    sigma: np.ndarray | None = None
    known: Law | None = None

    @classmethod
    def of(
        cls,
        data: Trajectories,
        *,
        order: int = 1,
        zoh: bool = False,
        smoothing: Smoothing | None = None,
        derivatives: Derivatives | None = None,
        length: float = LENGTH,
        like: Segments | None = None,
    ) -> Segments:
        """Evenly spread over the data, or at the places of others.

        `smoothing` says how the data are smoothed, if that is known; `derivatives` are all of
        theirs. With `zoh` inputs are constant during each step.
        """
        take = second_derivatives if order == 2 else partial(differentiate, like=smoothing)
        parts = _check.segments(data.lengths)
        sample = data._cut(parts)
        found = derivatives or take(sample)
        noise = found.noise if order == 1 else noise_level(sample.x, sample.t)
        d = data.obs_shape[0]
        values = np.concatenate(sample.x).astype(float)
        spread = np.maximum(values.std(axis=0), 1e-9 * np.abs(values).max(axis=0) + 1e-300)
        slopes = np.concatenate([a[good] for a, good in zip(found.x_dot, found.valid, strict=True)])
        if not len(slopes):
            slopes = np.concatenate(found.x_dot)
        speed = np.sqrt((slopes[:, :d] ** 2).mean(axis=0))
        rate = float((speed / spread).max())
        step = _check.median_step(sample.t)
        if not rate * step <= MAX_SUBSTEPS * STEP:
            raise DataError("The states move faster than they were observed; observe more often.")
        # Fine sampling: integrate in longer steps, and read the states between them off a cubic.
        every = 1 if zoh else max(1, int(STEP / max(rate * step, 1e-12)))
        room = int(_check.medians(data.lengths[None])[0]) - 1
        every = min(every, max(1, room // MIN_STEPS))
        count = int(min(max(length / max(rate * step * every, 1e-12), MIN_STEPS), MAX_STEPS))
        span = every * max(1, min(count, room // every))
        places = [
            (i, first) for i, n in enumerate(data.lengths) for first in range(0, n - span, span)
        ]
        if len(places) > MAX_SEGMENTS:
            chosen = np.linspace(0, len(places) - 1, MAX_SEGMENTS).round().astype(int)
            places = [places[k] for k in chosen]
        if like is not None:
            every, places = like.every, [(i, k) for i, k in like.places.tolist()]
            span = like.x.shape[1] - 1
        if not places:
            raise DataError("The trajectories are too short to be simulated through.")
        smooth, first = found.trajectories.x, places
        if order == 1 and smoothing is not None and smoothing.leaves_states:
            smooth = data.x
        elif parts[0][1] != slice(None):  # very long data: only what lies around the starts
            reach = NEAR
            if order == 1 and smoothing is not None and smoothing.windows is not None:
                reach = 2 * max(half for half, _ in smoothing.windows)
            near = [(i, slice(max(k - reach, 0), k + reach + 1)) for i, k in places]
            smooth = take(data._cut(near)).trajectories.x
            first = [
                (j, k - part.start)
                for j, ((_, k), (_, part)) in enumerate(zip(places, near, strict=True))
            ]
        u = None
        if data.u is not None:
            constant = held(data)[d:] & zoh
            u = np.stack(
                [_thirds(data.t[i], data.u[i], slice(k, k + span + 1, every), constant)
                 for i, k in places]
            )  # fmt: skip
        return cls(
            np.stack([data.x[i][k : k + span + 1] for i, k in places]).astype(float),
            np.stack([data.t[i][k : k + span + 1] for i, k in places]),
            every,
            u,
            np.stack([smooth[i][k] for i, k in first]).astype(float),
            np.maximum(noise, FLOOR * spread),
            spread,
            speed,
            max(1, int(np.ceil(rate * step * every / STEP))),
            np.unique([i for i, _ in places], return_inverse=True)[1],
            np.array(places),
            sigma=_relative(data.sigma, places, span),
        )

    def __len__(self) -> int:
        return len(self.x)

    def part(self, chosen: np.ndarray) -> Segments:
        """Some of the segments."""
        return replace(
            self, x=self.x[chosen], t=self.t[chosen], start=self.start[chosen],
            trajectory=self.trajectory[chosen], places=self.places[chosen],
            u=None if self.u is None else self.u[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            sigma=None if self.sigma is None else self.sigma[chosen],
        )  # fmt: skip

    @property
    def memory(self) -> float:
        """Observations in half the time in which the motion changes by its spread."""
        step = float(np.median(np.diff(self.t, axis=1)))
        return 0.5 / max(float((self.speed / self.spread).max()) * step, 1e-12)

    @property
    def noisy(self) -> bool:
        """Whether the noise is more than what the integration itself gets wrong."""
        return self.weights is not None or bool((self.unit > FLOOR * self.spread).any())

    @property
    def least(self) -> np.ndarray:
        """The floor of the noise (d,), in its units."""
        return FLOOR * self.spread / self.unit

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Differences of states (H k + 1, S, d) or (H k + 1, S, d, p), in units of noise."""
        unit = self.unit
        if self.sigma is not None:
            unit = unit * np.moveaxis(self.sigma, 1, 0)
        values = values / (unit if values.ndim == 3 else unit[..., None])
        if self.weights is None:
            return values
        rows = np.moveaxis(values, 1, 0)
        white = self.weights @ rows.reshape(len(rows), self.weights.shape[1], -1)
        return np.moveaxis(white.reshape(rows.shape), 0, 1)

    def inputs_of(self, law: Law) -> np.ndarray:
        """What a law takes (rows, inputs) at the nodes of all segments: states, then inputs.

        Velocities of second-order laws are those at the starts.
        """
        x = self.x[:, : -1 : self.every]
        d = x.shape[2]
        if self.start.shape[1] > d:
            rates = np.repeat(self.start[:, None, d:], x.shape[1], axis=1)
            x = np.concatenate([x, rates], axis=2)
        if self.u is not None and len(law.inputs) > x.shape[2]:
            x = np.concatenate([x, self.u[:, :, 0]], axis=2)
        return x.reshape(-1, x.shape[2])

    @cached_property
    def middle(self) -> np.ndarray:
        return self.x.mean(axis=(0, 1))


def _relative(
    sigma: list[np.ndarray] | None, places: list[tuple[int, int]], span: int
) -> np.ndarray | None:
    """Standard errors (S, n, d) of the segments, one in the root mean square of each channel."""
    if sigma is None:
        return None
    errors = np.stack([sigma[i][k : k + span + 1] for i, k in places]).astype(float)
    return errors / np.sqrt((errors**2).mean(axis=(0, 1)))


def _thirds(t: np.ndarray, u: np.ndarray, nodes: slice, constant: np.ndarray) -> np.ndarray:
    """Inputs (H, 3, m) at the start, the middle and the end of each step.

    Those that are `constant` (m,) during each step keep the value at its start.
    """
    at, rows = t[nodes], u[nodes]
    if constant.all():
        return np.repeat(rows[:-1, None], 3, axis=1)
    middle = (at[:-1] + at[1:]) / 2
    if len(t) > 3:
        near = slice(max(nodes.start - AROUND, 0), nodes.stop + AROUND)
        unit = at[-1] - at[0]  # cubes of seconds may overflow
        between = CubicSpline(t[near] / unit, u[near])(middle / unit)
    else:
        between = (rows[:-1] + rows[1:]) / 2
    smooth = np.stack([rows[:-1], between, rows[1:]], axis=1)
    return np.where(constant, rows[:-1, None], smooth)
