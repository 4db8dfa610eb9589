"""Receding-horizon control: plan, act, observe, replan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sjepa.control.planner import Plan, Planner
from sjepa.control.task import Task
from sjepa.errors import ConfigError


class Controller:
    """A policy that replans from every observation, or from every `replan`-th one.

    Call it with one observation (obs,) or with one of each of several episodes that run side by
    side (E, obs); each plan is warm-started from the last one, shifted. Usable as a policy in any
    Gymnasium environment: ``action = controller(observation)``.

    Parameters
    ----------
    task : Task
    planner : Planner
    encode : callable, optional
        Observations (E, ...) to coordinates (E, d), such as ``model.encode``.
    replan : int
        Steps between plans.
    """

    def __init__(
        self,
        task: Task,
        planner: Planner,
        *,
        encode: Callable[[np.ndarray], Any] | None = None,
        replan: int = 1,
        seed: int = 0,
    ) -> None:
        if not 1 <= replan <= task.horizon:
            raise ConfigError(f"replan is 1 to the horizon {task.horizon}, got {replan}.")
        self.task, self.planner, self.encode = task, planner, encode
        self.replan, self.seed = replan, seed
        self.reset()

    def reset(self) -> None:
        """Discard the last plan, before a new episode."""
        self.last: Plan | None = None
        self._taken = 0
        self._generator = torch.Generator().manual_seed(self.seed)

    def __call__(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation, dtype=float)
        alone = array.ndim == 1
        batch = array[None] if alone else array
        if self.last is None or self._taken >= self.replan or len(batch) != len(self.last.cost):
            self._plan(batch)
        assert self.last is not None
        action = self.task.expand(self.last.actions)[:, self._taken].double().numpy()
        self._taken += 1
        return action[0] if alone else action

    def _plan(self, batch: np.ndarray) -> None:
        z = batch if self.encode is None else np.asarray(self.encode(batch), dtype=float)
        warm = None
        if self.last is not None and len(batch) == len(self.last.cost):
            warm = _moved_on(self.task, self.last.actions, self._taken)
        state = torch.as_tensor(z, dtype=self.task.dtype)
        self.last = self.planner.plan(self.task, state, warm=warm, generator=self._generator)
        self._taken = 0


def _moved_on(task: Task, actions: Tensor, steps: int) -> Tensor:
    """The plan as it looks `steps` steps later; the last action is repeated at its end."""
    single = task.expand(actions)
    later = torch.arange(task.horizon).add(steps).clamp(max=task.horizon - 1)
    return single[:, later][:, :: task.hold]
