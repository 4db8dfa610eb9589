"""Controllability and linear quadratic regulators of a local linear model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_continuous_are, solve_discrete_are

from sjepa.control.linearize import ContinuousModel, DiscreteModel, Linearization
from sjepa.errors import DataError
from sjepa.settings import array_of, choice_of


@dataclass(frozen=True, eq=False)
class LQR:
    """u = u* - K (z - z*), inside a box if one is given: a policy for states near z*.

    ``cost_to_go`` is P: from z the regulated linear model costs (z - z*)ᵀ P (z - z*).
    """

    gain: np.ndarray
    cost_to_go: np.ndarray
    z: np.ndarray
    u: np.ndarray
    closed_loop: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def __call__(self, z: Any) -> np.ndarray:
        """Actions (..., m) at states (..., d)."""
        action = self.u - (np.asarray(z, dtype=float) - self.z) @ self.gain.T
        return action if self.low is None else np.clip(action, self.low, self.high)


def lqr(
    around: Linearization,
    Q: Any,
    R: Any,
    *,
    time: str = "auto",
    low: Any = None,
    high: Any = None,
) -> LQR:
    """Solve the Riccati equation of a linearization around an equilibrium.

    Parameters
    ----------
    Q, R : matrices (d, d) and (m, m), or numbers for multiples of the identity
        Costs of states and actions: integrated over continuous time, summed over discrete steps.
    time : "discrete", "continuous" or "auto"
        "auto" takes the step where there is one: a digital controller acts at steps.
    low, high : limits of the actions, optional
    """
    choice_of(time, "time", ("auto", "discrete", "continuous"))
    discrete = time == "discrete" or (time == "auto" and around.step is not None)
    model = around.step if discrete else around.field
    if model is None:
        raise DataError(f"The linearization has no {'step' if discrete else 'vector field'}.")
    a, b = model.A, model.B
    if a.ndim != 2 or around.u is None:
        raise DataError("A regulator needs one state and one action to linearize around.")
    q, r = _cost(Q, len(a), "Q"), _cost(R, b.shape[1], "R")
    try:
        if discrete:
            p = solve_discrete_are(a, b, q, r)
            gain = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
        else:
            p = solve_continuous_are(a, b, q, r)
            gain = np.linalg.solve(r, b.T @ p)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise DataError(
            f"No regulator around this point ({error}): is it controllable where unstable?"
        ) from None
    ends = [None if v is None else np.atleast_1d(array_of(v, "low and high")) for v in (low, high)]
    return LQR(gain, p, around.z, around.u, a - b @ gain, *ends)


def _cost(weight: Any, size: int, name: str) -> np.ndarray:
    array = array_of(weight, name)
    matrix = (
        array * np.eye(size) if array.ndim == 0 else np.diag(array) if array.ndim == 1 else array
    )
    if matrix.shape != (size, size):
        raise DataError(f"{name} must be a number or ({size}, {size}), got shape {array.shape}.")
    return matrix


@dataclass(frozen=True, repr=False)
class Controllability:
    """Which directions the actions reach near a point; says nothing about what is far from it.

    ``rank`` of [B, AB, ..., A^(d-1)B], its singular values, and orthonormal ``directions`` (d, d)
    as columns, of which the first `rank` are those reached.
    """

    rank: int
    singular_values: np.ndarray
    directions: np.ndarray

    @property
    def controllable(self) -> bool:
        return self.rank == len(self.directions)

    def __repr__(self) -> str:
        word = "controllable" if self.controllable else "not controllable"
        return f"{word}: rank {self.rank} of {len(self.directions)}"


def controllability(model: ContinuousModel | DiscreteModel) -> Controllability:
    """The controllability matrix of one local model (no batch axes)."""
    a, b = model.A, model.B
    if a.ndim != 2:
        raise DataError(f"Controllability is that of one point, got A of shape {a.shape}.")
    if b.shape[1] == 0:
        raise DataError("The model has no actions, so nothing can be controlled.")
    # Powers of A scaled to size 1: the column spaces stay the same and their ranks readable.
    scaled = a / max(np.linalg.norm(a, 2), 1e-300)
    blocks = [b]
    for _ in range(len(a) - 1):
        blocks.append(scaled @ blocks[-1])
    directions, values, _ = np.linalg.svd(np.concatenate(blocks, axis=1))
    rank = int((values > values[0] * len(a) * 1e-10).sum()) if values[0] > 0 else 0
    return Controllability(rank, values, directions)
