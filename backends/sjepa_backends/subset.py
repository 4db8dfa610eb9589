"""Exact best subset: for every complexity the lowest loss, with a proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError
from sjepa.symbolic.front import Front, knee
from sjepa.symbolic.gram import Gram
from sjepa_backends._supports import (
    SEARCH_SHARE,
    SHORT,
    SupportFit,
    fit_until,
    joint_front,
    signed_solution,
    undominated,
    warm_supports,
)
from sjepa_backends.stlsq import STLSQ


# Keeps nearly dependent columns solvable; far below the losses that are told apart.
JITTER = 1e-13
# Lower losses are not seen in sums of squares.
GRAM_ROUNDING = 1e-12
# Eigenvalues below this share of the largest are rounding.
DEPENDENT = 1e-12
# Supports that are looked at between two looks at the clock.
BATCH = 50_000
# Share of the time for the proof; without one, what is left improves the answer.
PROOF_SHARE = 0.7
# Costs that differ by less are equal.
ALIKE = 1e-9
# Least rise of the cost limit from one round to the next.
STEP = 0.5


@dataclass(frozen=True)
class Subset(Backend):
    """Branch and bound over the supports of a library, cheapest supports first.

    Supports are grown term by term, in batches of small linear solves, up to a cost that rises
    until some support is adequate. A branch ends when a support that costs no more already fits at
    least as well as anything in the branch could. Laws on the front are `certified` when no law
    of lower complexity in the library fits as well.

    Parameters
    ----------
    adequate : float, optional
        A loss (in units of the variance) that counts as good enough: beyond the cheapest law that
        reaches it, the front is not explored. The default is the problem's own, or what
        ``Front.best`` asks for; 0 explores everything, which is feasible up to about 20 terms.
    max_nodes : int, default=1_000_000
        Supports to look at for one output. What is cheaper than the cost reached by then is
        proven; beyond it only the best few of every size are followed.
    beam : int, default=500
        How many.
    min_gain : float, default=0.01
        A longer law is listed only if it lowers the loss by this share; 0 lists every one.
    """

    name: ClassVar[str] = "subset"
    proves: ClassVar[bool] = True
    constrains: ClassVar[bool] = True

    adequate: float | None = None
    max_nodes: int = 1_000_000
    beam: int = 500
    min_gain: float = 0.01

    def __post_init__(self) -> None:
        if self.adequate is not None and not self.adequate >= 0:
            raise ConfigError(f"adequate must be at least 0, got {self.adequate}.")
        if self.max_nodes < 1 or self.beam < 1:
            raise ConfigError("max_nodes and beam must be at least 1.")

    def search(self, problem: Problem) -> Front:
        end, search_end = problem.deadline(), problem.deadline(SEARCH_SHARE)
        warm = warm_supports(problem)
        fits: list[list[SupportFit]] = []
        notes = []
        columns: _Columns | None = None
        for j, output in enumerate(problem.outputs):
            problem.report(f"subset: {output}", j / len(problem.outputs))
            now = problem.clock()
            left = (search_end - now) / (len(problem.outputs) - j)
            index = np.flatnonzero(problem.usable[:, j])
            if columns is None or not np.array_equal(columns.index, index):
                columns = _Columns(problem.sums, index)
            tree = _Branches(self, problem, j, columns, now + left)
            # Good supports early make short branches.
            enough = min(tree.adequate * tree.unit, problem.exact)
            incumbents = STLSQ().fits(problem, j, warm[j], now + left / 4, enough)
            tree.learn(incumbents)
            found = fit_until(problem, j, tree.run(), now + left)
            fits.append(tree.certify([*found, *incumbents]))
            if not tree.complete:
                notes.append(f"{output}: proven up to complexity {tree.proven:g} only")
        problem.report("subset: done", 1.0)
        min_gain = self.min_gain if problem.adequate is None else 0.0
        return joint_front(problem, fits, self.name, notes, min_gain, end)


class _Columns:
    """Some terms of a library as columns of norm 1: their products, and the inverse of these.

    Terms that the others make up, as 1 is made up of squares of sine and cosine, can go for
    nothing; an inverse would turn their rounding into a loss. They are `spare`.
    """

    def __init__(self, sums: Gram, index: np.ndarray) -> None:
        self.index = index
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


class _Later:
    """Tables that list the terms after a given one up to a given weight."""

    def __init__(self, weights: np.ndarray) -> None:
        self.steps = np.unique(weights)
        light = weights <= np.append(-1.0, self.steps)[:, None]
        self.terms = np.nonzero(light)[1]
        self.ends = np.cumsum(light.sum(axis=1))
        self.begins = np.zeros((len(light), len(weights) + 1), dtype=np.intp)
        np.cumsum(light, axis=1, out=self.begins[:, 1:])
        self.begins[1:] += self.ends[:-1, None]

    def up_to(self, most: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each weight and last term, those terms: which of the given, and the term."""
        step = np.searchsorted(self.steps, most, side="right")
        begin = self.begins[step, last + 1]
        count = self.ends[step] - begin
        rows = np.repeat(np.arange(len(most)), count)
        ahead = begin + count - np.cumsum(count)
        return rows, self.terms[np.arange(len(rows)) + ahead[rows]]


class _Branches:
    """The search for one output. Terms are renumbered so that the most needed come first."""

    def __init__(
        self,
        settings: Subset,
        problem: Problem,
        j: int,
        columns: _Columns,
        deadline: float,
    ) -> None:
        sums, index = problem.sums, columns.index
        self.settings, self.clock, self.deadline = settings, problem.clock, deadline
        # Losses here are residual sums over the target's; `unit` makes them shares of variance.
        total = max(sums.yy[j], 1e-300)
        self.unit = total / sums.weight / sums.variance[j]
        b = sums.xy[index, j] / columns.scale / np.sqrt(total)
        full, without = columns.leave_one_out(b)
        self.signs = np.zeros(len(index)) if problem.signs is None else problem.signs[index, j]
        if self.signs.any():
            own = signed_solution(columns.a, b, self.signs)
            full = max(1.0 - float(b @ own), 0.0)
        order = np.argsort(-without)
        self.index = index[order]
        self.a, self.b, self.signs = columns.a[np.ix_(order, order)], b[order], self.signs[order]
        self.products = self.a.ravel()
        # No support fits better than all terms but one that it skipped; one may skip none.
        self.floors = np.append(without[order], 0.0)
        self.weights = problem.candidate_library.weights[self.index]
        # The cheapest of the terms that come later.
        least = np.minimum.accumulate(self.weights[::-1])[::-1]
        self.next_weight = np.append(least[1:], np.inf)
        self.later = _Later(self.weights)
        full_loss = full * self.unit
        limit = knee(full_loss, exact=problem.exact * 0.1)
        given = (settings.adequate, problem.adequate, limit)
        adequate = next(value for value in given if value is not None)
        self.adequate = max(adequate, full_loss, GRAM_ROUNDING) / self.unit
        self.found: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, 1.0)}
        self.nodes = 0
        self.proven = 0.0
        self.complete = False
        self.learn([])

    def learn(self, incumbents: list[SupportFit]) -> None:
        """Take in what is known already."""
        self.known = [(f.cost, f.loss / self.unit) for f in incumbents]
        self._draw_stairs()

    def run(self) -> list[tuple[int, ...]]:
        """Raise the cost limit until something within it is adequate, or the budget is spent."""
        now = self.clock()
        proof_end = now + PROOF_SHARE * (self.deadline - now)
        units = tuple(sorted(np.rint(self.weights * 100).astype(int).tolist()))
        limit = _affordable(units, self.settings.max_nodes // 4)
        while len(self.index) and self._explore(limit, proof_end):
            self.proven = limit
            enough = self._best_known(np.array([limit]))[0] <= self.adequate
            if enough or limit >= self.weights.sum():
                self.complete = True
                break
            limit += max(float(self.weights.min()), STEP)
        if len(self.index) and not self.complete:
            self._follow_best()
        return [tuple(int(self.index[i]) for i in s) for s in self.found]

    def certify(self, fits: list[SupportFit]) -> list[SupportFit]:
        """Mark what is proven: everything up to the first adequate fit, or the cost reached."""
        front = undominated(fits)
        enough = self.adequate * self.unit * (1 + 1e-9)
        limit = next((f.cost for f in front if f.loss <= enough), np.inf)
        limit = limit if self.complete else min(limit, self.proven)
        return [replace(f, certified=f.cost <= limit) for f in front]

    def _explore(self, limit: float, deadline: float) -> bool:
        """Look at the supports up to a cost; False if time or nodes ran out on the way."""
        supports, costs = np.zeros((0, 1), dtype=np.intp), np.zeros(1)
        skipped = np.array([len(self.index)])
        together = max(1, BATCH // len(self.index))
        while supports.shape[1]:
            kept = []
            for start in range(0, supports.shape[1], together):
                part = slice(start, start + together)
                new, cost, skips = self._children(
                    supports[:, part], costs[part], skipped[part], limit
                )
                self.nodes += len(cost)
                if self.clock() > deadline or self.nodes > self.settings.max_nodes:
                    return False
                if len(cost):
                    self._record(new, cost, self._loss(new))
                    cheapest = cost + self.next_weight[new[-1]]
                    alive = np.flatnonzero(cheapest <= self._ceilings(limit)[skips])
                    kept.append((new[:, alive], cost[alive], skips[alive]))
            if not kept:
                break
            supports, costs, skipped = (
                np.concatenate(parts, axis=-1) for parts in zip(*kept, strict=True)
            )
        return True

    def _children(
        self, parents: np.ndarray, costs: np.ndarray, skipped: np.ndarray, limit: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Supports (size, n) with one later term that can win something, their costs, and the
        first term that each skipped (beyond the last if none)."""
        (size, terms), ceilings = (len(parents), len(self.index)), self._ceilings(limit)
        last = parents[-1] if size else np.full(1, -1)
        rows, added = self.later.up_to(ceilings[skipped] - costs, last)
        own = 0
        if skipped[0] == terms:  # the first has all the most needed terms, and the next may go now
            own = int(np.searchsorted(rows, 1))
            reach = np.where(added[:own] == size, ceilings[terms], ceilings[size])
            able = np.flatnonzero(costs[0] + self.weights[added[:own]] <= reach)
            kept = np.append(able, np.arange(own, len(rows)))
            rows, added, own = rows[kept], added[kept], len(able)
        new = np.empty((size + 1, len(rows)), dtype=np.intp)
        for old, column in zip(parents, new, strict=False):
            column[:] = old[rows]
        new[size] = added
        skips = skipped[rows]
        skips[:own] = np.where(added[:own] == size, terms, size)
        return new, costs[rows] + self.weights[added], skips

    def _ceilings(self, limit: float) -> np.ndarray:
        """Up to which cost a support can win something, by the first term that it skipped.

        Nothing adequate that costs less may be known, nor what fits as well as its branch can.
        """
        wanted = np.append(self.floors, self.adequate)
        first = np.searchsorted(-self.stair_losses, -wanted)
        cost = np.append(self.stair_costs, np.inf)[first]
        return np.minimum(cost[:-1] - ALIKE, min(limit, cost[-1]) + ALIKE)

    def _follow_best(self) -> None:
        """From the best few supports of each size on, until the time is over."""
        frontier, terms = np.zeros((1, 0), dtype=np.intp), len(self.index)
        together = max(1, BATCH // terms)
        while len(frontier):
            kept, losses = [], []
            for start in range(0, len(frontier), together):
                parents = frontier[start : start + together]
                rows, new = np.divmod(np.arange(len(parents) * terms), terms)
                grown = np.sort(np.column_stack([parents[rows], new]), axis=1)
                grown = np.unique(grown[(np.diff(grown, axis=1) > 0).all(axis=1)], axis=0)
                cost = self.weights[grown].sum(axis=1)
                most = self._ceilings(np.inf)[-1]
                grown, cost = grown[cost <= most], cost[cost <= most]
                if self.clock() > self.deadline:
                    return
                if not len(grown):
                    continue
                loss = self._loss(grown.T)
                self._record(grown.T, cost, loss)
                alive = cost + self.weights.min() <= self._ceilings(np.inf)[-1]
                kept.append(grown[alive])
                losses.append(loss[alive])
            if not kept:
                break
            frontier, first = np.unique(np.concatenate(kept), axis=0, return_index=True)
            best = np.argsort(np.concatenate(losses)[first])[: self.settings.beam]
            frontier = frontier[best]

    def _draw_stairs(self) -> None:
        """Best known loss for every cost, as a falling staircase."""
        costs, losses = np.array(sorted([*self.known, *self.found.values()])).T
        self.stair_costs, self.stair_losses = costs, np.minimum.accumulate(losses)

    def _best_known(self, cost: np.ndarray) -> np.ndarray:
        """Lowest loss among known supports of at most this cost."""
        return self.stair_losses[np.searchsorted(self.stair_costs, cost + ALIKE, side="right") - 1]

    def _loss(self, supports: np.ndarray) -> np.ndarray:
        """Losses (n,) of supports (size, n)."""
        if len(supports) > SHORT or self.signs.any():
            return self._solved(supports.T)
        # Elimination, all supports at once: a call for each matrix would take most of the time.
        left = np.ones(supports.shape[1])
        done: list[tuple[list[np.ndarray], np.ndarray, np.ndarray]] = []
        for own in supports:
            y, pivot, first = self.b[own], np.full(len(own), 1.0 + JITTER), own * len(self.b)
            row: list[np.ndarray] = []
            factors: list[np.ndarray] = []
            for column, (others, other_pivot, other_y) in zip(supports, done, strict=False):
                entry = self.products[first + column]
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

    def _solved(self, supports: np.ndarray) -> np.ndarray:
        a = self.a[supports[:, :, None], supports[:, None, :]]
        b = self.b[supports]
        solution = np.linalg.solve(a, b[:, :, None])[:, :, 0]
        losses = np.maximum(1.0 - np.einsum("ni,ni->n", b, solution), 0.0)
        # Where a sign is wrong the best that is allowed has a 0 there: a smaller support.
        losses[(solution * self.signs[supports] < 0).any(axis=1)] = np.inf
        return losses

    def _record(self, supports: np.ndarray, cost: np.ndarray, loss: np.ndarray) -> None:
        """Take in the supports that beat everything as cheap."""
        better = np.flatnonzero(loss < self._best_known(cost))
        if not len(better):
            return
        better = better[np.lexsort((loss[better], cost[better]))]
        lowest = np.minimum.accumulate(loss[better])
        first = better[np.r_[True, lowest[1:] < lowest[:-1]]]
        rows = {tuple(supports[:, i].tolist()): (float(cost[i]), float(loss[i])) for i in first}
        kept: dict[tuple[int, ...], tuple[float, float]] = {}
        least = np.inf
        for support, (c, v) in sorted((self.found | rows).items(), key=lambda item: item[1]):
            if v < least:
                kept[support], least = (c, v), v
        self.found = kept
        self._draw_stairs()


@lru_cache(maxsize=64)
def _affordable(units: tuple[int, ...], most: int) -> float:
    """The highest cost for which there are at most that many supports, counted exactly.

    Weights of the terms come in hundredths.
    """
    ways = np.zeros(sum(units) + 1)
    ways[0] = 1.0
    for unit in units:
        ways[unit:] += ways[: len(ways) - unit].copy() if unit else ways.copy()
    return float(np.searchsorted(np.cumsum(ways), most, side="right") - 1) / 100
