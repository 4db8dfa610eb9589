"""Which columns of a wide table matter at all, before laws of them are searched.

A default library of thirty columns has no room for their 435 products, so the columns are chosen
first, by forward selection among monomials of their ranks: what a law does to a column, alone or
with another one, shows in at least one of them. A column is taken where chance would choose any
column of such a table less often than a test of adequacy rejects a right law.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import stdtr

from sjepa.inference.constants import SIGNIFICANCE


# Most monomials that are taken, and most columns: those of more could not be searched.
MAX_STEPS, MAX_ACTIVE = 12, 6
# Of wider tables only the columns with the strongest effects of their own are multiplied.
MAX_PRODUCTS = 300
# Residuals below this share of the variance are rounding.
EXACT = 1e-12


def active_columns(
    inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None
) -> list[int]:
    """Columns of inputs (n, d) that have a significant effect on any of the targets (n, k).

    At most :data:`MAX_ACTIVE` of them, in the order of the table; none where none is significant.
    A row of weight 2 counts as two rows.
    """
    weights = np.ones(len(inputs)) if weights is None else weights
    rows = weights > 0
    x, y, weights = inputs[rows], targets[rows], weights[rows]
    scores = _rank_scores(x, weights)
    rounds = [_selected(scores, column, weights) for column in y.T]
    found: dict[int, None] = {}
    for step in range(max(map(len, rounds), default=0)):
        for one in rounds:
            for column in one[step] if step < len(one) else ():
                if len(found) < MAX_ACTIVE:
                    found.setdefault(column)
    return sorted(found)


def _rank_scores(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Ranks spread evenly over -1 to 1: no unit, no outlier, any order-preserving scale alike."""
    scores = np.empty_like(x)
    for j, column in enumerate(x.T):
        values, place = np.unique(column, return_inverse=True)
        count = np.bincount(place, weights, len(values))
        middle = np.cumsum(count) - 0.5 * count
        scores[:, j] = 2 * middle[place] / weights.sum() - 1
    return scores


def _selected(u: np.ndarray, y: np.ndarray, weights: np.ndarray) -> list[tuple[int, ...]]:
    """Forward selection for one target: the columns of each monomial that was taken."""
    d, rows, root = u.shape[1], float(weights.sum()), np.sqrt(weights)
    basis = (root / np.linalg.norm(root))[:, None]
    left = root * y
    total = float(np.linalg.norm(left - basis @ (basis.T @ left)))
    taken: list[tuple[int, ...]] = []
    strong = np.arange(d)
    if d > MAX_PRODUCTS:
        effects = np.max([_t_values(c, basis, left, root, 1.0) for c, _ in _alone(u)], axis=0)
        strong = np.sort(np.argsort(-effects)[:MAX_PRODUCTS])
    for _ in range(min(MAX_STEPS, int(rows // 4))):
        left = left - basis @ (basis.T @ left)
        if not np.linalg.norm(left) > np.sqrt(EXACT) * total:
            break
        degrees = max(rows - basis.shape[1] - 1, 1.0)
        best: tuple[float, tuple[int, ...], np.ndarray] | None = None
        # Half of the error is for effects of single columns, which are few and most laws have.
        pairs = len(strong) * (len(strong) - 1)
        for count, group in ((3 * d, _alone(u)), (1.5 * pairs, _together(u, strong))):
            for columns, names in group:
                t = _t_values(columns, basis, left, root, degrees)
                k = int(np.argmax(t))
                chance = min(1.0, 2 * count * float(2 * stdtr(degrees, -t[k])))
                if chance < SIGNIFICANCE and (best is None or chance < best[0]):
                    best = chance, names[k], columns[:, k] * root
        if best is None:
            break
        new = best[2] - basis @ (basis.T @ best[2])
        basis = np.concatenate([basis, (new / np.linalg.norm(new))[:, None]], axis=1)
        taken.append(best[1])
    return taken


Block = tuple[np.ndarray, list[tuple[int, ...]]]


def _alone(u: np.ndarray) -> Iterator[Block]:
    """Legendre polynomials of single columns."""
    names: list[tuple[int, ...]] = [(j,) for j in range(u.shape[1])]
    yield u, names
    yield 1.5 * u**2 - 0.5, names
    yield 2.5 * u**3 - 1.5 * u, names


def _together(u: np.ndarray, columns: np.ndarray) -> Iterator[Block]:
    """Products of two columns, and of one with the square of another, column by column."""
    square = 1.5 * u**2 - 0.5
    for place, j in enumerate(columns.tolist()):
        later = columns[place + 1 :]
        others = columns[columns != j]
        names: list[tuple[int, ...]] = [(j, int(k)) for k in (*later, *others)]
        if names:
            yield u[:, [j]] * np.concatenate([u[:, later], square[:, others]], axis=1), names


def _t_values(
    columns: np.ndarray, basis: np.ndarray, left: np.ndarray, root: np.ndarray, degrees: float
) -> np.ndarray:
    """Size of the t statistic of each column (n, m) beside those of the basis."""
    own = columns * root[:, None]
    before = (own**2).sum(axis=0)
    own -= basis @ (basis.T @ own)
    size = (own**2).sum(axis=0)
    usable = size > 1e-8 * before
    pull = (own.T @ left) / np.sqrt(np.where(usable, size, 1.0))
    square = float(left @ left)
    rest = np.maximum(square - pull**2, 1e-300 + 1e-15 * square)
    return np.where(usable, np.abs(pull) * np.sqrt(degrees / rest), 0.0)
