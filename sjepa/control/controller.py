"""Receding-horizon control: plan, act, observe, replan; unmeasured velocities are estimated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sjepa.control.planner import Plan, Planner
from sjepa.control.task import Task
from sjepa.errors import ConfigError
from sjepa.models.angle import turn


class Controller:
    """A policy that replans from every observation, or from every `replan`-th one.

    Call it with one observation (obs,) or with one of each of several episodes that run side by
    side (E, obs); each plan is warm-started from the last one, shifted. Usable as a policy in any
    Gymnasium environment: ``action = controller(observation)``. Where actions act late, plans start
    from the state to which those already taken lead.

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
        """Discard the last plan and the actions that still act, before a new episode."""
        self.last: Plan | None = None
        self._past: Tensor | None = None
        self._taken = 0
        self._generator = torch.Generator().manual_seed(self.seed)

    def __call__(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation, dtype=float)
        alone = array.ndim == 1
        batch = array[None] if alone else array
        if self.last is None or self._taken >= self.replan or len(batch) != len(self.last.cost):
            self._plan(batch)
        assert self.last is not None
        taken = self.task.expand(self.last.actions)[:, self._taken]
        if self._past is not None:
            self._past = torch.cat([self._past[:, 1:], taken[:, None]], dim=1)
        action = taken.double().numpy()
        self._taken += 1
        return action[0] if alone else action

    def _plan(self, batch: np.ndarray) -> None:
        z = batch if self.encode is None else np.asarray(self.encode(batch), dtype=float)
        warm = None
        if self.last is not None and len(batch) == len(self.last.cost):
            warm = _moved_on(self.task, self.last.actions, self._taken)
        state = torch.as_tensor(z, dtype=self.task.dtype)
        if self.task.ahead is not None:
            if self._past is None or len(self._past) != len(state):  # at rest until now
                rest = self.task.clamp(torch.zeros_like(self.task.low))
                self._past = rest.expand(len(state), self.task.memory, len(rest))
            with torch.no_grad():
                state = self.task.ahead(state, self._past)
        self.last = self.planner.plan(self.task, state, warm=warm, generator=self._generator)
        self._taken = 0


def _moved_on(task: Task, actions: Tensor, steps: int) -> Tensor:
    """The plan as it looks `steps` steps later; the last action is repeated at its end."""
    single = task.expand(actions)
    later = torch.arange(task.horizon).add(steps).clamp(max=task.horizon - 1)
    return single[:, later][:, :: task.hold]


class Observer:
    """A policy on observations for a model of second order, whose velocities nobody sees.

    Between observations the state moves by the law and the action that was taken; what is then
    seen of the coordinates corrects them by a share, and the velocities by a share of it over the
    time of a step. Call it as a :class:`Controller`, with one observation or one of each episode.

    Parameters
    ----------
    model : fitted SJEPA with ``order=2``
    controller : Controller
        Plans from states (coordinates, velocities).
    gains : shares of coordinates and velocities; noisy observations want small ones
    """

    def __init__(
        self, model: Any, controller: Controller, gains: tuple[float, float] = (0.5, 0.2)
    ) -> None:
        if model.order != 2:
            raise ConfigError("An observer finds velocities: the model has order=2, or needs none.")
        if not all(0 < g <= 1 for g in gains):
            raise ConfigError(f"gains are shares in (0, 1], got {gains}.")
        if controller.task.memory:
            raise ConfigError("An observer has no dead time: plan with a law without delays.")
        self.model, self.controller, self.gains = model, controller, gains
        self.turn = turn(model.encoder_)
        self.reset()

    def reset(self) -> None:
        """Reset the state estimate, before a new episode."""
        self.controller.reset()
        self.state: np.ndarray | None = None
        self._action: np.ndarray | None = None

    def __call__(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation, dtype=float)
        alone = array.ndim == len(self.model.obs_shape_)
        z = self.model.encode(array[None] if alone else array)
        self.state = self._corrected(z)
        action = self.controller(self.state)
        self._action = action
        return action[0] if alone else action

    def _corrected(self, z: np.ndarray) -> np.ndarray:
        if self.state is None or self._action is None or len(self.state) != len(z):
            return np.concatenate([z, np.zeros_like(z)], axis=1)
        task = self.controller.task
        tensors = (torch.as_tensor(a, dtype=task.dtype) for a in (self.state, self._action))
        with torch.no_grad():
            state = task.step(*tensors).double().numpy()
        d = z.shape[1]
        innovation = z - state[:, :d]
        if self.turn is not None:
            innovation -= self.turn * np.round(innovation / self.turn)
        first, second = self.gains
        return state + np.concatenate(
            [first * innovation, second * innovation / self.model.step_], axis=1
        )
