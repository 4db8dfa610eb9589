"""Controllability and linear quadratic regulators of a local linear model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import (
    expm,
    solve_continuous_are,
    solve_continuous_lyapunov,
    solve_discrete_are,
    solve_discrete_lyapunov,
)

from sjepa.control.linearize import ContinuousModel, DiscreteModel, Linearization
from sjepa.errors import ConfigError, DataError
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
    """Reach of the actions around a point; says nothing about what is far from it.

    ``rank`` of [B, AB, ..., A^(d-1)B] and its singular values; ``gramian`` (d, d), whose
    eigenvectors with large eigenvalues are cheap to reach (the least energy to reach a state x
    is xᵀ W⁻¹ x); ``horizon`` of the Gramian, None for all time.
    """

    rank: int
    dimension: int
    singular_values: np.ndarray
    gramian: np.ndarray
    horizon: float | None

    @property
    def controllable(self) -> bool:
        return self.rank == self.dimension

    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the Gramian, largest first, and unit directions as columns."""
        values, vectors = np.linalg.eigh(self.gramian)
        return values[::-1], vectors[:, ::-1]

    def __repr__(self) -> str:
        word = "controllable" if self.controllable else "not controllable"
        reach = np.array2string(self.directions()[0], precision=3)
        return f"{word}: rank {self.rank} of {self.dimension}; Gramian's eigenvalues {reach}"


def controllability(
    model: ContinuousModel | DiscreteModel, horizon: float | None = None
) -> Controllability:
    """Controllability matrix and Gramian of one local model (no batch axes).

    `horizon` is a time for a continuous model and a number of steps for a discrete one. Without
    it the Gramian is that over all time, which exists only where the model is stable by its own
    criterion; elsewhere it is over d time units or d steps.
    """
    a, b = model.A, model.B
    if a.ndim != 2:
        raise DataError(f"Controllability is that of one point, got A of shape {a.shape}.")
    if b.shape[1] == 0:
        raise DataError("The model has no actions, so nothing can be controlled.")
    if horizon is not None and horizon <= 0:
        raise ConfigError(f"The horizon must be positive, got {horizon}.")
    d = len(a)
    # Powers of A scaled to size 1: the column spaces stay the same and their ranks readable.
    scaled = a / max(np.linalg.norm(a, 2), 1e-300)
    blocks = [b]
    for _ in range(d - 1):
        blocks.append(scaled @ blocks[-1])
    values = np.linalg.svd(np.concatenate(blocks, axis=1), compute_uv=False)
    rank = int((values > values[0] * d * 1e-10).sum()) if values[0] > 0 else 0
    if isinstance(model, ContinuousModel):
        if horizon is None and model.hurwitz:
            return Controllability(rank, d, values, solve_continuous_lyapunov(a, -b @ b.T), None)
        span = float(d) if horizon is None else float(horizon)
        return Controllability(rank, d, values, _finite_gramian(a, b, span), span)
    if horizon is None and model.schur:
        return Controllability(rank, d, values, solve_discrete_lyapunov(a, b @ b.T), None)
    steps = d if horizon is None else round(horizon)
    gramian, column = np.zeros((d, d)), b
    for _ in range(steps):
        gramian, column = gramian + column @ column.T, a @ column
    return Controllability(rank, d, values, gramian, float(steps))


def _finite_gramian(a: np.ndarray, b: np.ndarray, time: float) -> np.ndarray:
    """∫ exp(As) B Bᵀ exp(Aᵀs) ds over [0, time], from one matrix exponential (Van Loan)."""
    d = len(a)
    block = np.block([[-a, b @ b.T], [np.zeros((d, d)), a.T]]) * time
    e = expm(block)
    gramian = e[d:, d:].T @ e[:d, d:]
    return (gramian + gramian.T) / 2
