"""Gradient shooting: plans improved by differentiating through the predictor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.control.planner import Plan, Planner, keep_best, smooth_normal
from sjepa.control.task import Task
from sjepa.errors import ConfigError


@dataclass(frozen=True)
class GradientShooting(Planner):
    """Adam on several plans at once, projected onto the box after every step.

    Parameters
    ----------
    starts : int
        Plans improved side by side: the warm one and random ones around it.
    iterations : int
    rate : float
        Step of Adam, in half widths of the box.
    spread : float
        Standard deviation of the random starts, in half widths of the box.
    """

    starts: int = 16
    iterations: int = 30
    rate: float = 0.1
    spread: float = 0.7

    def __post_init__(self) -> None:
        if self.starts < 1 or self.iterations < 1 or self.rate <= 0:
            raise ConfigError("Gradient shooting needs starts, iterations and rate above 0.")

    def _improve(
        self, task: Task, z: Tensor, plan: Tensor, generator: torch.Generator | None
    ) -> Plan:
        half = (task.high - task.low) / 2
        noise = smooth_normal(self.starts, task, 0.8, generator, len(z))
        plans = task.clamp(plan[:, None] + self.spread * half * noise)
        plans[:, 0] = plan
        # In half widths, so that one rate serves actions of any size.
        free = (plans / half).detach().requires_grad_(True)
        optimizer = torch.optim.Adam([free], lr=self.rate)
        best: Plan | None = None
        for i in range(self.iterations + 1):
            with torch.enable_grad():
                actions = task.clamp(free * half)
                cost = task.cost(z[:, None], actions)
            best = keep_best(best, actions.detach(), cost.detach())
            if i == self.iterations:
                break
            (slope,) = torch.autograd.grad(cost.sum(), free)
            free.grad = slope.nan_to_num(0.0, 0.0, 0.0)
            optimizer.step()
            with torch.no_grad():
                free.copy_(task.clamp(free * half) / half)
        assert best is not None
        return best
