"""Residuals of simulated segments as a linear regression, and the evidence of what explains them.

Whatever acts on a law's velocities beside it moves the simulated path; to first order the path
moves in proportion. An explanation is a set of columns with normal weights of one variance, and its
evidence is the likelihood with the weights integrated out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
import sympy

from sjepa.inference.constants import DEGREES_OF_FREEDOM, PRIOR_VALUES
from sjepa.inference.corrections import inputs_along, response
from sjepa.inference.noise import Array, profile
from sjepa.inference.shooting import ShootingFit
from sjepa.symbolic import Law, Library


# Steps of each segment, values of all its states that are compared, and instants at which something
# may act. More of any adds work and little evidence.
MAX_STEPS, MAX_VALUES, MAX_INSTANTS = 100, 96, 64
# Rows on either side over which the residual is averaged to tell where the states are.
SMOOTH = 1
# Sizes of readings between which the level of the noise may differ.
BINS = 8
# Variances of the weights, relative to the noise, among which the likeliest is taken.
VARIANCES = 10.0 ** np.arange(-2, 9)


class Nats(NamedTuple):
    """Evidence, and about what each segment (S,) has of it, but for what all have alike."""

    total: float
    each: Array
    robust: float | None = None  # of columns that segments share, with heavy tails of the noise


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Of S segments with N values each: y (S, N), and how they move with what may explain them.

    `starts` (S, N, size) are the derivatives by the first states, `law` (S, N, p) the columns of
    the law's terms and of all affine ones, `force` (S, N, B, J) what a unit force on the velocity
    of output j moves if it acts during interval b. `t` (S, B) are the middles of the intervals,
    `inputs` (S, B, inputs) what the law takes there, `trajectory` (S,) where a segment was cut
    from, `states` how many of its values are of one time, `at` (N / states,) which observations.
    `weight` (S, N) is 1 for values whose noise is like elsewhere. `added` counts the affine terms
    that the law has not; `log_volume` are nats from the units of the rows to those of the segments.
    """

    y: Array
    starts: Array
    law: Array
    force: Array
    t: Array
    inputs: Array
    trajectory: Array
    states: int
    at: Array
    weight: Array
    added: int
    log_volume: float
    learned: int = 0

    @classmethod
    def of(cls, shot: ShootingFit) -> ResidualRows:
        shot = _thinned(shot)
        segments, law = shot.segments, shot.law
        n, count, d = shot.residual.shape
        instants = min(n - 1, MAX_INSTANTS)
        interval = np.arange(n - 1) * instants // (n - 1)
        during = np.zeros((n - 1, count, instants))
        during[np.arange(n - 1), :, interval] = 1.0
        moved = response(shot, during, range(len(law.outputs)))
        rows = np.unique(np.linspace(0, n - 1, min(n, MAX_VALUES // d)).round().astype(int))
        level, relative = _levels(shot.residual, np.moveaxis(segments.x, 1, 0), segments.least)
        weight, relative = (relative / level)[rows], relative[rows]

        def flat(values: Array) -> Array:
            """(n, S, d, ...) to (S, N, ...), in units of the noise."""
            values = values[rows] * weight.reshape(*weight.shape, *[1] * (values.ndim - 3))
            return np.moveaxis(values, 1, 0).reshape(count, len(rows) * d, *values.shape[3:])

        force = flat(moved).reshape(count, len(rows) * d, len(law.outputs), instants)
        force = np.ascontiguousarray(np.swapaxes(force, 2, 3))
        first = np.searchsorted(interval, np.arange(instants))
        last = np.searchsorted(interval, np.arange(instants), side="right")
        z = _measured(shot)
        z, t = (z[first] + z[last]) / 2, (segments.t[:, first] + segments.t[:, last]) / 2
        inputs = np.moveaxis(z, 1, 0)
        affine = [sympy.Integer(1), *law.symbols]
        pairs = [(j, term) for j, row in enumerate(law.terms) for _, term in row]
        more = [
            (j, term) for j in range(len(law.outputs)) for term in affine if (j, term) not in pairs
        ]
        columns = [
            force[..., j] @ evaluated(term, law, inputs)[..., None] for j, term in (*pairs, *more)
        ]
        return cls(
            flat(shot.residual), flat(shot.starts), np.concatenate(columns, axis=2), force, t,
            inputs, segments.trajectory, d, rows, np.moveaxis(relative, 1, 0).reshape(count, -1),
            len(more), float(np.log(weight).sum()),
        )  # fmt: skip

    # What may explain them -----------------------------------------------------------------------

    def on_output(self, j: int, functions: Array) -> Array:
        """Columns (S, N, m) of forces (S, B, m) on one output."""
        return np.matmul(self.force[..., j], functions)

    def white(self, rho: float, share: float) -> ResidualRows:
        """The same with noise made white that has a memory.

        `rho` is its correlation between neighbors, `share` its variance beside that of white noise.
        """
        alike = np.kron(rho ** np.abs(np.subtract.outer(self.at, self.at)), np.eye(self.states))
        weights = self.weight[:, :, None] * self.weight[:, None]
        covariance = np.eye(len(alike)) + share * weights * alike
        by = np.linalg.inv(np.linalg.cholesky(covariance))
        log = float(np.log(np.diagonal(by, axis1=1, axis2=2)).sum())
        force = by @ self.force.reshape(*self.y.shape, -1)
        return replace(
            self, y=(by @ self.y[..., None])[..., 0], starts=by @ self.starts, law=by @ self.law,
            force=force.reshape(self.force.shape), log_volume=self.log_volume + log,
        )  # fmt: skip

    # Evidence ------------------------------------------------------------------------------------

    @cached_property
    def _starts(self) -> Array:
        return np.linalg.qr(self.starts)[0]

    def free(self, columns: Array) -> Array:
        """Columns (S, N, m), whatever the starts can explain taken away."""
        q = self._starts
        return columns - q @ (np.swapaxes(q, 1, 2) @ columns)

    @cached_property
    def left(self) -> Array:
        """What the starts do not explain (S, N)."""
        return self.free(self.y[..., None])[..., 0]

    @cached_property
    def _coefficients(self) -> Array:
        """An orthonormal basis (S N, p) of what the law's coefficients can explain."""
        rows = self.free(self.law).reshape(self.y.size, -1)
        scale = np.sqrt((rows**2).sum(axis=0))
        u, s = left_vectors(rows / np.maximum(scale, 1e-300))
        return np.asarray(u[:, s > 1e-9])

    @cached_property
    def unexplained(self) -> Array:
        """What neither the starts nor the law's coefficients explain (S N,)."""
        return self.without_law(self.left.reshape(-1))

    def without_law(self, columns: Array) -> Array:
        q = self._coefficients
        return np.asarray(columns - q @ (q.T @ columns))

    @property
    def degrees(self) -> int:
        taken = self.starts.shape[2] * len(self.y) + self.law.shape[2] - self.learned
        return max(self.y.size - taken, 1)

    @property
    def each(self) -> float:
        """Nats for a fitted number."""
        return 0.5 * math.log(max(self.degrees, 2))

    def _nats(self, squares: Array, volumes: Array | float = 0.0) -> Array:
        logs = self.degrees * np.log(np.maximum(squares, 1e-300))
        return np.asarray(self.log_volume - 0.5 * (volumes + logs))

    def evidence(self, columns: Array | None = None, robust: bool = True) -> Nats:
        """Nats of columns (S, N, m) whose weights are those of all segments; of none by default.

        Without `robust` only their total is needed.
        """
        y, shape = self.unexplained, self.y.shape
        square = float(y @ y)
        if columns is None:
            alone = float(self._nats(np.array(square)))
            return Nats(alone, self._of_each((y**2).reshape(shape)), self._robust(y, 0.0, 0.0))
        c = self.without_law(self.free(columns).reshape(len(y), -1))
        values, u = np.linalg.eigh(c.T @ c)
        values = np.maximum(values, 0.0)
        g = u.T @ (c.T @ y)
        by = VARIANCES[:, None] / max(float(values.mean()), 1e-300)
        less = (by * g**2 / (1 + by * values)).sum(axis=1)
        left = np.maximum(square - less, 1e-14 * square)  # the accuracy of the sums
        nats = self._nats(left, np.log1p(by * values).sum(axis=1))
        k = int(nats.argmax())
        weights = by[k] * g / (1 + by[k] * values)
        rest = y - c @ (u @ weights)
        if not robust:
            return Nats(float(nats[k]), np.zeros(len(self.y)))
        volume = float(np.log1p(by[k] * values).sum())
        tails = self._robust(rest, volume, float((weights**2).sum() / by[k, 0]))
        return Nats(float(nats[k]), self._of_each((rest**2).reshape(shape)), tails)

    def beside(self, columns: Array) -> ResidualRows:
        """The same with shared columns (S, N, m) fitted like the law's coefficients."""
        c = self.without_law(self.free(columns).reshape(self.y.size, -1))
        values, u = np.linalg.eigh(c.T @ c)
        g = (u.T @ (c.T @ self.unexplained)) ** 2
        by = VARIANCES[:, None] / max(float(values.mean()), 1e-300)
        values = np.maximum(values, 0.0)
        square = float(self.unexplained @ self.unexplained)
        left = np.maximum(square - (by * g / (1 + by * values)).sum(axis=1), 1e-14 * square)
        volumes = np.log1p(by * values).sum(axis=1)
        k = int(self._nats(left, volumes).argmax())
        resolved = by[k] * values > 1
        more = (c @ u[:, resolved]).reshape(*self.y.shape, -1)
        return replace(
            self, law=np.concatenate([self.law, more], axis=2), learned=int(resolved.sum()),
            log_volume=self.log_volume - 0.5 * float(volumes[k]),
        )  # fmt: skip

    def _robust(self, rest: Array, volume: float, squares: float) -> float:
        """Nats by Student's distribution, given what is left and the squares of the weights."""
        noise = profile(rest.reshape(-1, 1, 1), np.zeros(1, dtype=int))
        variance = float(noise.scale[0, 0]) ** 2
        return self.log_volume + noise.total - 0.5 * (volume + squares / variance)

    def evidence_of_each(self, columns: Array) -> Nats:
        """Nats of columns (S, N, m) whose weights are each segment's own."""
        c = self.free(columns)
        u, s = left_vectors(c)
        turn, values = np.swapaxes(u, 1, 2), s**2
        y, law = self.left[..., None], self._coefficients.reshape(*self.y.shape, -1)
        y_in, law_in = turn @ y, turn @ law
        best = Nats(-math.inf, np.zeros(len(y)))
        for by in VARIANCES / max(float(values.mean()), 1e-300):
            root = np.sqrt(1 / (1 + by * values))[..., None]

            def white(rows: Array, inner: Array, root: Array = root) -> Array:
                return rows - u @ ((1 - root) * inner)

            rows, across = white(y, y_in).reshape(-1), white(law, law_in)
            across = across.reshape(len(rows), -1)
            rest = rows - across @ np.linalg.lstsq(across, rows, rcond=1e-12)[0]
            volumes = np.log1p(by * values).sum(axis=1)
            total = float(self._nats(np.array(float(rest @ rest)), float(volumes.sum())))
            if total > best.total:
                best = Nats(total, self._of_each((rest**2).reshape(self.y.shape), volumes))
        return best

    def _of_each(self, squares: Array, volumes: Array | float = 0.0) -> Array:
        """Nats of each segment (S,), with the variance that all have."""
        whole = squares.sum(axis=1)
        variance = max(float(whole.sum()) / self.degrees, 1e-300)
        logs = self.y.shape[1] * math.log(variance)
        return np.asarray(-0.5 * (whole / variance + logs + volumes))


def left_vectors(a: Array) -> tuple[Array, Array]:
    """Left singular vectors (..., n, m) and values (..., m) of matrices.

    Divide and conquer, which is fast, ends without a result for some matrices of good condition.
    """
    try:
        u, s, _ = np.linalg.svd(a, full_matrices=False)
    except np.linalg.LinAlgError:
        flat = a.reshape(-1, *a.shape[-2:])
        found = [scipy.linalg.svd(one, full_matrices=False, lapack_driver="gesvd") for one in flat]
        u = np.stack([left for left, _, _ in found]).reshape(*a.shape[:-1], -1)
        s = np.stack([sizes for _, sizes, _ in found]).reshape(*a.shape[:-2], -1)
    return u, s


def evaluated(term: sympy.Expr, law: Law, inputs: Array) -> Array:
    """Values (S, B) of a term of the law at inputs (S, B, inputs)."""
    library = Library([term], law.inputs, canonical=False)
    rows = inputs[..., : len(law.inputs)].reshape(-1, len(law.inputs))
    return np.nan_to_num(library.numpy()(rows)[:, 0]).reshape(inputs.shape[:2])


def _thinned(shot: ShootingFit) -> ShootingFit:
    """The same on fewer rows, each with a step of its own."""
    d, size = shot.segments.x.shape[2], shot.path.shape[2]
    kept = np.arange(0, len(shot.path), max(1, (len(shot.path) - 1) // MAX_STEPS))
    path, u = shot.path[kept], inputs_along(shot)[kept][..., size:]
    u = np.moveaxis(np.stack([u[:-1], (u[:-1] + u[1:]) / 2, u[1:]], axis=2), 1, 0)
    segments = replace(
        shot.segments, x=shot.segments.x[:, kept], t=shot.segments.t[:, kept], every=1,
        u=u if u.shape[3] else None, weights=None,
    )  # fmt: skip
    residual = segments.scaled(np.moveaxis(segments.x, 1, 0) - path[..., :d])
    return replace(
        shot, segments=segments, path=path, residual=residual, jacobian=shot.jacobian[kept]
    )


def _measured(shot: ShootingFit) -> Array:
    """Inputs (n, S, inputs) along the data: the path of a law that lacks something is far off."""
    given, d = inputs_along(shot).copy(), shot.segments.x.shape[2]
    near = np.arange(len(given))[:, None] + np.arange(-SMOOTH, SMOOTH + 1)
    residual = np.moveaxis(shot.segments.x, 1, 0) - given[..., :d]
    given[..., :d] += residual[np.clip(near, 0, len(given) - 1)].mean(axis=1)
    return given


def _levels(residual: Array, readings: Array, least: Array) -> tuple[Array, Array]:
    """Levels (d,) of the noise, and of each value (n, S, d) the inverse relative to that.

    The noise is what neighbors do not tell, whatever the law lacks. It differs between segments and
    readings of other sizes; values far off their neighbors are outliers, and count less.
    """
    n, off = len(residual), np.zeros_like(residual)
    if n >= 5:  # what a cubic through the neighbors leaves, in units of independent noise
        around = 4 * (residual[1:-3] + residual[3:-1]) - residual[:-4] - residual[4:]
        off[2:-2] = np.abs(residual[2:-2] - around / 6) / math.sqrt(1 + 34 / 36)
        off[:2], off[-2:] = off[2], off[-3]
    each = (1.4826 * np.median(off, axis=0)) ** 2  # (S, d)
    size = np.maximum(each.mean(axis=0), least**2)
    relative = np.broadcast_to(
        (n * each / size + PRIOR_VALUES) / (n + PRIOR_VALUES), off.shape
    ).copy()
    for j in range(off.shape[2]):
        unit = off[..., j] / np.sqrt(relative[..., j] * size[j])
        limits = np.quantile(np.abs(readings[..., j]), np.arange(1, BINS) / BINS)
        place = np.searchsorted(limits, np.abs(readings[..., j]))
        for k in range(BINS):
            here = unit[place == k]
            level = (1.4826 * float(np.median(here))) ** 2 if len(here) else 1.0
            level = (len(here) * level + PRIOR_VALUES) / (len(here) + PRIOR_VALUES)
            relative[..., j][place == k] *= level
    outlying = (DEGREES_OF_FREEDOM + 1) / (DEGREES_OF_FREEDOM + off**2 / (relative * size))
    return np.sqrt(size), np.sqrt(outlying / relative)
