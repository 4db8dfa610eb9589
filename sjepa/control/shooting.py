"""Planners by shooting: random plans, the cross-entropy method, path integrals, and gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.control.planner import Plan, Planner, keep_best, smooth_normal
from sjepa.control.task import Task
from sjepa.errors import ConfigError
from sjepa.settings import number_of, whole_of


@dataclass(frozen=True)
class RandomShooting(Planner):
    """The best of many random plans, uniform in the box."""

    samples: int = 1024

    def __post_init__(self) -> None:
        whole_of(self.samples, "samples", 1)

    def _improve(
        self, task: Task, z: Tensor, plan: Tensor, generator: torch.Generator | None
    ) -> Plan:
        shape = (len(z), self.samples, task.blocks, len(task.low))
        share = torch.rand(shape, generator=generator, dtype=task.dtype)
        actions = task.low + (task.high - task.low) * share
        actions[:, 0] = plan
        return keep_best(None, actions, task.cost(z[:, None], actions))


@dataclass(frozen=True)
class CEM(Planner):
    """Cross-entropy method: sample around a mean, move mean and spread to the best samples.

    Parameters
    ----------
    samples, iterations : int
    elites : float
        Share of the samples that the next mean and spread are taken from.
    spread : float
        First standard deviation, in half widths of the box.
    smoothness : float
        Correlation of neighboring actions in a sample, from 0 (independent) to below 1.
    momentum : float
        Share of the old mean and spread that stays.
    """

    samples: int = 512
    iterations: int = 4
    elites: float = 0.1
    spread: float = 0.7
    smoothness: float = 0.5
    momentum: float = 0.1

    def __post_init__(self) -> None:
        whole_of(self.samples, "samples", 4)
        whole_of(self.iterations, "iterations", 1)
        if not 0 < number_of(self.elites, "elites") < 1:
            raise ConfigError(f"CEM needs elites in (0, 1), got {self.elites}.")

    def _improve(
        self, task: Task, z: Tensor, plan: Tensor, generator: torch.Generator | None
    ) -> Plan:
        mean = plan
        half = (task.high - task.low) / 2
        std = (self.spread * half).expand_as(mean)
        count = max(2, round(self.elites * self.samples))
        best: Plan | None = None
        for _ in range(self.iterations):
            noise = smooth_normal(self.samples, task, self.smoothness, generator, len(z))
            actions = task.clamp(mean[:, None] + std[:, None] * noise)
            actions[:, 0] = mean  # the plan itself is never lost
            if best is not None:
                actions[:, 1] = best.actions
            cost = task.cost(z[:, None], actions)
            best = keep_best(best, actions, cost)
            chosen = cost.topk(count, dim=1, largest=False).indices
            good = actions.gather(1, chosen[:, :, None, None].expand(-1, -1, *actions.shape[2:]))
            mean = torch.lerp(good.mean(1), mean, self.momentum)
            std = torch.lerp(good.std(1), std, self.momentum)
        assert best is not None
        return best


@dataclass(frozen=True)
class MPPI(Planner):
    """Model predictive path integral: samples weighted by exp(-cost / temperature).

    Parameters
    ----------
    samples, iterations : int
    spread : float
        Standard deviation of the samples, in half widths of the box.
    temperature : float
        In standard deviations of the samples' costs, so that it needs no tuning to their units.
    smoothness : float
        Correlation of neighboring actions in a sample.
    """

    samples: int = 512
    iterations: int = 3
    spread: float = 0.5
    temperature: float = 0.03
    smoothness: float = 0.5

    def __post_init__(self) -> None:
        whole_of(self.samples, "samples", 2)
        whole_of(self.iterations, "iterations", 1)
        if number_of(self.temperature, "temperature") <= 0:
            raise ConfigError(f"MPPI needs temperature > 0, got {self.temperature}.")

    def _improve(
        self, task: Task, z: Tensor, plan: Tensor, generator: torch.Generator | None
    ) -> Plan:
        mean, best = plan, Plan(plan, task.cost(z, plan))
        half = self.spread * (task.high - task.low) / 2
        for _ in range(self.iterations):
            noise = smooth_normal(self.samples, task, self.smoothness, generator, len(z))
            actions = task.clamp(mean[:, None] + half * noise)
            cost = task.cost(z[:, None], actions)
            scale = self.temperature * cost.clamp(max=float(cost.median()) * 1e3 + 1.0).std(
                1, keepdim=True
            )
            lowest = cost.min(1, keepdim=True).values
            weight = torch.softmax(-(cost - lowest) / scale.clamp(min=1e-12), dim=1)
            mean = (weight[:, :, None, None] * actions).sum(1)
            best = keep_best(best, mean[:, None], task.cost(z, mean)[:, None])
        return best


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
        whole_of(self.starts, "starts", 1)
        whole_of(self.iterations, "iterations", 1)
        if number_of(self.rate, "rate") <= 0:
            raise ConfigError(f"Gradient shooting needs rate > 0, got {self.rate}.")

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
