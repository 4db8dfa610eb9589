"""The interface of planners: from states to the best action sequences found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.control.task import Task
from sjepa.errors import DataError
from sjepa.settings import array_of


@dataclass(frozen=True, eq=False)
class Plan:
    """For each of E starts: actions (E, blocks, m) and their predicted cost (E,)."""

    actions: Tensor
    cost: Tensor


class Planner(ABC):
    """Plans for a batch of starts z (E, d) at once, each on its own."""

    def plan(
        self,
        task: Task,
        z: Tensor,
        *,
        warm: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Plan:
        """The best plan found from `warm` (E, blocks, m), or from the middle of the box.

        `warm` is normally the last plan moved on by a step, and no plan costs more than it does.
        Actions lie inside the task's box. The same generator state gives the same plan.
        """
        z = torch.as_tensor(z if isinstance(z, Tensor) else array_of(z, "z"))
        if z.ndim != 2:
            raise DataError(f"Starts are z (E, d), got shape {tuple(z.shape)}.")
        if warm is None:
            middle = (task.low + task.high) / 2
            warm = middle.expand(len(z), task.blocks, len(middle)).clone()
        return self._improve(task, z.to(task.dtype), task.clamp(warm.to(task.dtype)), generator)

    @abstractmethod
    def _improve(
        self, task: Task, z: Tensor, plan: Tensor, generator: torch.Generator | None
    ) -> Plan:
        """Start from plans (E, blocks, m) inside the box."""


def smooth_normal(
    count: int, task: Task, smoothness: float, generator: torch.Generator | None, starts: int
) -> Tensor:
    """Standard normal numbers (E, N, blocks, m), correlated in time by `smoothness` a block.

    Independent noise averages out over a plan and explores only a ball around it; correlated
    noise acts in one direction for a while.
    """
    shape = (starts, count, task.blocks, len(task.low))
    noise = torch.randn(shape, generator=generator, dtype=task.dtype)
    if smoothness <= 0 or task.blocks == 1:
        return noise
    # One matrix product instead of a recursion: row i mixes all earlier innovations.
    i = torch.arange(task.blocks, dtype=task.dtype)
    gap = i[:, None] - i[None, :]
    mix = torch.where(gap >= 0, smoothness ** gap.clamp(min=0), torch.zeros(()))
    mix[:, 1:] *= (1 - smoothness**2) ** 0.5
    return torch.einsum("ij,enjm->enim", mix.to(noise), noise)


def keep_best(plan: Plan | None, actions: Tensor, cost: Tensor) -> Plan:
    """The better of the best so far and the best of candidates (E, N, ...) with costs (E, N)."""
    at = cost.argmin(dim=1)
    rows = torch.arange(len(cost))
    cheapest, value = actions[rows, at], cost[rows, at]
    if plan is None:
        return Plan(cheapest, value)
    better = value < plan.cost
    return Plan(
        torch.where(better[:, None, None], cheapest, plan.actions),
        torch.where(better, value, plan.cost),
    )
