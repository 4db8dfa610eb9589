"""Exact best subset: for every complexity the lowest loss, with a proof."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError
from sjepa.symbolic.front import Front, knee
from sjepa_backends.stlsq import STLSQ
from sjepa_backends.supports import (
    SEARCH_SHARE,
    SHORT,
    Support,
    SupportFit,
    fit_until,
    joint_front,
    signed_solution,
    undominated,
    warm_supports,
)
from sjepa_backends.unit_columns import Later, UnitColumns, losses, supports_up_to


# Lower losses are not seen in sums of squares.
GRAM_ROUNDING = 1e-12
# Supports that are looked at between two looks at the clock, and so few that they are all looked
# at for all outputs together.
BATCH, FEW = 50_000, 10_000
# Share of the time for good supports to begin with, and of the rest for the proof; without one,
# what is left improves the answer.
START_SHARE, PROOF_SHARE = 0.25, 0.7
# Costs that differ by less are equal.
ALIKE = 1e-9
# Least rise of the cost limit from one round to the next.
STEP = 0.5


@dataclass(frozen=True)
class Subset(Backend):
    """Branch and bound over the supports of a library, cheapest supports first.

    Supports are extended term by term, in batches of small linear solves, up to a cost that rises
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
    plain: ClassVar[frozenset[str]] = frozenset({"adequate", "max_nodes", "beam", "min_gain"})

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
        trees, count = self._trees(problem), len(problem.outputs)
        # Good supports early make short branches.
        now = problem.clock()
        begin = now + START_SHARE * (search_end - now)
        paths, known = STLSQ().along_path(problem, warm_supports(problem), begin, START_SHARE)
        enough = [min(tree.adequate * tree.unit, problem.exact) for tree in trees]
        exact = []
        for tree, of_output, limit in zip(trees, known, enough, strict=True):
            tree.learn(of_output)
            exact += [tree] if any(f.loss <= limit for f in of_output) else []
        # What is cheaper than an exact law is looked at one by one, or else stepped back to.
        _look_through(exact)
        rest = [() if tree.seen else path for tree, path in zip(trees, paths, strict=True)]
        if any(rest):
            more = STLSQ().eliminate_backward(problem, rest, known, begin, enough)
            for tree, of_output, new in zip(trees, known, more, strict=True):
                of_output += new
                tree.learn(of_output)
            _look_through(tree for tree in trees if not tree.seen)
        supports, notes = list[list[Support]](), list[str]()
        for j, (tree, output) in enumerate(zip(trees, problem.outputs, strict=True)):
            problem.report(f"subset: {output}", START_SHARE + (1 - START_SHARE) * j / count)
            now = problem.clock()
            supports.append(tree.run(now + (search_end - now) / (count - j)))
            if not tree.complete:
                notes.append(f"{output}: proven up to complexity {tree.proven:g} only")
        found = fit_until(problem, supports, search_end)
        fits = [t.certify([*new, *old]) for t, new, old in zip(trees, found, known, strict=True)]
        problem.report("subset: done", 1.0)
        min_gain = self.min_gain if problem.adequate is None else 0.0
        return joint_front(problem, fits, self.name, notes, min_gain, end)

    def _trees(self, problem: Problem) -> list[_Branches]:
        """One for each output; those with the same terms have the same columns."""
        weights, columns = problem.candidate_library.weights, dict[bytes, UnitColumns]()
        trees = []
        for j, usable in enumerate(problem.usable.T):
            key = usable.tobytes()
            if key not in columns:
                columns[key] = UnitColumns(problem.sums, np.flatnonzero(usable), weights)
            trees.append(_Branches(self, problem, j, columns[key]))
        return trees


class _Branches:
    """The search for one output. Terms are renumbered so that the most needed come first."""

    def __init__(self, settings: Subset, problem: Problem, j: int, columns: UnitColumns) -> None:
        sums, index = problem.sums, columns.index
        self.settings, self.clock, self.columns = settings, problem.clock, columns
        # Losses here are residual sums over the target's; `unit` makes them shares of variance.
        total = max(sums.yy[j], 1e-300)
        self.unit = total / sums.weight / sums.variance[j]
        b = sums.xy[index, j] / columns.scale / np.sqrt(total)
        full, without = columns.leave_one_out(b)
        self.signs = np.zeros(len(index)) if problem.signs is None else problem.signs[index, j]
        if self.signs.any():
            solution = signed_solution(columns.a, b, self.signs)
            full = max(1.0 - float(b @ solution), 0.0)
        self.order = order = np.argsort(-without)
        self.index, self.weights = index[order], columns.weights[order]
        self.target, self.b, self.signs = b, b[order], self.signs[order]
        # No support fits better than all terms but one that it skipped; one may skip none.
        self.floors = np.append(without[order], 0.0)
        full_loss = full * self.unit
        limit = knee(full_loss, exact=problem.exact * 0.1)
        given = (settings.adequate, problem.adequate, limit)
        adequate = next(value for value in given if value is not None)
        self.adequate = max(adequate, full_loss, GRAM_ROUNDING) / self.unit
        self.known: list[tuple[float, float]] = []
        self.found: dict[Support, tuple[float, float]] = {(): (0.0, 1.0)}
        self.nodes = 0
        self.seen = 0.0  # all supports up to this cost were looked at
        self.proven = 0.0
        self.complete = False

    # What only a search from term to term needs.

    @cached_property
    def a(self) -> np.ndarray:
        return self.columns.a[np.ix_(self.order, self.order)]

    @cached_property
    def later(self) -> Later:
        return Later(self.weights)

    @cached_property
    def next_weight(self) -> np.ndarray:
        """The cheapest of the terms that come later."""
        least = np.minimum.accumulate(self.weights[::-1])[::-1]
        return np.append(least[1:], np.inf)

    def learn(self, incumbents: list[SupportFit]) -> None:
        """Take in what is known already."""
        self.known = [(f.cost, f.loss / self.unit) for f in incumbents]
        self._draw_stairs()

    @cached_property
    def limit(self) -> float:
        """The first limit of the cost."""
        return self.columns.affordable(self.settings.max_nodes // 4)

    @property
    def below(self) -> float:
        """The highest cost within that limit that is lower than that of what is adequate.

        0 where signs are asked for, which are not looked at for all outputs together.
        """
        max_cost = 0.0 if self.signs.any() else float(self._ceilings(self.limit)[-1])
        return max_cost if max_cost > self.limit else max_cost - 2 * ALIKE

    def run(self, deadline: float) -> list[Support]:
        """Raise the cost limit until something within it is adequate, or the budget is spent."""
        now, limit = self.clock(), self.limit
        proof_end = now + PROOF_SHARE * (deadline - now)
        while len(self.index) and (self._is_seen(limit) or self._explore(limit, proof_end)):
            self.proven = limit
            enough = self.best_known(np.array([limit]))[0] <= self.adequate
            if enough or limit >= self.weights.sum():
                self.complete = True
                break
            limit += max(float(self.weights.min()), STEP)
        if len(self.index) and not self.complete:
            self._follow_best(deadline)
        return list(self.found)

    def certify(self, fits: list[SupportFit]) -> list[SupportFit]:
        """Mark what is proven: everything up to the first adequate fit, or the cost reached."""
        front = undominated(fits)
        enough = self.adequate * self.unit * (1 + 1e-9)
        limit = next((f.cost for f in front if f.loss <= enough), np.inf)
        limit = limit if self.complete else min(limit, self.proven)
        return [replace(f, certified=f.cost <= limit) for f in front]

    def _is_seen(self, limit: float) -> bool:
        """Whether all supports up to a cost that can win something were looked at.

        What costs more than those that were must have all terms that it cannot skip for that:
        these alone are what is adequate already, and one more may be too expensive.
        """
        if not self.seen:
            return False
        ceilings = self._ceilings(limit)
        needed = int(np.searchsorted(ceilings[:-1], self.seen + ALIKE, side="right"))
        more = self.weights[:needed].sum() + self.weights[needed:].min(initial=np.inf)
        return bool(more > ceilings[-1])

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
        first_children = 0
        if skipped[0] == terms:  # the first has all the most needed terms, and the next may go now
            first_children = int(np.searchsorted(rows, 1))
            reach = np.where(added[:first_children] == size, ceilings[terms], ceilings[size])
            able = np.flatnonzero(costs[0] + self.weights[added[:first_children]] <= reach)
            kept = np.append(able, np.arange(first_children, len(rows)))
            rows, added, first_children = rows[kept], added[kept], len(able)
        new = np.empty((size + 1, len(rows)), dtype=np.intp)
        for old, column in zip(parents, new, strict=False):
            column[:] = old[rows]
        new[size] = added
        skips = skipped[rows]
        skips[:first_children] = np.where(added[:first_children] == size, terms, size)
        return new, costs[rows] + self.weights[added], skips

    def _ceilings(self, limit: float) -> np.ndarray:
        """Up to which cost a support can win something, by the first term that it skipped.

        Nothing adequate that costs less may be known, nor what fits as well as its branch can.
        """
        wanted = np.append(self.floors, self.adequate)
        first = np.searchsorted(-self.stair_losses, -wanted)
        cost = np.append(self.stair_costs, np.inf)[first]
        return np.minimum(cost[:-1] - ALIKE, min(limit, cost[-1]) + ALIKE)

    def _follow_best(self, deadline: float) -> None:
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
                max_cost = self._ceilings(np.inf)[-1]
                grown, cost = grown[cost <= max_cost], cost[cost <= max_cost]
                if self.clock() > deadline:
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

    def best_known(self, cost: np.ndarray) -> np.ndarray:
        """Lowest loss among known supports of at most this cost."""
        return self.stair_losses[np.searchsorted(self.stair_costs, cost + ALIKE, side="right") - 1]

    def _loss(self, supports: np.ndarray) -> np.ndarray:
        """Losses (n,) of supports (size, n)."""
        if len(supports) > SHORT or self.signs.any():
            return self._solved(supports.T)
        return losses(self.a, self.b, supports)

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
        better = np.flatnonzero(loss < self.best_known(cost))
        if not len(better):
            return
        better = better[np.lexsort((loss[better], cost[better]))]
        lowest = np.minimum.accumulate(loss[better])
        first = better[np.r_[True, lowest[1:] < lowest[:-1]]]
        new = self.index[supports[:, first]].T.tolist()
        self.take(map(tuple, new), cost[first].tolist(), loss[first].tolist())

    def take(
        self, supports: Iterable[Support], costs: Iterable[float], losses: Iterable[float]
    ) -> None:
        """Of what was found and these, keep what no cheaper one beats."""
        new = dict(zip(supports, zip(costs, losses, strict=True), strict=True))
        kept: dict[Support, tuple[float, float]] = {}
        least = np.inf
        for support, (c, v) in sorted((self.found | new).items(), key=lambda item: item[1]):
            if v < least:
                kept[support], least = (c, v), v
        self.found = kept
        self._draw_stairs()


def _look_through(trees: Iterable[_Branches]) -> None:
    """Look at all supports that cost less than what is adequate, where they are few.

    Outputs that have the same terms share the work, nearly all of which is the same for them.
    """
    for columns, group in groupby(trees, key=lambda tree: tree.columns):
        reach = columns.affordable(FEW) + 0.01  # costs are counted in hundredths
        least = columns.weights.min(initial=np.inf)
        same = [(tree, max_cost) for tree in group if least <= (max_cost := tree.below) < reach]
        if not same:
            continue
        every = supports_up_to(
            tuple(columns.weights.tolist()), max(max_cost for _, max_cost in same)
        )
        targets = np.stack([tree.target for tree, _ in same])
        left = np.concatenate([losses(columns.a, targets, b) for b in every.blocks], axis=1)
        places, lowest = every.lowest(left)
        for (tree, max_cost), rows, low in zip(same, places, lowest, strict=True):
            tree.seen = max_cost
            better = (low < tree.best_known(every.costs)) & (every.costs <= tree.seen)
            new = [tuple(columns.index[every.at(i)].tolist()) for i in rows[better].tolist()]
            tree.take(new, every.costs[better].tolist(), low[better].tolist())
