"""Long rollouts: errors, divergence, and reliance on a correction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sjepa.data import Trajectories, TrajectoryBatch, windows
from sjepa.errors import DataError
from sjepa.metrics.alignment import r2
from sjepa.metrics.arrays import as_array, as_rows
from sjepa.models import SimulatedPath, Transition


@dataclass(frozen=True)
class RolloutScore:
    """Clipped mean squared error, share of divergent rollouts, and the error at each step."""

    mse: float
    divergence_rate: float
    per_step: np.ndarray


def rollout_score(
    predicted: Any,
    states: Any,
    align: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    latent_limit: float = 40.0,
    state_limit: float = 25.0,
    clip: float = 100.0,
) -> RolloutScore:
    """Compare latent rollouts (N, K, d), without their starts, with true states (N, K, k).

    ``align`` maps latents to states (an `AffineMap`); leave it out when z is the state. A
    rollout diverges at the first step where the latent norm exceeds ``latent_limit``, the mapped
    norm exceeds ``state_limit`` or a value is not finite. From there on its error is ``clip``,
    whatever it does later; errors before are capped at ``clip`` too.
    """
    z, s = as_array(predicted), as_array(states)
    with np.errstate(all="ignore"):  # overflow is what is being measured
        mapped = z if align is None else align(z)
        if mapped.shape != s.shape:
            raise DataError(f"Cannot compare rollouts {mapped.shape} with states {s.shape}.")
        inside = np.linalg.norm(z, axis=-1) <= latent_limit  # NaN compares false
        inside &= np.linalg.norm(mapped, axis=-1) <= state_limit
        error = ((mapped - s) ** 2).mean(-1)
    alive = np.logical_and.accumulate(inside, axis=1)
    error = np.where(alive, np.minimum(error, clip), clip)
    return RolloutScore(float(error.mean()), float(np.mean(~alive[:, -1])), error.mean(0))


def segment_errors(
    transition: Transition, states: Trajectories, horizon: int = 10, max_starts: int = 1000
) -> np.ndarray:
    """Squared errors (n, K, d) of rollouts from starts spread over trajectories of states.

    Their mean is L_roll in the units of the training losses, that of the first step L_pred. Shorter
    trajectories shorten the horizon; what leaves the range of numbers is infinite.
    """
    data = TrajectoryBatch.make(states, dtype=torch.float64)
    horizon = min(horizon, data.dt.shape[1])
    cut = windows(data.x, data.dt, horizon, mask=data.mask, u=data.u)
    stride = -(-int(cut.valid.sum()) // max_starts)
    z, dt = cut.z[cut.valid][::stride], cut.dt[cut.valid][::stride]
    u = None if cut.u is None else cut.u[cut.valid][::stride][:, :-1]
    with torch.no_grad():
        path = transition.rollout(z[:, 0], dt, u)
    return (path - z)[:, 1:].square().nan_to_num(torch.inf).numpy()


def path_r2(paths: Sequence[SimulatedPath], measured: Sequence[np.ndarray]) -> float:
    """R² of simulated paths against the coordinates (T, d) seen beside them, over all together.

    Velocities that a path has behind its coordinates are not compared. A path that does not reach
    its end, diverged or too slow, makes the score minus infinity: its error has no bound.
    """
    if any(path.status != "ok" for path in paths):
        return float("-inf")
    together = [path.z[:, : z.shape[1]] for path, z in zip(paths, measured, strict=True)]
    return r2(np.concatenate(together), np.concatenate(list(measured)))


def correction_ratio(correction: Any, total: Any, eta: float = 1e-12) -> float:
    """ρ_corr = E|c|² / (E|F + c|² + η): reliance on the correction.

    Both (..., d), at the same states and before the factor Δt. Not a fraction: the parts need
    not be orthogonal, so it can exceed 1. Low is good only if the prediction is good as well.
    """
    energy = (as_rows(correction) ** 2).sum(-1).mean()
    return float(energy / ((as_rows(total) ** 2).sum(-1).mean() + eta))
