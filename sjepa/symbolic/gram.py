"""Sums over the data that are all a sparse regression needs.

Whatever the number of rows, least squares on a library of P terms needs only the P x P matrix of
inner products. It is accumulated chunk by chunk in double precision, so rows never have to be in
memory at once, and every support of the library is then a small linear solve.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sjepa.errors import DataError
from sjepa.symbolic.library import Library


CHUNK = 16_384
# Squares of larger numbers, summed over rows, leave the range of double precision.
MAX_SIZE = 1e150
# What a column of unit norm must have of its own for plain elimination to be accurate.
WELL_CONDITIONED = 1e-4


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
    def from_chunks(cls, library: Library, chunks: Iterable[tuple[np.ndarray, ...]]) -> Gram:
        """From an iterator of (inputs (n, d), targets (n, k)[, weights (n,)]).

        Only one chunk is in memory at a time; a large chunk is cut into pieces.
        """
        features = library.numpy()
        total: Gram | None = None
        for inputs, targets, *weights in chunks:
            for start in range(0, len(inputs), CHUNK):
                part = slice(start, start + CHUNK)
                x, y = np.asarray(inputs[part]), np.asarray(targets[part], dtype=float)
                w = None
                if weights:  # rows without weight may hold anything
                    w = np.asarray(weights[0][part], dtype=float)
                    x, y, w = x[w > 0], y[w > 0], w[w > 0]
                theta = features(x)
                for values, names in ((theta, library.names), (y, ["a target"] * y.shape[1])):
                    if len(values) and not np.abs(values).max() <= MAX_SIZE:
                        row, j = np.argwhere(~(np.abs(values) <= MAX_SIZE))[0]
                        raise DataError(
                            f"{names[j]} is {values[row, j]:.3g}, not finite in row {start + row} "
                            "or of no finite square: rescale the data, or choose other terms."
                        )
                gram = cls.from_features(theta, y, w)
                total = gram if total is None else total + gram
        if total is None:
            raise DataError("The iterator of chunks is empty: there is nothing to fit.")
        return total

    def __add__(self, other: Gram) -> Gram:
        return Gram(
            self.xx + other.xx,
            self.xy + other.xy,
            self.yy + other.yy,
            self.y + other.y,
            self.rows + other.rows,
            self.weight + other.weight,
        )

    @property
    def variance(self) -> np.ndarray:
        """Variance of each target; its mean square where it does not vary."""
        mean_square = self.yy / self.weight
        variance = mean_square - (self.y / self.weight) ** 2
        # A constant target would divide by rounding noise.
        flat = variance <= 1e-12 * np.maximum(mean_square, 1e-300)
        return np.where(flat, np.maximum(mean_square, 1e-300), variance)

    def loss(self, coefficients: np.ndarray) -> np.ndarray:
        """Mean squared error of each output in units of its variance, for (P, k) coefficients."""
        residual = (
            self.yy
            - 2.0 * np.einsum("pk,pk->k", coefficients, self.xy)
            + np.einsum("pk,pq,qk->k", coefficients, self.xx, coefficients)
        )
        return np.maximum(residual, 0.0) / self.weight / self.variance

    def solve(self, support: np.ndarray, output: int, ridge: float = 0.0) -> np.ndarray:
        """Least-squares coefficients (P,) of one output on a boolean or index support.

        Columns are scaled to unit norm first, so that `ridge` and the conditioning do not depend
        on units; nearly dependent columns get the solution of smallest norm.
        """
        index = (
            np.flatnonzero(support) if np.asarray(support).dtype == bool else np.asarray(support)
        )
        result = np.zeros(len(self.xx))
        if len(index):
            scale = np.sqrt(np.maximum(np.diag(self.xx)[index], 1e-300))
            a = self.xx[np.ix_(index, index)] / np.outer(scale, scale)
            b = self.xy[index, output] / scale
            if ridge:
                a = a + ridge * np.eye(len(index))
            result[index] = solve_normal(a, b) / scale
        return result


def solve_normal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve normal equations of unit columns; the solution of smallest norm if they depend.

    The singular values that this takes cost a hundred times what Cholesky's factor does, which
    tells whether they are needed: its diagonal is what each column adds to those before it.
    """
    try:
        if np.linalg.cholesky(a).diagonal().min() > WELL_CONDITIONED:
            return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        pass
    return np.linalg.lstsq(a, b, rcond=1e-14)[0]
