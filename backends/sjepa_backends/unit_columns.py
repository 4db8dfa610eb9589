"""Terms as columns of unit norm, and the supports that can be made of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from sjepa.symbolic.gram import Gram


# Keeps nearly dependent columns solvable; far below the losses that are told apart.
JITTER = 1e-13
# Eigenvalues below this share of the largest are rounding.
DEPENDENT = 1e-12


class UnitColumns:
    """Some terms of a library as columns of norm 1: their products, and the inverse of these.

    Terms that the others make up, as 1 is made up of squares of sine and cosine, can go for
    nothing; an inverse would turn their rounding into a loss. They are `spare`.
    """

    def __init__(self, sums: Gram, index: np.ndarray, weights: np.ndarray) -> None:
        self.index, self.weights = index, weights[index]
        self.scale = np.sqrt(np.diag(sums.xx)[index])
        self.a = sums.xx[np.ix_(index, index)] / np.outer(self.scale, self.scale)
        self.a[np.diag_indices(len(index))] += JITTER
        values, vectors = np.linalg.eigh(self.a)
        sound = values > DEPENDENT * values.max(initial=0.0)
        self.spare = (vectors[:, ~sound] ** 2).sum(axis=1) > 1e-8
        self.inverse = (vectors[:, sound] / values[sound]) @ vectors[:, sound].T

    def leave_one_out(self, b: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss of all terms, and of all without each one of them, for products with a target."""
        coefficients = self.inverse @ b
        full = max(1.0 - float(b @ coefficients), 0.0)
        rise = coefficients**2 / np.maximum(np.diag(self.inverse), 1e-300)
        return full, np.minimum(full + np.where(self.spare, 0.0, rise), 1.0)

    def affordable(self, max_cost: int) -> float:
        """The highest cost for which there are at most that many supports, counted exactly."""
        units = np.rint(self.weights * 100).astype(int).tolist()
        return _affordable(tuple(sorted(units)), max_cost)


def losses(a: np.ndarray, b: np.ndarray, supports: np.ndarray) -> np.ndarray:
    """What supports (size, n) leave of targets, (..., n), from products a (T, T) and b (..., T).

    By elimination, all supports at once: a call for each matrix would take most of the time.
    """
    products, terms = a.ravel(), len(a)
    left = np.ones((*b.shape[:-1], supports.shape[1]))
    done: list[tuple[list[np.ndarray], np.ndarray, np.ndarray]] = []
    for chosen in supports:
        y, pivot, first = (
            b.take(chosen, axis=-1),
            np.full(len(chosen), 1.0 + JITTER),
            chosen * terms,
        )
        row: list[np.ndarray] = []
        factors: list[np.ndarray] = []
        for column, (others, other_pivot, other_y) in zip(supports, done, strict=False):
            entry = products[first + column]
            for before, factor in zip(row, others, strict=False):
                entry -= before * factor
            factor = entry / other_pivot
            row.append(entry)
            factors.append(factor)
            pivot -= entry * factor
            y -= factor * other_y
        done.append((factors, pivot, y))
        left -= y * y / pivot
    return np.maximum(left, 0.0)


class Later:
    """Tables that list the terms after a given one up to a given weight."""

    def __init__(self, weights: np.ndarray) -> None:
        self.steps = np.unique(weights)
        light = weights <= np.append(-1.0, self.steps)[:, None]
        self.terms = np.nonzero(light)[1]
        self.ends = np.cumsum(light.sum(axis=1))
        self.begins = np.zeros((len(light), len(weights) + 1), dtype=np.intp)
        np.cumsum(light, axis=1, out=self.begins[:, 1:])
        self.begins[1:] += self.ends[:-1, None]

    def up_to(self, max_cost: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each weight and last term, those terms: which of the given, and the term."""
        step = np.searchsorted(self.steps, max_cost, side="right")
        begin = self.begins[step, last + 1]
        count = self.ends[step] - begin
        rows = np.repeat(np.arange(len(max_cost)), count)
        ahead = begin + count - np.cumsum(count)
        return rows, self.terms[np.arange(len(rows)) + ahead[rows]]


@dataclass(frozen=True)
class Supports:
    """All supports up to a cost, as `blocks` (size, n) of one size after the other.

    `order` sorts them by their cost, which is one of `costs`; `begins` says where each begins.
    """

    blocks: list[np.ndarray]
    order: np.ndarray
    costs: np.ndarray
    begins: np.ndarray

    def lowest(self, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each cost (k, costs), the place of the lowest of losses (k, n), and that."""
        ordered = losses[:, self.order]
        parts = pairwise([*self.begins.tolist(), len(self.order)])
        place = np.array([i + ordered[:, i:k].argmin(axis=1) for i, k in parts]).T
        return self.order[place], ordered[np.arange(len(place))[:, None], place]

    def at(self, place: int) -> np.ndarray:
        """The support at a place."""
        for block in self.blocks:
            if place < block.shape[1]:
                return block[:, place]
            place -= block.shape[1]
        raise IndexError(place)


@lru_cache(maxsize=16)
def supports_up_to(weights: tuple[float, ...], max_cost: float) -> Supports:
    """Of terms with these weights; the empty one is not among them."""
    each, later = np.array(weights), Later(np.array(weights))
    block, cost, last = np.zeros((0, 1), dtype=np.intp), np.zeros(1), np.full(1, -1)
    blocks, costs = [], []
    while len((found := later.up_to(max_cost - cost, last))[0]):
        rows, last = found
        block, cost = np.vstack([block[:, rows], last]), cost[rows] + each[last]
        blocks.append(block)
        costs.append(cost)
    cost = np.concatenate(costs)
    order = np.argsort(cost, kind="stable")
    return Supports(blocks, order, *np.unique(cost[order], return_index=True))


@lru_cache(maxsize=64)
def _affordable(units: tuple[int, ...], max_cost: int) -> float:
    """The same for weights in hundredths."""
    ways = np.zeros(sum(units) + 1)
    ways[0] = 1.0
    for unit in units:
        ways[unit:] += ways[: len(ways) - unit].copy() if unit else ways.copy()
    return float(np.searchsorted(np.cumsum(ways), max_cost, side="right") - 1) / 100
