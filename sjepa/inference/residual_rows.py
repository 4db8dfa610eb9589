"""Residuals of simulated segments as a linear regression, and the evidence of what explains them.

Whatever acts on a law's velocities beside it moves the simulated path; to first order the path
moves in proportion. An explanation is a set of columns with normal weights of one variance, and its
evidence is the likelihood with the weights integrated out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import sympy

from sjepa.inference.noise import Array
from sjepa.inference.probes import inputs_along, response
from sjepa.inference.shooting import ShootingFit
from sjepa.symbolic import Law, Library


# Steps of each segment, values of all its states that are compared, and instants at which something
# may act. More of any adds work and little evidence.
MAX_STEPS, MAX_VALUES, MAX_INSTANTS = 100, 96, 64
# Rows on either side over which the residual is averaged to tell where the states are.
SMOOTH = 1
# Variances of the weights, relative to the noise, among which the likeliest is taken.
VARIANCES = 10.0 ** np.arange(-2, 9)


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Of S segments with N values each: y (S, N), and how they move with what may explain them.

    `starts` (S, N, size) are the derivatives by the first states, `law` (S, N, p) the columns of
    the law's terms and of all affine ones, `force` (S, N, B, J) what a unit force on the velocity
    of output j moves if it acts during interval b. `t` (S, B) are the middles of the intervals,
    `inputs` (S, B, inputs) what the law takes there, `trajectory` (S,) where a segment was cut
    from, `states` how many of its values are of one time. `added` counts the affine terms that the
    law has not; `log_volume` are nats from the units of the rows to those of the segments.
    """

    y: Array
    starts: Array
    law: Array
    force: Array
    t: Array
    inputs: Array
    trajectory: Array
    states: int
    added: int
    log_volume: float

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
        unit = shot.residual / shot.noise.scale[segments.trajectory]
        weight = (np.sqrt(_isolated(unit)) / shot.noise.scale[segments.trajectory])[rows]

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
            inputs, segments.trajectory, d, len(more), float(np.log(weight).sum()),
        )  # fmt: skip

    # What may explain them -----------------------------------------------------------------------

    def on_output(self, j: int, functions: Array) -> Array:
        """Columns (S, N, m) of forces (S, B, m) on one output."""
        return np.matmul(self.force[..., j], functions)

    def white(self, rho: float, share: float) -> ResidualRows:
        """The same with noise made white that has a memory.

        `rho` is its correlation between neighbors, `share` its variance beside that of white noise.
        """
        n = self.y.shape[1] // self.states
        gap = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        one = np.linalg.inv(np.linalg.cholesky(np.eye(n) + share * rho**gap))
        by = np.kron(one, np.eye(self.states))
        log = float(np.log(np.diag(one)).sum()) * self.states * len(self.y)
        force = by @ self.force.reshape(*self.y.shape, -1)
        return replace(
            self, y=self.y @ by.T, starts=by @ self.starts, law=by @ self.law,
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
        u, s, _ = np.linalg.svd(rows / np.maximum(scale, 1e-300), full_matrices=False)
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
        taken = self.starts.shape[2] * len(self.y) + self.law.shape[2]
        return max(self.y.size - taken, 1)

    @property
    def each(self) -> float:
        """Nats for a fitted number."""
        return 0.5 * math.log(max(self.degrees, 2))

    def _nats(self, squares: Array | float, volumes: Array | float = 0.0) -> Array:
        return np.asarray(
            self.log_volume - 0.5 * volumes
            - 0.5 * self.degrees * np.log(np.maximum(squares, 1e-300))
        )  # fmt: skip

    def evidence(self, columns: Array | None = None) -> float:
        """Nats of columns (S, N, m) whose weights are those of all segments; of none by default."""
        y = self.unexplained
        square = float(y @ y)
        if columns is None:
            return float(self._nats(square))
        c = self.without_law(self.free(columns).reshape(len(y), -1))
        values, u = np.linalg.eigh(c.T @ c)
        values = np.maximum(values, 0.0)
        g = (u.T @ (c.T @ y)) ** 2
        by = VARIANCES[:, None] / max(float(values.mean()), 1e-300)
        less = (by * g / (1 + by * values)).sum(axis=1)
        least = 1e-14 * square  # beyond the accuracy of the sums
        nats = self._nats(np.maximum(square - less, least), np.log1p(by * values).sum(axis=1))
        return float(nats.max())

    def evidence_of_each(self, columns: Array) -> float:
        """Nats of columns (S, N, m) whose weights are each segment's own."""
        c = self.free(columns)
        u, s, _ = np.linalg.svd(c, full_matrices=False)
        turn, values = np.swapaxes(u, 1, 2), s**2
        y, law = self.left, self._coefficients.reshape(*self.y.shape, -1)
        y_in, law_in = turn @ y[..., None], turn @ law
        # Of what lies outside of the columns only sums of squares are needed.
        whole = [float((y**2).sum()), np.einsum("snp,sn->p", law, y), np.eye(law.shape[2])]
        best = -math.inf
        for by in VARIANCES / max(float(values.mean()), 1e-300):
            less = (by * values / (1 + by * values))[..., None]
            lost = less * law_in
            across = whole[1] - np.einsum("smp,smi->p", lost, y_in)
            inner = whole[2] - np.einsum("smp,smq->pq", lost, law_in)
            square = whole[0] - float((less * y_in**2).sum())
            square -= float(across @ np.linalg.lstsq(inner, across, rcond=1e-12)[0])
            square = max(square, 1e-14 * whole[0])
            best = max(best, float(self._nats(square, float(np.log1p(by * values).sum()))))
        return best


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


def _isolated(residual: Array) -> Array:
    """Weights (n, S, d) of values, small for those that lie far off their neighbors: outliers."""
    n = len(residual)
    near = np.stack([residual[np.clip(np.arange(n) + k, 0, n - 1)] for k in range(-2, 3)])
    off = np.abs(residual - np.median(near, axis=0))
    size = 1.4826 * float(np.median(off[off > 0])) if (off > 0).any() else 1.0
    return 5.0 / (4.0 + (off / max(size, 1e-300)) ** 2)
