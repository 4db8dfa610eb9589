"""Trajectories under actions: a vector field with held actions, and a map step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import numpy as np
import torch

from sjepa.errors import DataError
from sjepa.models.simulation import Simulation, simulate
from sjepa.models.transition import Transition


def simulate_held(
    field: Callable[[np.ndarray], np.ndarray],
    z0: np.ndarray,
    t: np.ndarray,
    u: np.ndarray,
    **options: Any,
) -> Simulation:
    """Follow dz/dt = field((z, u)) where row i of u (T, m) is held from t[i] to t[i + 1].

    Each stretch of equal actions is integrated on its own: a solver that steps over a jump would
    lose its accuracy. Options are those of :func:`sjepa.models.simulate`.
    """
    z0, t, u = np.asarray(z0, dtype=float), np.asarray(t, dtype=float), np.asarray(u, dtype=float)
    if u.shape[:1] != t.shape:
        raise DataError(f"Needs one row of actions per time, got {u.shape} for {t.shape} times.")
    deadline = monotonic() + float(options.pop("max_seconds", 60.0))  # for all stretches together
    z = np.full((len(t), len(z0)), np.nan)
    z[0], reached, evaluations, start = z0, 1, 0, 0
    while start < len(t) - 1:
        end = start + 1
        while end < len(t) - 1 and (u[end] == u[start]).all():
            end += 1
        held = u[start]
        run = simulate(
            lambda _, state, held=held: field(np.concatenate([state, held])),  # type: ignore[misc]
            z[start],
            t[start : end + 1],
            max_seconds=max(deadline - monotonic(), 0.0),
            **options,
        )
        z[start : start + run.reached] = run.z[: run.reached]
        reached = start + run.reached
        evaluations += run.evaluations
        if run.status != "ok":
            return Simulation(z, run.status, reached, evaluations)
        start = end
    return Simulation(z, "ok", reached, evaluations)


def iterate(
    step: Callable[[np.ndarray], np.ndarray],
    z0: np.ndarray,
    steps: int,
    u: np.ndarray | None = None,
    limit: float = 1e8,
) -> Simulation:
    """Apply a map z' = step((z, u)) again and again: states (steps + 1, d), the start included."""
    z0 = np.asarray(z0, dtype=float)
    if u is not None and len(u) < steps:
        raise DataError(f"{steps} steps need as many rows of actions, got {len(u)}.")
    z = np.full((steps + 1, len(z0)), np.nan)
    z[0] = z0
    for i in range(steps):
        state = z[i] if u is None else np.concatenate([z[i], u[i]])
        following = np.asarray(step(state), dtype=float)
        if not (np.abs(following) < limit).all():
            return Simulation(z, "diverged", i + 1, i + 1)
        z[i + 1] = following
    return Simulation(z, "ok", steps + 1, steps)


def with_actions(z: np.ndarray, u: Any, names: Sequence[str]) -> np.ndarray:
    """States (n, d) with their actions appended; one action (m,) is repeated for all states."""
    if u is None:
        if names:
            raise DataError(f"The model has actions ({', '.join(names)}); give them as u.")
        return z
    if not names:
        raise DataError("The model was learned without actions; leave u out.")
    u = np.asarray(u, dtype=float)
    if u.shape == (len(z),) and len(names) == 1 and len(z) != 1:
        u = u[:, None]
    try:
        rows = np.broadcast_to(u, (len(z), len(names)))
    except ValueError:
        raise DataError(
            f"u has shape {u.shape}; expected ({len(z)}, {len(names)}) or ({len(names)},)."
        ) from None
    if not np.isfinite(rows).all():
        raise DataError("u contains NaN or infinity.")
    return np.concatenate([z, rows], axis=1)


def right_side(transition: Transition) -> Callable[[np.ndarray], np.ndarray]:
    """F + c as a numpy function of the state joined with actions, (..., d + m) to (..., k)."""
    law = getattr(transition.symbolic, "law", None)
    if transition.correction is None and callable(law):
        return law().numpy()  # a tenth of the time of torch on single states

    def evaluate(inputs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return transition.field(torch.as_tensor(inputs, dtype=torch.float64)).numpy()

    return evaluate


def follow(
    transition: Transition, z0: np.ndarray, t: np.ndarray, u: np.ndarray | None = None
) -> Simulation:
    """Simulate a transition: a field by an adaptive solver, a map one step for each time.

    Row i of u (T, m) is held from t[i] on.
    """
    run = right_side(transition)
    if transition.order == 2 and len(run(np.asarray(z0, dtype=float))) == len(z0):
        raise DataError("A law of second order also needs velocities to start from.")
    if transition.dynamics == "discrete":
        return iterate(run, z0, len(t) - 1, u)

    def velocity(inputs: np.ndarray) -> np.ndarray:
        if transition.order == 1:
            return run(inputs)
        half = len(z0) // 2
        return np.concatenate([inputs[half : 2 * half], run(inputs)])

    # A trained network is far less exact than these tolerances, and each evaluation is dear.
    rough = {} if transition.correction is None else {"rtol": 1e-6, "atol": 1e-8, "method": "RK45"}
    if u is None:
        return simulate(lambda _, z: velocity(z), z0, t, **rough)  # type: ignore[arg-type]
    return simulate_held(velocity, z0, t, u, **rough)
