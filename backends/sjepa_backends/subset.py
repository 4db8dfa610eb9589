"""Exact best subset: for every complexity the lowest loss, with a proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError
from sjepa.symbolic.front import Front, knee
from sjepa_backends._supports import (
    SEARCH_SHARE,
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
BATCH = 20_000
# Share of the time for the proof; without one, what is left improves the answer.
PROOF_SHARE = 0.7
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
        for j, output in enumerate(problem.outputs):
            problem.report(f"subset: {output}", j / len(problem.outputs))
            now = problem.clock()
            left = (search_end - now) / (len(problem.outputs) - j)
            index = np.flatnonzero(problem.usable[:, j])
            tree = _Branches(self, problem, j, index, now + left)
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


class _Branches:
    """The search for one output. Terms are renumbered so that the most needed come first."""

    def __init__(
        self,
        settings: Subset,
        problem: Problem,
        j: int,
        index: np.ndarray,
        deadline: float,
    ) -> None:
        sums = problem.sums
        self.settings, self.clock, self.deadline = settings, problem.clock, deadline
        scale = np.sqrt(np.diag(sums.xx)[index])
        a = sums.xx[np.ix_(index, index)] / np.outer(scale, scale) + JITTER * np.eye(len(index))
        # Losses here are residual sums over the target's; `unit` makes them shares of variance.
        total = max(sums.yy[j], 1e-300)
        self.unit = total / sums.weight / sums.variance[j]
        b = sums.xy[index, j] / scale / np.sqrt(total)
        full, without = _leave_one_out(a, b)
        self.signs = np.zeros(len(index)) if problem.signs is None else problem.signs[index, j]
        if self.signs.any():
            own = signed_solution(a, b, self.signs)
            full = max(1.0 - float(b @ own), 0.0)
        order = np.argsort(-without)
        self.index = index[order]
        self.a, self.b, self.without = a[np.ix_(order, order)], b[order], without[order]
        self.signs = self.signs[order]
        self.weights = problem.candidate_library.weights[self.index]
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
        limit = self._affordable(self.settings.max_nodes // 4)
        while len(self.index) and self._explore(limit, proof_end):
            self.proven = limit
            enough = self._best_known(np.array([limit]))[0] <= self.adequate
            if enough or limit >= self.weights.sum():
                self.complete = True
                break
            limit += max(float(self.weights.min()), STEP)
        if len(self.index) and not self.complete:
            self._explore(np.inf, self.deadline, beam=self.settings.beam)
        return [tuple(int(self.index[i]) for i in s) for s in self.found]

    def certify(self, fits: list[SupportFit]) -> list[SupportFit]:
        """Mark what is proven: everything up to the first adequate fit, or the cost reached."""
        front = undominated(fits)
        enough = self.adequate * self.unit * (1 + 1e-9)
        limit = next((f.cost for f in front if f.loss <= enough), np.inf)
        limit = limit if self.complete else min(limit, self.proven)
        return [replace(f, certified=f.cost <= limit) for f in front]

    def _affordable(self, most: int) -> float:
        """The highest cost for which there are at most that many supports, counted exactly."""
        units = np.rint(self.weights * 100).astype(int)
        ways = np.zeros(units.sum() + 1)
        ways[0] = 1.0
        for unit in units:
            ways[unit:] += ways[: len(ways) - unit].copy() if unit else ways.copy()
        return float(np.searchsorted(np.cumsum(ways), most, side="right") - 1) / 100

    def _explore(self, limit: float, deadline: float, beam: int | None = None) -> bool:
        """Look at the supports up to a cost; False if time or nodes ran out on the way."""
        frontier = np.zeros((1, 0), dtype=np.int16)
        parents = max(1, BATCH // len(self.index))
        while len(frontier):
            kept, kept_losses = [], []
            for start in range(0, len(frontier), parents):
                children, cost = self._children(frontier[start : start + parents], limit, beam)
                self.nodes += len(children)
                floor = np.zeros(len(children))
                if beam is None and len(children):
                    # No support fits better than all terms but one that it skipped.
                    floor = self._floor(children)
                    able = floor < self._best_known(cost)
                    children, cost, floor = children[able], cost[able], floor[able]
                if self.clock() > deadline:
                    return False
                if beam is None and self.nodes > self.settings.max_nodes:
                    return False
                if not len(children):
                    continue
                losses = self._loss(children)
                self._record(children, cost, losses)
                alive = self._alive(cost, floor, limit)
                kept.append(children[alive])
                kept_losses.append(losses[alive])
            if not kept:
                break
            frontier = np.concatenate(kept)
            if beam is not None:
                frontier, first = np.unique(frontier, axis=0, return_index=True)
                frontier = frontier[np.argsort(np.concatenate(kept_losses)[first])[:beam]]
        return True

    def _children(
        self, parents: np.ndarray, limit: float, beam: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Supports with one more term that are asked for, and their costs."""
        size = parents.shape[1]
        # A beam is not exhaustive, so it may add any term; a full search goes forward only.
        last = parents[:, -1] if size and beam is None else np.full(len(parents), -1)
        candidates = np.arange(len(self.index), dtype=np.int16)
        costs = self.weights[parents].sum(axis=1)[:, None] + self.weights
        rows, new = np.nonzero(self._asked_for(costs, limit) & (candidates > last[:, None]))
        children = np.concatenate([parents[rows], candidates[new, None]], axis=1)
        if beam is None:
            return children, costs[rows, new]
        children = np.sort(children, axis=1)
        children = children[(np.diff(children, axis=1) > 0).all(axis=1)]
        children = np.unique(children, axis=0)
        return children, self.weights[children].sum(axis=1)

    def _alive(self, cost: np.ndarray, floor: np.ndarray, limit: float) -> np.ndarray:
        """Whose branches, which end no lower than the floor, can still hold something better."""
        next_cost = cost + self.weights.min()  # of the cheapest child
        return self._asked_for(next_cost, limit) & (floor < self._best_known(next_cost))

    def _asked_for(self, cost: np.ndarray, limit: float) -> np.ndarray:
        """Costs up to the limit for which nothing adequate is known that costs less."""
        good = np.searchsorted(-self.stair_losses, -self.adequate)
        cheapest = self.stair_costs[good] if good < len(self.stair_costs) else np.inf
        return (cost <= limit + 1e-9) & (cost < cheapest + 1e-9)

    def _draw_stairs(self) -> None:
        """Best known loss for every cost, as a falling staircase."""
        costs, losses = np.array(sorted([*self.known, *self.found.values()])).T
        self.stair_costs, self.stair_losses = costs, np.minimum.accumulate(losses)

    def _best_known(self, cost: np.ndarray) -> np.ndarray:
        """Lowest loss among known supports of at most this cost."""
        position = np.searchsorted(self.stair_costs, cost + 1e-9, side="right") - 1
        return np.where(position >= 0, self.stair_losses[np.maximum(position, 0)], np.inf)

    def _loss(self, supports: np.ndarray) -> np.ndarray:
        a = self.a[supports[:, :, None], supports[:, None, :]]
        b = self.b[supports]
        solution = np.linalg.solve(a, b[:, :, None])[:, :, 0]
        losses = np.maximum(1.0 - np.einsum("ni,ni->n", b, solution), 0.0)
        if self.signs.any():
            # Where a sign is wrong the best that is allowed has a 0 there: a smaller support.
            losses[(solution * self.signs[supports] < 0).any(axis=1)] = np.inf
        return losses

    def _floor(self, supports: np.ndarray) -> np.ndarray:
        """Highest loss-without-one-term over the terms before the last that were skipped.

        The most needed come first, so that is the first one skipped.
        """
        size = supports.shape[1]
        gap = (supports == np.arange(size)).cumprod(axis=1).sum(axis=1)
        return np.where(gap < size, self.without[np.minimum(gap, len(self.without) - 1)], 0.0)

    def _record(self, supports: np.ndarray, cost: np.ndarray, loss: np.ndarray) -> None:
        """Take in the supports that beat everything as cheap."""
        order = np.lexsort((loss, cost))
        lowest = np.minimum.accumulate(loss[order])
        first = order[np.r_[True, lowest[1:] < lowest[:-1]]]
        rows = {tuple(supports[i].tolist()): (float(cost[i]), float(loss[i])) for i in first}
        kept: dict[tuple[int, ...], tuple[float, float]] = {}
        least = np.inf
        for support, (c, v) in sorted((self.found | rows).items(), key=lambda item: item[1]):
            if v < least:
                kept[support], least = (c, v), v
        self.found = kept
        self._draw_stairs()


def _leave_one_out(a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
    """Loss of the full library, and of the library without each one of its terms.

    Terms that the others make up, as 1 is made up of squares of sine and cosine, can go for
    nothing; an inverse would turn their rounding into a loss.
    """
    if not len(b):
        return 1.0, np.zeros(0)
    values, vectors = np.linalg.eigh(a)
    sound = values > DEPENDENT * values[-1]
    spare = (vectors[:, ~sound] ** 2).sum(axis=1) > 1e-8
    inverse = (vectors[:, sound] / values[sound]) @ vectors[:, sound].T
    coefficients = inverse @ b
    full = max(1.0 - float(b @ coefficients), 0.0)
    rise = np.where(spare, 0.0, coefficients**2 / np.maximum(np.diag(inverse), 1e-300))
    return full, np.minimum(full + rise, 1.0)
