"""Multiple shooting: a law's coefficients and the first state of every segment, fitted together.

A regression compares derivatives or integrals, and noise in the states biases it. A simulation
compares states with states: under the right law nothing but the noise of the observations is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sjepa.inference.batch_simulation import Shooter
from sjepa.inference.constants import DEGREES_OF_FREEDOM
from sjepa.inference.noise import Array, Profile, profile
from sjepa.inference.segments import Segments
from sjepa.symbolic import Law


# Steps of Levenberg and Marquardt; one that promises fewer nats is not taken. Least squares are
# only the way there.
ITERATIONS, ENOUGH, GAIN = 12, 1.0, 0.05


@dataclass(frozen=True, eq=False)
class ShootingFit:
    """A law with the coefficients that simulate the data best, and its residuals.

    ``residual`` (n, S, d) is in units of the segments, ``noise`` its likelihood with the scales
    profiled, ``path`` (n, S, size) the simulated states and ``jacobian`` (n, S, d, size + p) the
    derivatives by starts and parameters. Where trajectories have coefficients of their own, these
    are ``parameters[numbers]`` (trajectories, p), and the law has their mean. A fit
    whose time was up is not ``finished``.
    """

    law: Law
    segments: Segments
    path: Array
    residual: Array
    jacobian: Array
    noise: Profile
    parameters: Array | None = None
    numbers: Array | None = None
    finished: bool = True

    @property
    def log_likelihood(self) -> float:
        return self.noise.total

    @property
    def values(self) -> int:
        return self.residual.size

    @property
    def starts(self) -> Array:
        """The derivatives (n, S, d, size) by the starts."""
        return self.jacobian[..., : self.path.shape[2]]

    @property
    def weighted(self) -> Array:
        """Square roots (n, S, d) of the precision that each residual counts with."""
        return np.sqrt(self.noise.weight) / self.noise.scale[self.segments.trajectory]

    @property
    def unexplained(self) -> Array:
        """Mean square residual (d,) of the states, as a share of their variance."""
        residual, sigma = self.residual, self.segments.sigma
        if sigma is not None:
            residual = residual * np.moveaxis(sigma, 1, 0)
        unit = self.segments.unit / self.segments.spread
        return np.asarray((residual**2).mean(axis=(0, 1)) * unit**2)

    @property
    def sharpness(self) -> float:
        """Curvature of the log likelihood as a share of that of the weighted squares."""
        w, nu = self.noise.weight, DEGREES_OF_FREEDOM
        return float((w * (2 * nu / (nu + 1) * w - 1)).mean() / w.mean())

    def part(self, chosen: Array) -> ShootingFit:
        """The same for some of the segments."""
        noise = self.noise
        return ShootingFit(
            self.law, self.segments.part(chosen), self.path[:, chosen], self.residual[:, chosen],
            self.jacobian[:, chosen],
            Profile(noise.scale, noise.weight[:, chosen], noise.log_likelihood[chosen]),
        )  # fmt: skip

    @property
    def laws(self) -> list[Law]:
        """The law of each trajectory."""
        if self.parameters is None or self.numbers is None:
            return [self.law] * len(self.noise.scale)
        return [self.law.with_coefficients(c) for c in self.parameters[self.numbers]]

    def field(self, z: Array) -> Array:
        """Values (n, S, outputs) of each trajectory's law for its inputs (n, S, inputs)."""
        known = self.segments.known
        given = 0.0 if known is None else known.numpy()(z)
        if self.numbers is None:
            return self.law.numpy()(z) + given
        values = np.empty((*z.shape[:2], len(self.law.outputs)))
        for i, law in enumerate(self.laws):
            here = self.segments.trajectory == i
            values[:, here] = law.numpy()(z[:, here])
        return values + given

    @cached_property
    def normal(self) -> tuple[Array, Array, Array]:
        """Each segment's normal equations, its start eliminated; log volumes of the starts."""
        size = self.path.shape[2]
        r, a, b = blocks(self.residual, self.jacobian, size, self.weighted)
        volumes = np.linalg.slogdet(a.transpose(0, 2, 1) @ a)[1]
        return *normal_equations(r, a, b), volumes


def shoot(
    law: Law, segments: Segments, *, refit: bool = True, start: Array | None = None,
    numbers: Array | None = None, time_left: Callable[[], bool] = lambda: True,
) -> ShootingFit:  # fmt: skip
    """Fit coefficients and starts (S, size), from some if given; without `refit` only the starts.

    `numbers` (trajectories, coefficients) say which parameter is a trajectory's coefficient: those
    with the same number are one.

    Least squares come first, since heavy tails would take what a poor start leaves for outliers;
    then Student's likelihood, with the scales of the noise.
    """
    free = law.with_free_terms()
    shooter = Shooter(free, segments)
    group, moves = segments.trajectory, refit and len(free.coefficients) > 0
    first = free.coefficients
    if numbers is not None:
        first = np.zeros(int(numbers.max(initial=-1)) + 1)
        first[numbers] = free.coefficients

    def at(parameters: Array, start: Array) -> tuple[Array, ...]:
        coefficients = parameters if numbers is None else parameters[numbers[group]]
        path, jacobian = shooter.linearized(coefficients, start, refit)
        if numbers is not None:
            jacobian = _by_parameters(jacobian, shooter.size, numbers[group], len(parameters))
        return parameters, start, path, jacobian, shooter.residual(path)

    def squares(residual: Array) -> tuple[float, Array]:
        mean = np.maximum((residual**2).mean(axis=(0, 1)), 1e-300)
        height = -0.5 * residual[..., 0].size * float(np.log(mean).sum())
        return height, np.broadcast_to(1 / np.sqrt(mean), residual.shape)

    def student(residual: Array) -> tuple[float, Array]:
        noise = profile(residual, group, segments.least)
        return noise.total, np.sqrt(noise.weight) / noise.scale[group]

    state, finished = at(first, (segments.start if start is None else start).copy()), True
    for likelihood, enough in ((squares, ENOUGH), (student, GAIN)):
        height, root = likelihood(state[4])
        damping = 1e-3
        for _ in range(ITERATIONS):
            move, shift, promised = _step(state[4], state[3], shooter.size, root, damping)
            finished = promised < enough or time_left()
            if promised < enough or not finished:
                break
            trial = at(state[0] + move if moves else state[0], state[1] + shift)
            new, weights = likelihood(trial[4])
            if np.isfinite(new) and new > height:
                state, height, root = trial, new, weights
                damping *= 0.1
            elif damping > 1e6:
                break
            else:
                damping *= 10.0
    parameters, _, path, jacobian, residual = state
    if not np.isfinite(parameters).all():
        parameters = first
    coefficients = parameters if numbers is None else parameters[numbers].mean(axis=0)
    noise = profile(residual, group, segments.least)
    return ShootingFit(
        free.with_coefficients(coefficients), segments, path, residual, jacobian, noise,
        parameters, numbers, finished,
    )  # fmt: skip


def _by_parameters(jacobian: Array, size: int, place: Array, count: int) -> Array:
    """Derivatives by starts and parameters from those by starts and coefficients (n, S, d, ...)."""
    spread = np.zeros((*jacobian.shape[:3], size + count))
    spread[..., :size] = jacobian[..., :size]
    for s, numbers in enumerate(place):
        np.add.at(spread[:, s].T, size + numbers, jacobian[:, s, :, size:].T)
    return spread


def _step(
    residual: Array, jacobian: Array, size: int, root: Array, damping: float
) -> tuple[Array, Array, float]:
    """Moves of the coefficients (p,) and of the starts (S, size), and the nats they promise."""
    r, a, b = blocks(residual, jacobian, size, root)
    inverse = np.linalg.pinv(a)
    curvature, slope = normal_equations(r, a, b, inverse)
    h = curvature.sum(axis=0)
    move = solve_scaled(h + damping * np.diag(np.diag(h)), slope.sum(axis=0))
    left = r - b @ move
    shift = (inverse @ left[..., None])[..., 0]
    left = left - (a @ shift[..., None])[..., 0]
    return move, shift, 0.5 * float((r**2).sum() - (left**2).sum())


def blocks(residual: Array, jacobian: Array, size: int, root: Array) -> tuple[Array, Array, Array]:
    """Weighted residuals (S, n), their derivatives by starts (S, n, size) and coefficients."""
    segments = residual.shape[1]
    r = np.moveaxis(residual * root, 1, 0).reshape(segments, -1)
    j = np.moveaxis(jacobian * root[..., None], 1, 0).reshape(segments, r.shape[1], -1)
    return r, j[..., :size], j[..., size:]


def normal_equations(
    r: Array, a: Array, b: Array, inverse: Array | None = None
) -> tuple[Array, Array]:
    """Each segment's normal equations of the coefficients, its start eliminated."""
    left = b - a @ ((np.linalg.pinv(a) if inverse is None else inverse) @ b)
    across = left.transpose(0, 2, 1)
    return across @ left, (across @ r[..., None])[..., 0]


def solve_scaled(a: Array, b: Array) -> Array:
    """Least squares by normal equations whose unknowns have any units."""
    if not len(b):
        return np.zeros(b.shape)
    with np.errstate(all="ignore"):
        scale = np.sqrt(np.maximum(np.diag(a), 1e-300))
        a, b = a / np.outer(scale, scale), (b.T / scale).T
    if not (np.isfinite(a).all() and np.isfinite(b).all()):  # simulations that ran away
        return np.zeros(b.shape)
    solved = np.linalg.lstsq(a, b, rcond=1e-12)[0]
    solved = (solved.T / scale).T
    return np.where(np.isfinite(solved), solved, 0.0)
