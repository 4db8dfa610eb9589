"""Figures that only the paper's experiments report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sjepa.errors import DataError
from sjepa.metrics.arrays import as_array


def mean_squared_error(predicted: Any, target: Any) -> float:
    """Mean over everything, coordinates included.

    The paper's latent, state and field MSE are this, on embeddings, states and velocities.
    """
    predicted, target = as_array(predicted), as_array(target)
    if predicted.shape != target.shape:
        raise DataError(f"Cannot compare {predicted.shape} with {target.shape}.")
    return float(np.mean((predicted - target) ** 2))


@dataclass(frozen=True)
class CorrectionRecovery:
    """The scale a* fitted on training data; correlation and calibrated R² on test data."""

    scale: float
    correlation: float
    r2: float


def correction_recovery(c_train: Any, r_train: Any, c_test: Any, r_test: Any) -> CorrectionRecovery:
    """Does one coordinate of the correction, up to a factor, equal the residual r of the law?

    a* = argmin E_train (r - a c)², without an offset; then R² of a* c_test against r_test. The
    correlation of a constant is NaN.
    """
    c_train, r_train, c_test, r_test = (
        as_array(x).ravel() for x in (c_train, r_train, c_test, r_test)
    )
    energy = c_train @ c_train
    scale = float(c_train @ r_train / energy) if energy > 0 else 0.0
    centered = r_test - r_test.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        score = 1.0 - ((r_test - scale * c_test) ** 2).sum() / (centered @ centered)
        correlation = np.corrcoef(c_test, r_test)[0, 1]
    return CorrectionRecovery(scale, float(correlation), float(score))


def lipschitz(
    step: Callable[..., Tensor], z: Tensor, *inputs: Tensor, quantile: float = 0.99
) -> tuple[float, float]:
    """Largest and high-quantile local Lipschitz constant of z -> step(z, *inputs) at states (n, d).

    ``inputs`` are per-sample tensors (n, ...), for a `Transition` dt (n, 1) and u (n, m).
    An estimate from below: between and beyond the data the map may be steeper.
    """
    jacobian = torch.func.vmap(torch.func.jacrev(step), chunk_size=1024)
    norms = torch.linalg.matrix_norm(jacobian(z, *inputs).detach(), ord=2)
    return float(norms.max()), float(norms.quantile(quantile))


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
