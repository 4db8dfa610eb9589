"""How errors grow along a rollout: Lipschitz constants and the bound they imply."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sjepa.metrics.arrays import as_array


@dataclass(frozen=True)
class LipschitzEstimate:
    """Largest and high-quantile spectral norm of the Jacobian over the data."""

    maximum: float
    quantile: float


def lipschitz(
    step: Callable[..., Tensor],
    z: Tensor,
    *inputs: Tensor,
    quantile: float = 0.99,
    chunk: int = 1024,
) -> LipschitzEstimate:
    """Local Lipschitz constants of z -> step(z, *inputs) at states (n, d).

    ``inputs`` are per-sample tensors (n, ...), for a `Transition` dt (n, 1) and u (n, m).
    An estimate from below: between and beyond the data the map may be steeper.
    """
    jacobian = torch.func.vmap(torch.func.jacrev(step), chunk_size=chunk)
    norms = torch.linalg.matrix_norm(jacobian(z, *inputs).detach(), ord=2)
    return LipschitzEstimate(float(norms.max()), float(norms.quantile(quantile)))


def rollout_bound(lipschitz: float, delta: float, horizon: int, e0: float = 0.0) -> np.ndarray:
    """e_h <= L^h e_0 + δ (1 + L + ... + L^{h-1}), for h = 0, ..., horizon.

    Computed by the recursion e_{h+1} = L e_h + δ of the proof, which needs no special case at
    L = 1 and loses no digits near it.
    """
    bound = np.empty(horizon + 1)
    bound[0] = e0
    with np.errstate(over="ignore"):
        for h in range(horizon):
            bound[h + 1] = lipschitz * bound[h] + delta
    return bound


@dataclass(frozen=True)
class RolloutCheck:
    """Worst rollout error at each step 0, ..., K beside the bound it should respect."""

    error: np.ndarray
    bound: np.ndarray
    delta: float

    @property
    def holds(self) -> bool:
        """False means that L or δ, both measured on data, were too small for these rollouts."""
        return bool((self.error <= self.bound * (1.0 + 1e-9) + 1e-12).all())


def check_rollout_bound(rollout: Any, truth: Any, one_step: Any, lipschitz: float) -> RolloutCheck:
    """Compare free rollouts with the bound from their own one-step errors.

    rollout and truth are (N, K + 1, d) and include the start; one_step (N, K, d) holds the
    predictions made from each true state but the last. δ is the largest one-step error.
    """
    rollout, truth, one_step = as_array(rollout), as_array(truth), as_array(one_step)
    delta = float(np.linalg.norm(one_step - truth[:, 1:], axis=-1).max())
    error = np.linalg.norm(rollout - truth, axis=-1).max(0)
    return RolloutCheck(error, rollout_bound(lipschitz, delta, len(error) - 1, error[0]), delta)
