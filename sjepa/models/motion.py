"""A law as the motion of a state: what its state is, where it goes, and how to follow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sjepa.errors import DataError, LawError
from sjepa.models.driven import iterate, simulate_held
from sjepa.models.simulation import Simulation, simulate
from sjepa.symbolic import Law


class Motion:
    """Follows a law of first or second order or a map, with or without actions.

    The state is the law's outputs; if these are velocities that are inputs behind as many
    positions, it is positions and velocities. The remaining inputs are actions.

    Examples
    --------
    >>> motion = Motion(Law.from_string(["p", "-q"], ["q", "p"]))
    >>> motion.names, motion.simulate([1.0, 0.0], np.linspace(0, np.pi, 3)).z.round(6)[-1]
    (('q', 'p'), array([-1., -0.]))
    """

    def __init__(self, law: Law) -> None:
        count = len(law.outputs)
        if law.outputs == law.inputs[:count]:
            self.order, self.size = 1, count
        elif law.dynamics == "continuous" and law.outputs == law.inputs[count : 2 * count]:
            self.order, self.size = 2, 2 * count
        else:
            raise LawError(
                f"The law gives {', '.join(law.outputs)} from {', '.join(law.inputs)}: to follow "
                "it in time, its outputs must be its first inputs."
            )
        self.law = law
        self.names, self.actions = law.inputs[: self.size], law.inputs[self.size :]
        self._run = law.numpy()

    def states(self, z: np.ndarray, t: np.ndarray) -> np.ndarray:
        """States (T, size) of coordinates (T, d): second order adds central differences."""
        z = np.asarray(z, dtype=float)
        if z.ndim == 2 and z.shape[1] == self.size:
            return z
        if z.ndim != 2 or self.order == 1 or 2 * z.shape[1] != self.size:
            raise DataError(
                f"Coordinates of shape {z.shape} are not the state {', '.join(self.names)}."
            )
        if len(z) < 3:
            raise DataError("Velocities need at least three points of a trajectory.")
        return np.concatenate([z, np.gradient(z, np.asarray(t, dtype=float), axis=0)], axis=1)

    def velocity(self, z: np.ndarray, u: np.ndarray | None = None) -> np.ndarray:
        """Change of states (..., size): their derivative, or for a map the step to the next."""
        given = z if u is None else np.concatenate([z, u], axis=-1)
        change = self._run(given)
        if self.law.dynamics == "discrete":
            return change - z
        if self.order == 2:
            return np.concatenate([z[..., self.size // 2 :], change], axis=-1)
        return change

    def simulate(
        self, start: Sequence[float] | np.ndarray, t: Any, u: Any = None, **options: Any
    ) -> Simulation:
        """States at times `t` from one state; `options` go to :func:`sjepa.models.simulate`.

        Each row of actions `u` (T, m) is held from its time to the next. A map makes one step from
        each time to the next.
        """
        z0, times = np.asarray(start, dtype=float), np.asarray(t, dtype=float)
        if z0.shape != (self.size,):
            raise DataError(
                f"The state is {', '.join(self.names)}: give {self.size} numbers, "
                f"got shape {z0.shape}."
            )
        actions = self._actions(u, times)
        if self.law.dynamics == "discrete":
            return iterate(self._run, z0, len(times) - 1, actions)
        if actions is None:
            return simulate(lambda time, z: self.velocity(z), z0, times, **options)

        def forced(inputs: np.ndarray) -> np.ndarray:
            return self.velocity(inputs[: self.size], inputs[self.size :])

        return simulate_held(forced, z0, times, actions, **options)

    def _actions(self, u: Any, t: np.ndarray) -> np.ndarray | None:
        if not self.actions:
            return None
        if u is None:
            raise DataError(f"The law has the actions {', '.join(self.actions)}: give u.")
        actions = np.asarray(u, dtype=float).reshape(len(u), -1)
        if actions.shape != (len(t), len(self.actions)):
            raise DataError(
                f"u has shape {np.shape(u)}; expected {(len(t), len(self.actions))}: one row for "
                f"each time, with {', '.join(self.actions)}."
            )
        return actions
