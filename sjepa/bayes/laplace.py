"""Laplace's approximation of an evidence: a mode, the curvature there, and draws around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.func import grad_and_value, hessian


# Eigenvalues of the Hessian below this share of the prior's own precision are not curvature.
FLAT = 1e-3
_MOST_ITERATIONS = 500
_MOST_NEWTON = 60
_BAD = 1e250


@dataclass(frozen=True, eq=False)
class Mode:
    """A posterior mode and the Gaussian around it.

    Parameters are in units of their priors. `repaired` counts the eigenvalues of the negative
    Hessian that were not positive: in those directions the posterior is taken to be as wide as
    the prior, and the evidence is only an estimate. `slope` is the largest gradient entry left.
    """

    theta: Tensor
    log_joint: float
    hessian: Tensor
    values: Tensor
    vectors: Tensor
    repaired: int
    slope: float

    @property
    def log_evidence(self) -> float:
        """log p(D, ϑ̂) + d/2 log 2π - 1/2 log |H|."""
        d = len(self.theta)
        return self.log_joint + 0.5 * d * math.log(2 * math.pi) - 0.5 * float(self.values.log().sum())

    @property
    def covariance(self) -> Tensor:
        return (self.vectors / self.values) @ self.vectors.T

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """(n, d) draws from the Gaussian."""
        noise = torch.randn(n, len(self.theta), generator=generator, dtype=torch.float64)
        return self.theta + (noise / self.values.sqrt()) @ self.vectors.T

    def status(self) -> str:
        """"ok", or what is doubtful about this mode, in words."""
        notes = []
        if self.repaired:
            notes.append(
                f"Hessian not positive definite: {self.repaired} of {len(self.theta)} "
                "directions set to the prior's width"
            )
        if self.slope > 1e-2:
            notes.append(f"mode not reached, gradient {self.slope:.1g}")
        return "; ".join(notes) or "ok"


def find_mode(log_joint: Callable[[Tensor], Tensor], starts: Sequence[Tensor]) -> Mode | None:
    """The best mode reached from the starts, or None if none of them leads anywhere finite."""
    found = [m for m in (_climb(log_joint, s) for s in starts) if m is not None]
    if not found:
        return None
    theta, value = max(found, key=lambda pair: pair[1])
    curvature = -hessian(log_joint)(theta)
    if not curvature.isfinite().all():
        return None
    slope = grad_and_value(log_joint)(theta)[0]
    values, vectors, repaired = repair(curvature)
    size = float(slope.abs().max()) if len(slope) else 0.0
    return Mode(theta, value, curvature, values, vectors, repaired, size)


def repair(curvature: Tensor) -> tuple[Tensor, Tensor, int]:
    """Eigenvalues and vectors of a negative Hessian, non-positive ones replaced by the prior's 1."""
    if not len(curvature):
        return curvature.new_ones(0), curvature, 0
    values, vectors = torch.linalg.eigh(0.5 * (curvature + curvature.T))
    bad = values < FLAT
    return torch.where(bad, torch.ones_like(values), values), vectors, int(bad.sum())


def _climb(
    log_joint: Callable[[Tensor], Tensor], start: Tensor
) -> tuple[Tensor, float] | None:
    slope = grad_and_value(log_joint)

    def down(x: np.ndarray) -> tuple[float, np.ndarray]:
        g, value = slope(torch.as_tensor(x))
        if not (value.isfinite() and g.isfinite().all()):
            return _BAD, np.zeros_like(x)
        return -float(value), -g.numpy()

    def bend(x: np.ndarray) -> np.ndarray:
        h = -hessian(log_joint)(torch.as_tensor(x))
        return h.numpy() if h.isfinite().all() else np.eye(len(x))

    x = start.numpy()
    if len(x) == 0:
        value = float(log_joint(start))
        return (start, value) if math.isfinite(value) else None
    # Many cheap steps to come near, then a few with the true curvature to arrive.
    near = minimize(down, x, jac=True, method="L-BFGS-B", options={"maxiter": _MOST_ITERATIONS})
    x = near.x if near.fun < _BAD else x
    exact = minimize(
        down, x, jac=True, hess=bend, method="trust-exact",
        options={"maxiter": _MOST_NEWTON, "gtol": 1e-6},
    )  # fmt: skip
    best = exact if exact.fun <= near.fun else near
    return None if best.fun >= _BAD else (torch.as_tensor(best.x), -float(best.fun))
