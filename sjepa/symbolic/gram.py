"""Sums over the data that are all a sparse regression needs.

Whatever the number of rows, least squares on a library of P terms needs only the P x P matrix of
inner products. It is accumulated chunk by chunk in double precision, so rows never have to be in
memory at once, and every support of the library is then a small linear solve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sjepa.errors import DataError
from sjepa.symbolic.library import Library


if TYPE_CHECKING:
    from sjepa.symbolic.emit import NumpyLaw


CHUNK = 16_384
# Rows that tell roughly where the best law is.
SOME, LARGE = 1_000, 10.0
# Keeps columns that depend on each other solvable.
NEARLY = 1e-12
# Rows whose features stay in the cache until their products are taken.
PIECE = 4_096
# Squares of larger numbers, summed over rows, leave the range of double precision.
MAX_SIZE = 1e150
# What a column of unit norm must have of its own for plain elimination to be accurate.
WELL_CONDITIONED = 1e-4


@dataclass(frozen=True)
class Residuals:
    """Sums of r = y - features @ coefficients (P, k): xr (P, k) and rr (k,)."""

    coefficients: np.ndarray
    xr: np.ndarray
    rr: np.ndarray

    def moved(self, coefficients: np.ndarray, xx: np.ndarray) -> Residuals:
        """The same for other coefficients; exact to rounding if they are close."""
        by = coefficients - self.coefficients
        change = xx @ by
        rr = self.rr - 2.0 * _dot(by, self.xr) + _dot(by, change)
        return Residuals(coefficients, self.xr - change, rr)


@dataclass(frozen=True)
class Gram:
    """Weighted sums of products of features and targets.

    Attributes
    ----------
    xx : (P, P), xy : (P, k), yy : (k,)
        Sums of feature*feature, feature*target and target**2.
    y : (k,)
        Sums of the targets.
    rows : int
        Number of rows seen.
    weight : float
        Sum of the sample weights.
    near : Residuals, optional
        The same sums for the residuals of a law near the best one: losses of laws that
        are nearly exact are differences of these small sums and keep their digits.
    loss_unit : (k,), optional
        What losses are in units of, where that is not the variance of the targets.

    Examples
    --------
    Sums add up, so data of any size pass through in chunks:

    >>> x, y = np.array([[1.0], [2.0]]), np.array([[3.0], [6.0]])
    >>> both = Gram.from_features(x, y) + Gram.from_features(x, y)
    >>> both.rows, both.xx.tolist(), both.xy.tolist()
    (4, [[10.0]], [[30.0]])
    """

    xx: np.ndarray
    xy: np.ndarray
    yy: np.ndarray
    y: np.ndarray
    rows: int
    weight: float
    near: Residuals | None = None
    loss_unit: np.ndarray | None = None

    @classmethod
    def from_features(
        cls, features: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None
    ) -> Gram:
        """From feature columns (n, P) and targets (n, k) in memory."""
        features = np.asarray(features, dtype=float)
        targets = np.asarray(targets, dtype=float)
        if weights is None:
            weighted, weighted_targets, total = features, targets, float(len(features))
        else:
            column = np.asarray(weights, dtype=float)[:, None]
            weighted, weighted_targets = features * column, targets * column
            total = float(column.sum())
        return cls(
            weighted.T @ features,
            weighted.T @ targets,
            np.einsum("nk,nk->k", weighted_targets, targets),
            weighted_targets.sum(axis=0),
            len(features),
            total,
        )

    @classmethod
    def from_chunks(
        cls,
        library: Library,
        chunks: Iterable[tuple[np.ndarray, ...]],
        near: np.ndarray | None = None,
    ) -> Gram:
        """From an iterator of (inputs (n, d), targets (n, k)[, weights (n,)]).

        Only one chunk is in memory at a time; a large chunk is cut into pieces. `near` are
        coefficients (P, k) from which residuals are taken; by default those of some rows.
        """
        features, terms = library.numpy(), len(library)
        products: np.ndarray | None = None
        y_sum, rows, weight = 0.0, 0, 0.0
        for inputs, targets, *weights in chunks:
            if near is None:
                near = _nearby(features, inputs, targets, *weights)
            size = terms + near.shape[1]
            for start in range(0, len(inputs), PIECE):
                if products is None:
                    products, columns = np.zeros((size, size)), np.empty((size, PIECE))
                part = slice(start, start + PIECE)
                x, y = np.asarray(inputs[part]), np.asarray(targets[part], dtype=float)
                w = None
                if weights:  # rows without weight may hold anything
                    w = np.asarray(weights[0][part], dtype=float)
                    x, y, w = x[w > 0], y[w > 0], w[w > 0]
                here = columns[:, : len(x)]
                theta, left = features.columns(x, here[:terms]), here[terms:]
                with np.errstate(all="ignore"):  # what overflows is refused below, by name
                    np.matmul(near.T, theta, out=left)
                    np.subtract(y.T, left, out=left)
                    target_sums = y.sum(axis=0) if w is None else w @ y
                    root = here if w is None else here * np.sqrt(w)
                    squares = root @ root.T  # a symmetric product takes half the work
                    if not np.trace(squares) + np.abs(target_sums).max() ** 2 <= MAX_SIZE**2:
                        _refuse(np.concatenate([theta, y.T]), library, start)
                    products, y_sum = products + squares, y_sum + target_sums
                rows, weight = rows + len(x), weight + float(len(x) if w is None else w.sum())
        if products is None or near is None:
            raise DataError("The iterator of chunks is empty: there is nothing to fit.")
        xx, xr = products[:terms, :terms], products[:terms, terms:]
        with np.errstate(all="ignore"):
            residuals = Residuals(near, xr, products[terms:, terms:].diagonal())
            whole = residuals.moved(np.zeros_like(near), xx)
        return cls(xx, whole.xr, whole.rr, np.asarray(y_sum), rows, weight, residuals)

    def __add__(self, other: Gram) -> Gram:
        return Gram(
            self.xx + other.xx,
            self.xy + other.xy,
            self.yy + other.yy,
            self.y + other.y,
            self.rows + other.rows,
            self.weight + other.weight,
            self._near_both(other),
        )

    def _near_both(self, other: Gram) -> Residuals | None:
        if self.near is None or other.near is None:
            return None
        here, there = self.near, other.near
        if not np.array_equal(there.coefficients, here.coefficients):
            there = there.moved(here.coefficients, other.xx)
        return Residuals(here.coefficients, here.xr + there.xr, here.rr + there.rr)

    @cached_property
    def variance(self) -> np.ndarray:
        """Variance of each target; its mean square where it does not vary."""
        if self.loss_unit is not None:
            return self.loss_unit
        mean_square = self.yy / self.weight
        variance = mean_square - (self.y / self.weight) ** 2
        # A constant target would divide by rounding noise.
        flat = variance <= 1e-12 * np.maximum(mean_square, 1e-300)
        return np.where(flat, np.maximum(mean_square, 1e-300), variance)

    def loss(self, coefficients: np.ndarray) -> np.ndarray:
        """Mean squared error of each output in units of its variance, for (P, k) coefficients."""
        residual = self._near.moved(coefficients, self.xx).rr
        return np.maximum(residual, 0.0) / self.weight / self.variance

    def losses_of(self, output: int | np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """The same (n,) of one output, or of one for each row, for coefficients (n, P)."""
        near = self._near
        by = coefficients - near.coefficients.T[output]
        rr = near.rr[output] + ((by @ self.xx - 2.0 * near.xr.T[output]) * by).sum(axis=1)
        return np.maximum(rr, 0.0) / self.weight / self.variance[output]

    def largest(self, output: int, coefficients: np.ndarray) -> float:
        """The size of the sums that the loss of (P,) is a difference of, in the same unit."""
        near = self._near
        size = np.abs(coefficients - near.coefficients[:, output])
        sums = max(float(size @ (np.abs(self.xx) @ size)), float(near.rr[output]))
        with np.errstate(over="ignore"):  # targets that are next to nothing
            return float(sums / self.weight / self.variance[output])

    @property
    def _near(self) -> Residuals:
        return self.near or Residuals(np.zeros_like(self.xy), self.xy, self.yy)

    def solve(self, support: np.ndarray, output: int, ridge: float = 0.0) -> np.ndarray:
        """Least-squares coefficients (P,) of one output on a boolean or index support.

        Columns are scaled to unit norm first, so that `ridge` and the conditioning do not depend
        on units; nearly dependent columns get the solution of smallest norm.
        """
        index = (
            np.flatnonzero(support) if np.asarray(support).dtype == bool else np.asarray(support)
        )
        return self.solve_all(index[None], output, ridge)[0]

    def solve_all(
        self, supports: np.ndarray, output: int | np.ndarray, ridge: float = 0.0
    ) -> np.ndarray:
        """The same (n, P) for many index supports (n, s), of one output or of one for each.

        Short supports are filled up with -1.
        """
        count, size = supports.shape
        result = np.zeros((count, len(self.xx) + 1))
        if size:
            scale, unit = self.unit
            a = unit[supports[:, :, None], supports[:, None, :]]
            b = self.xy[supports, np.reshape(output, (-1, 1))] / scale[supports]
            filled = supports < 0
            if filled.any():
                a = np.where(filled[:, :, None] | filled[:, None, :], np.eye(size), a)
                b[filled] = 0.0
            if ridge:
                a = a + ridge * np.eye(size)
            rows = np.arange(count)[:, None]
            result[rows, supports] = solve_normal(a, b) / scale[supports]
        return result[:, :-1]

    @cached_property
    def unit(self) -> tuple[np.ndarray, np.ndarray]:
        """The norms of the columns, and the products of columns of norm 1."""
        scale = np.sqrt(np.maximum(np.diag(self.xx), 1e-300))
        return scale, self.xx / np.outer(scale, scale)


def variance_of(targets: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Variance (k,) of targets (n, k); their mean square where they do not vary."""
    count = len(targets)
    mean = mean_of(lambda rows: targets[rows], count, weights)
    variance = mean_of(lambda rows: (targets[rows] - mean) ** 2, count, weights)
    mean_square = np.maximum(variance + mean**2, 1e-300)
    return np.where(variance <= 1e-12 * mean_square, mean_square, variance)


def mean_of(
    values: Callable[[slice], np.ndarray], count: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Weighted mean of what is computed row by row, without a column of it in memory."""
    total, weight = 0.0, 0.0
    for start in range(0, count, CHUNK):
        rows = slice(start, min(start + CHUNK, count))
        w = np.ones(rows.stop - start) if weights is None else weights[rows]
        total, weight = total + w @ values(rows), weight + w.sum()
    return np.asarray(total / weight)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner product of each column."""
    return np.einsum("pk,pk->k", a, b)


def _nearby(
    features: NumpyLaw, inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Coefficients (P, k) of the whole library, by least squares on some of the rows."""
    every = max(1, len(inputs) // SOME)
    with np.errstate(all="ignore"):
        theta, y = features(inputs[::every]), np.asarray(targets[::every], dtype=float)
        if weights is not None:  # rows without weight may hold anything
            root = np.sqrt(np.asarray(weights[::every], dtype=float))[:, None]
            theta, y = np.where(root > 0, theta * root, 0.0), np.where(root > 0, y * root, 0.0)
        a, b = theta.T @ theta, theta.T @ y
        norms = np.sqrt(a.diagonal())
        scale = np.where(norms > 0, norms, 1.0)[:, None]
        a = a / (scale * scale.T) + NEARLY * np.eye(len(a))
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return np.zeros_like(b)
    # The second time by what the first one leaves: sums of squares have half the digits.
    near = np.linalg.solve(a, b / scale)
    near += np.linalg.solve(a, theta.T @ (y - theta @ (near / scale)) / scale)
    # Large parts that cancel would lose more digits than they save.
    near[:, ~(np.abs(near).max(axis=0) <= LARGE * np.linalg.norm(y, axis=0))] = 0.0
    return near / scale


def _refuse(rows: np.ndarray, library: Library, start: int) -> None:
    """Name the first of the columns (terms + k, n) that has no finite square, if there is one."""
    bad = np.argwhere(~(np.abs(rows) <= MAX_SIZE))
    if len(bad):
        j, row = bad[0]
        name = library.names[j] if j < len(library) else "a target"
        raise DataError(
            f"{name} is {rows[j, row]:.3g}, not finite in row {start + row} "
            "or of no finite square: rescale the data, or choose other terms."
        )


def solve_normal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve normal equations of unit columns; the solution of smallest norm if they depend.

    The singular values that this takes cost a hundred times what Cholesky's factor does, which
    tells whether they are needed: its diagonal is what each column adds to those before it. Many
    systems (n, s, s), (n, s) are solved at once.
    """
    if a.ndim > 2:
        if len(a) > 1:
            with suppress(np.linalg.LinAlgError):
                factors = np.linalg.cholesky(a)
                if factors.diagonal(axis1=-2, axis2=-1).min() > WELL_CONDITIONED:
                    return np.linalg.solve(a, b[..., None])[..., 0]
        return np.stack([solve_normal(*pair) for pair in zip(a, b, strict=True)])
    from scipy.linalg.lapack import dposv  # slow to import, and many uses of laws do without

    factor, solution, failed = dposv(a, b)
    if not failed and factor.diagonal().min() > WELL_CONDITIONED:
        return solution
    return np.linalg.lstsq(a, b, rcond=1e-14)[0]
