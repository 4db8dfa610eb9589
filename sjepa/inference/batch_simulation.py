"""Paths of a law from many starts at once, beside segments of measured trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import sympy

from sjepa.inference.segments import Segments
from sjepa.symbolic import Law
from sjepa.symbolic.emit import NUMPY, run
from sjepa.symbolic.law_methods import order_of
from sjepa.symbolic.program import Program, compile_program


# Paths end here, in units of the spread around the mean: a law that blows up is wrong by enough.
FAR = 30.0
# Values of a path that are filled in at once; bounds the memory to a few megabytes.
BETWEEN = 65_536


class _Field:
    """The law with its coefficients: instructions on a memory that lacks only states and inputs.

    With a `matrix` (outputs, terms) they give the terms of which the equations are sums. Values of
    another field are added to theirs, if there is one.
    """

    def __init__(
        self,
        program: Program,
        coefficients: Sequence[np.ndarray],
        matrix: np.ndarray | None = None,
        plus: _Field | None = None,
    ) -> None:
        self.program, self.matrix, self.plus = program, matrix, plus
        self.memory: list[Any] = [None] * program.size
        for slot, value in (
            *program.constants,
            *zip(program.coefficients, coefficients, strict=True),
        ):
            self.memory[slot] = value

    def __call__(self, z: np.ndarray, u: np.ndarray | None) -> np.ndarray:
        """Values of the equations for states (size, ...) with inputs (m, S)."""
        values = self._own(z, u)
        return values if self.plus is None else values + self.plus(z, u)

    def _own(self, z: np.ndarray, u: np.ndarray | None) -> np.ndarray:
        memory, shape = self.memory, z.shape[1:]
        memory[: len(z)] = z
        if u is not None:
            memory[len(z) : self.program.inputs] = u
        values = run(self.program, memory, NUMPY)
        rows = np.empty((len(values), *shape))
        for i, value in enumerate(values):
            rows[i] = value
        if self.matrix is None:
            return rows
        if len(shape) == 1:
            return self.matrix @ rows
        return (self.matrix @ rows.reshape(len(rows), -1)).reshape(-1, *shape)


class Shooter:
    """Simulations of one structure with any coefficients, all segments at once."""

    def __init__(self, law: Law, segments: Segments) -> None:
        self.law, self.segments, self.discrete = law, segments, law.dynamics == "discrete"
        self.order = order_of(law)
        self.outputs = len(law.outputs)
        self.size = self.order * self.outputs
        self.uses_inputs = len(law.inputs) > self.size
        self.known: _Field | None = None
        if segments.known is not None:
            self.known = _Field(_compiled(segments.known.expressions, law.symbols), ())
        spread = segments.spread
        far = FAR * spread + np.abs(segments.middle)
        if self.order == 2:
            far = np.concatenate([far, FAR * segments.speed])
            spread = np.concatenate([spread, segments.speed])
        self.far, self.spread = far, np.maximum(spread, 1e-300)

    def _field(self, coefficients: np.ndarray, shape: tuple[int, ...]) -> _Field:
        """For coefficients (..., S, p), or one set (p,) of them for starts of shape (..., S)."""
        law = self.law
        if coefficients.ndim == 1 and law.free:  # terms once, and all sums of them in one product
            terms = {t: i for i, t in enumerate({t: 0 for e in law.equations for _, t in e.pairs})}
            matrix = np.zeros((self.outputs, len(terms)))
            places = [(i, terms[t]) for i, e in enumerate(law.equations) for _, t in e.pairs]
            matrix[tuple(np.array(places, dtype=int).reshape(-1, 2).T)] = coefficients
            return _Field(_compiled(tuple(terms), law.symbols), (), matrix, self.known)
        each = np.broadcast_to(coefficients, (*shape, coefficients.shape[-1]))
        # The components come first here: every operation is on arrays in one piece.
        own = list(np.ascontiguousarray(np.moveaxis(each, -1, 0)))
        return _Field(law.program, own, plus=self.known)

    def velocity(self, z: np.ndarray, u: np.ndarray | None, field: _Field) -> np.ndarray:
        """Of states (size, ...) with inputs (m, S)."""
        change = field(z, u)
        return change if self.order == 1 else np.concatenate([z[self.size // 2 :], change])

    def path(self, coefficients: np.ndarray, start: np.ndarray) -> np.ndarray:
        """States (H k + 1, ..., S, size) for coefficients (..., S, p) and starts (..., S, size)."""
        data, every = self.segments, self.segments.every
        field = self._field(coefficients, start.shape[:-1])
        z = np.ascontiguousarray(np.moveaxis(start, -1, 0))
        nodes = np.ascontiguousarray(data.t[:, ::every].T)
        steps, ahead = (nodes[1:] - nodes[:-1]) / data.substeps, None
        halves, sixths = steps / 2, steps / 6
        far = self.far.reshape(-1, *[1] * (z.ndim - 1))
        path = np.empty((len(steps) * every + 1, *z.shape))
        path[0] = z
        slopes = np.empty((len(steps) + 1 if every > 1 else 0, *z.shape))
        with np.errstate(all="ignore"):
            for h, step in enumerate(zip(steps, halves, sixths, strict=True)):
                u = None
                if data.u is not None and self.uses_inputs:
                    u = np.moveaxis(data.u[..., h, :, :], (-1, -2), (0, 1))
                z, slope = self._next(z, step, u, field, ahead)
                if not (np.abs(z) <= far).all():
                    z = np.clip(np.where(np.isfinite(z), z, far), -far, far)
                path[(h + 1) * every] = z
                if every > 1:
                    # Without a jump of inputs between, the next step begins with this velocity.
                    ahead = self.velocity(z, None if u is None else u[:, 2], field)
                    slopes[h : h + 2] = slope, ahead
            together = max(1, BETWEEN // (every * z.size))
            for first in range(0, len(steps), together) if every > 1 else ():
                self._between(path, slopes, nodes, slice(first, min(first + together, len(steps))))
            np.fmin(path, far, out=path)  # also for what is no number
            np.fmax(path, -far, out=path)
        return np.moveaxis(path, 1, -1)

    def _between(
        self, path: np.ndarray, slopes: np.ndarray, nodes: np.ndarray, here: slice
    ) -> None:
        """Fill in the states between the nodes of some steps, by cubics with their slopes."""
        every, after = self.segments.every, slice(here.start + 1, here.stop + 1)
        rows = slice(here.start * every, here.stop * every)
        times = self.segments.t[:, rows].T.reshape(here.stop - here.start, every, -1)
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
        step: tuple[np.ndarray, np.ndarray, np.ndarray],
        u: np.ndarray | None,
        field: _Field,
        slope: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The state at the end of a step, by the classic method of order four, and the velocity.

        `slope` is that velocity at the start, if it is known. A substep comes with its half and
        its sixth.
        """
        if self.discrete:
            following = self.velocity(z, None if u is None else u[:, 0], field)
            return following, following
        n, (part, half, sixth) = self.segments.substeps, step
        slope = self.velocity(z, None if u is None else u[:, 0], field) if slope is None else slope
        for k in range(n):
            first = middle = last = None
            if u is not None:
                first, middle, last = (_parabola(u, (k + share) / n) for share in (0.0, 0.5, 1.0))
            k1 = self.velocity(z, first, field) if k else slope
            k2 = self.velocity(z + half * k1, middle, field)
            k3 = self.velocity(z + half * k2, middle, field)
            k4 = self.velocity(z + part * k3, last, field)
            z = z + sixth * (k1 + 2 * (k2 + k3) + k4)
        return z, slope

    def linearized(
        self, coefficients: np.ndarray, start: np.ndarray, coefficients_too: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """The path (H + 1, S, size), and its derivatives (H + 1, S, d, size + p) by differences."""
        p, s = coefficients.shape[-1], self.size
        copies = 1 + s + (p if coefficients_too else 0)
        starts = np.repeat(start[None], copies, axis=0)
        given = np.repeat(
            np.broadcast_to(coefficients, (len(start), p))[None], copies, axis=0
        ).copy()
        by = np.empty(copies - 1)
        for i in range(s):
            by[i] = 1e-6 * self.spread[i]
            starts[1 + i, :, i] += by[i]
        for i in range(copies - 1 - s):
            by[s + i] = 1e-6 * max(abs(float(np.mean(coefficients[..., i]))), 1e-6)
            given[1 + s + i, :, i] += by[s + i]
        paths = self.path(given, starts)  # (H + 1, copies, S, size)
        d = self.segments.x.shape[2]
        change = (paths[:, 1:, :, :d] - paths[:, :1, :, :d]) / by[:, None, None]
        return paths[:, 0], self.segments.scaled(np.moveaxis(change, 1, -1))

    def residual(self, path: np.ndarray) -> np.ndarray:
        """Measurements less the path, in units of noise (H + 1, S, d)."""
        measured = np.moveaxis(self.segments.x, 1, 0)
        return self.segments.scaled(measured - path[..., : measured.shape[-1]])


@lru_cache(maxsize=256)
def _compiled(terms: tuple[sympy.Expr, ...], inputs: tuple[sympy.Symbol, ...]) -> Program:
    """Searches run the same terms again and again."""
    return compile_program(terms, inputs)


def _parabola(u: np.ndarray, share: float) -> np.ndarray:
    """Actions at a share of a step, through those at its start, middle and end (m, 3, S)."""
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
