"""State observer for unmeasured velocities: the law predicts the state, observations correct it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sjepa.control.controller import Controller
from sjepa.errors import ConfigError
from sjepa.models.angle import turn


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
