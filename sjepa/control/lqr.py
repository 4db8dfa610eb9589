"""Linear quadratic regulators from a local model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_continuous_are, solve_discrete_are

from sjepa.control.linearise import Linearisation
from sjepa.errors import ConfigError, DataError


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
    around: Linearisation,
    Q: Any,
    R: Any,
    *,
    time: str = "auto",
    low: Any = None,
    high: Any = None,
) -> LQR:
    """Solve the Riccati equation of a linearisation around an equilibrium.

    Parameters
    ----------
    Q, R : matrices (d, d) and (m, m), or numbers for multiples of the identity
        Costs of states and actions: integrated over continuous time, summed over discrete steps.
    time : "discrete", "continuous" or "auto"
        "auto" takes the step where there is one: a digital controller acts at steps.
    low, high : limits of the actions, optional
    """
    if time not in ("auto", "discrete", "continuous"):
        raise ConfigError(f"time is 'auto', 'discrete' or 'continuous', got {time!r}.")
    discrete = time == "discrete" or (time == "auto" and around.step is not None)
    model = around.step if discrete else around.field
    if model is None:
        raise DataError(f"The linearisation has no {'step' if discrete else 'vector field'}.")
    a, b = model.A, model.B
    if a.ndim != 2 or around.u is None:
        raise DataError("A regulator needs one state and one action to linearise around.")
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
    ends = [None if v is None else np.atleast_1d(np.asarray(v, dtype=float)) for v in (low, high)]
    return LQR(gain, p, around.z, around.u, a - b @ gain, *ends)


def _cost(given: Any, size: int, name: str) -> np.ndarray:
    array = np.asarray(given, dtype=float)
    matrix = (
        array * np.eye(size) if array.ndim == 0 else np.diag(array) if array.ndim == 1 else array
    )
    if matrix.shape != (size, size):
        raise DataError(f"{name} must be a number or ({size}, {size}), got shape {array.shape}.")
    return matrix
