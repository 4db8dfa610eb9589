"""Exact best subset: for every complexity the lowest loss, with a proof."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError
from sjepa.symbolic.front import EXACT, KNEE, Front
from sjepa_backends._supports import Fit, fit, joint_front, undominated, warm_supports
from sjepa_backends.stlsq import STLSQ


# Keeps nearly dependent columns solvable; far below the losses that are told apart.
JITTER = 1e-13
BATCH = 100_000


@dataclass(frozen=True)
class Subset(Backend):
    """Branch and bound over the supports of a library.

    Supports are grown term by term, in batches of small linear solves. A branch ends when some
    support that is no dearer already fits at least as well as anything in the branch could. Laws
    on the front are `certified` when no law of lower complexity in the library fits as well.

    Parameters
    ----------
    adequate : float, optional
        A loss (in units of the variance) that counts as good enough: beyond the cheapest law that
        reaches it, the front is not explored. The default is what ``Front.best`` asks for; 0
        explores everything, which is feasible up to about 20 terms.
    max_nodes : int, default=3_000_000
        Supports to look at before giving up on the proof and following only the best few
        thousand of every size.
    beam : int, default=2_000
    min_gain : float, default=0.01
        A longer law is listed only if it lowers the loss by this share; 0 lists every one.
    """

    name: ClassVar[str] = "subset"

    adequate: float | None = None
    max_nodes: int = 3_000_000
    beam: int = 2_000
    min_gain: float = 0.01

    def __post_init__(self) -> None:
        if self.adequate is not None and not self.adequate >= 0:
            raise ConfigError(f"adequate must be at least 0, got {self.adequate}.")
        if self.max_nodes < 1 or self.beam < 1:
            raise ConfigError("max_nodes and beam must be at least 1.")

    def search(self, problem: Problem) -> Front:
        seconds = problem.budget.seconds
        start = time.monotonic()
        share = np.inf if seconds is None else seconds / len(problem.outputs)
        # Good supports early make short branches; they cost milliseconds.
        known = STLSQ()
        warm = warm_supports(problem)
        fits: list[list[Fit]] = []
        notes = []
        for j, output in enumerate(problem.outputs):
            problem.report(f"subset: {output}", j / len(problem.outputs))
            allowed = problem.candidate_library.mask(problem.outputs)[:, j]
            index = np.flatnonzero(allowed & (np.diag(problem.sums.xx) > 0))
            guesses = {(), *warm[j], *known._path(problem, j, index)}
            incumbents = [fit(problem, j, s) for s in sorted(guesses)]
            tree = _Branches(self, problem, j, index, incumbents, start + share * (j + 1))
            found = [fit(problem, j, s) for s in tree.run()]
            fits.append(tree.certify([*found, *incumbents]))
            if not tree.complete:
                notes.append(f"{output}: not proven, followed the best {self.beam} of every size")
        problem.report("subset: done", 1.0)
        return joint_front(problem, fits, self.name, notes, self.min_gain)


class _Branches:
    """The search for one output. Terms are renumbered so that the most needed come first."""

    def __init__(
        self,
        settings: Subset,
        problem: Problem,
        j: int,
        index: np.ndarray,
        incumbents: list[Fit],
        deadline: float,
    ) -> None:
        sums = problem.sums
        self.settings, self.deadline = settings, deadline
        scale = np.sqrt(np.diag(sums.xx)[index])
        a = sums.xx[np.ix_(index, index)] / np.outer(scale, scale) + JITTER * np.eye(len(index))
        # Losses here are residual sums over the target's; `unit` makes them shares of variance.
        total = max(sums.yy[j], 1e-300)
        self.unit = total / sums.weight / sums.variance[j]
        b = sums.xy[index, j] / scale / np.sqrt(total)
        full, without = _leave_one_out(a, b)
        order = np.argsort(-without)
        self.index = index[order]
        self.a, self.b, self.without = a[np.ix_(order, order)], b[order], without[order]
        self.weights = problem.candidate_library.weights[self.index]
        full_loss = full * self.unit
        knee = max(full_loss**KNEE, EXACT * 0.1)
        adequate = knee if settings.adequate is None else settings.adequate
        self.adequate = max(adequate, full_loss) / self.unit
        self.costs = np.array([0.0])
        self.losses = np.array([1.0])
        self.supports: list[tuple[int, ...]] = [()]
        self.bounds = [(f.cost, f.loss / self.unit) for f in incumbents]
        self._set_bounds()
        self.nodes = 0
        self.complete = True

    def run(self) -> list[tuple[int, ...]]:
        frontier = np.zeros((1, 0), dtype=np.int16)
        while len(frontier):
            frontier = self._grow(frontier)
        return [tuple(int(self.index[i]) for i in s) for s in self.supports]

    def certify(self, fits: list[Fit]) -> list[Fit]:
        """Mark what the finished search has proven: everything up to the first adequate fit."""
        front = undominated(fits)
        limit = next(
            (f.cost for f in front if f.loss <= self.adequate * self.unit * (1 + 1e-9)), np.inf
        )
        return [replace(f, certified=self.complete and f.cost <= limit) for f in front]

    def _set_bounds(self) -> None:
        """Best known loss for every cost, as a falling staircase."""
        rows = sorted([*self.bounds, *zip(self.costs.tolist(), self.losses.tolist(), strict=True)])
        costs, losses = np.array(rows).T
        self.stair_costs, self.stair_losses = costs, np.minimum.accumulate(losses)

    def _best_known(self, cost: np.ndarray, below: bool = False) -> np.ndarray:
        """Lowest loss among known supports of at most this cost, or of strictly less."""
        slack = -1e-9 if below else 1e-9
        position = np.searchsorted(self.stair_costs, cost + slack, side="right") - 1
        return np.where(position >= 0, self.stair_losses[np.maximum(position, 0)], np.inf)

    def _grow(self, frontier: np.ndarray) -> np.ndarray:
        """All children of the supports of one size that may still matter."""
        grown = [self._children(frontier[i : i + BATCH]) for i in range(0, len(frontier), BATCH)]
        children = np.concatenate(grown) if grown else frontier[:0]
        self.nodes += len(children)
        late = time.monotonic() > self.deadline
        if self.nodes > self.settings.max_nodes or late:
            self.complete = False
        losses = np.concatenate(
            [self._loss(children[i : i + BATCH]) for i in range(0, len(children), BATCH)]
            or [np.zeros(0)]
        )
        if not len(children):
            return children
        cost = self.weights[children].sum(axis=1)
        self._record(children, cost, losses)
        if late:
            return children[:0]
        # The branch of a support can end no lower than the full library without what it skipped.
        # A child adds at least the lightest weight that is left.
        next_cost = cost + self.weights.min()
        alive = self._floor(children) < self._best_known(next_cost)
        alive &= self._best_known(next_cost, below=True) > self.adequate
        children, losses = children[alive], losses[alive]
        if not self.complete and len(children) > self.settings.beam:
            children = children[np.argsort(losses)[: self.settings.beam]]
        return children

    def _children(self, parents: np.ndarray) -> np.ndarray:
        size = parents.shape[1]
        last = parents[:, -1] if size else np.full(len(parents), -1)
        if not self.complete:  # a beam is not exhaustive, so it may go on from any term
            last = np.full(len(parents), -1)
        candidates = np.arange(len(self.index), dtype=np.int16)
        rows, new = np.nonzero(candidates[None, :] > last[:, None])
        children = np.concatenate([parents[rows], candidates[new][:, None]], axis=1)
        if not self.complete:
            children = np.sort(children, axis=1)
            children = children[(np.diff(children, axis=1) > 0).all(axis=1)]
            children = np.unique(children, axis=0)
        cost = self.weights[children].sum(axis=1)
        return children[self._best_known(cost, below=True) > self.adequate]

    def _loss(self, supports: np.ndarray) -> np.ndarray:
        a = self.a[supports[:, :, None], supports[:, None, :]]
        b = self.b[supports]
        solution = np.linalg.solve(a, b[:, :, None])[:, :, 0]
        return np.maximum(1.0 - np.einsum("ni,ni->n", b, solution), 0.0)

    def _floor(self, supports: np.ndarray) -> np.ndarray:
        """Highest loss-without-one-term over the terms before the last that were skipped."""
        present = np.zeros((len(supports), len(self.index)), dtype=bool)
        np.put_along_axis(present, supports.astype(int), True, axis=1)
        before = np.arange(len(self.index))[None, :] < supports[:, -1:]
        return np.where(before & ~present, self.without[None, :], 0.0).max(axis=1)

    def _record(self, supports: np.ndarray, cost: np.ndarray, loss: np.ndarray) -> None:
        """Take in the supports that beat everything as cheap."""
        order = np.lexsort((loss, cost))
        cost, loss, supports = cost[order], loss[order], supports[order]
        lowest = np.minimum.accumulate(loss)
        first = np.r_[True, lowest[1:] < lowest[:-1]]
        costs = [*self.costs.tolist(), *cost[first].tolist()]
        losses = [*self.losses.tolist(), *loss[first].tolist()]
        every = [*self.supports, *map(tuple, supports[first].tolist())]
        kept: list[int] = []
        for i in sorted(range(len(costs)), key=lambda i: (costs[i], losses[i])):
            if not kept or losses[i] < losses[kept[-1]]:
                kept.append(i)
        self.costs = np.array([costs[i] for i in kept])
        self.losses = np.array([losses[i] for i in kept])
        self.supports = [every[i] for i in kept]
        self._set_bounds()


def _leave_one_out(a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
    """Loss of the full library, and of the library without each one of its terms."""
    inverse = np.linalg.inv(a)
    coefficients = inverse @ b
    full = max(1.0 - float(b @ coefficients), 0.0)
    rise = coefficients**2 / np.maximum(np.diag(inverse), 1e-300)
    return full, np.minimum(full + rise, 1.0)
