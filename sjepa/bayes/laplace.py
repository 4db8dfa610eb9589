"""Laplace's approximation of an evidence: a mode, the curvature there, and draws around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.func import grad, jacrev


# Eigenvalues of the Hessian below this share of the prior's own precision are not curvature.
FLAT = 1e-3
# Nats below the mode that are worth a remark.
MISSING = 0.05
_MAX_ITERATIONS = 500
_MAX_NEWTON = 60
_BAD = 1e250
_ARRIVED = 1e-3


@dataclass(frozen=True, eq=False)
class PosteriorMode:
    """A posterior mode and the Gaussian around it.

    Parameters are in units of their priors. `repaired` counts the eigenvalues of the negative
    Hessian that were not positive: in those directions the posterior is taken to be as wide as
    the prior, and the evidence is only an estimate. `missing` is how much higher the joint density
    could still be by the local quadratic, in nats.
    """

    theta: Tensor
    log_joint: float
    hessian: Tensor
    values: Tensor
    vectors: Tensor
    repaired: int
    missing: float

    @property
    def log_evidence(self) -> float:
        """log p(D, ϑ̂) + d/2 log 2π - 1/2 log |H|."""
        d = len(self.theta)
        return (
            self.log_joint + 0.5 * d * math.log(2 * math.pi) - 0.5 * float(self.values.log().sum())
        )

    @property
    def axes(self) -> Tensor:
        """Principal directions, each as long as the Gaussian is wide."""
        return self.vectors / self.values.sqrt()

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """(n, d) draws from the Gaussian."""
        noise = torch.randn(n, len(self.theta), generator=generator, dtype=torch.float64)
        return self.theta + noise @ self.axes.T

    def status(self) -> str:
        """ "ok", or why this mode is unreliable."""
        notes = []
        if self.repaired:
            notes.append(
                f"Hessian not positive definite: {self.repaired} of {len(self.theta)} "
                "directions set to the prior's width"
            )
        if self.missing > MISSING:
            notes.append(f"mode not reached, {self.missing:.1g} nats below it")
        return "; ".join(notes) or "ok"


def find_mode(
    log_joint: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    large: bool = False,
    axes: Tensor | None = None,
) -> PosteriorMode | None:
    """The mode reached from the start, or None if none is finite.

    `large` saves memory and time where the density itself is expensive: one direction of the
    Hessian at a time, and no steps with the true curvature. `axes` (d, d) are directions in
    which the density is expected to be round, which makes the way shorter.
    """
    if axes is None:
        reached = climb(log_joint, start, newton=not large)
    else:
        reached = climb(
            lambda x: log_joint(start + axes @ x), torch.zeros_like(start), newton=not large
        )
        reached = reached and (start + axes @ reached[0], reached[1])
    if reached is None:
        return None
    theta, value = reached
    curvature = -hessian(log_joint, theta, 1 if large else None)
    if not curvature.isfinite().all():
        return None
    values, vectors, repaired = repair(curvature)
    slope = vectors.T @ grad(log_joint)(theta)
    missing = 0.5 * float((slope.square() / values).sum())
    return PosteriorMode(theta, value, curvature, values, vectors, repaired, missing)


def hessian(
    log_joint: Callable[[Tensor], Tensor], theta: Tensor, rows: int | None = None
) -> Tensor:
    """Second derivatives, k rows at a time.

    Reverse over reverse: ``torch.func.hessian`` goes forward over reverse, which is meant for
    many parameters and takes three times as long for a handful.
    """
    return jacrev(grad(log_joint), chunk_size=rows)(theta)


def repair(curvature: Tensor) -> tuple[Tensor, Tensor, int]:
    """Eigenvalues and vectors of a negative Hessian; non-positive ones become the prior's 1."""
    if not len(curvature):
        return curvature.new_ones(0), curvature, 0
    values, vectors = torch.linalg.eigh(0.5 * (curvature + curvature.T))
    bad = values < FLAT
    return torch.where(bad, torch.ones_like(values), values), vectors, int(bad.sum())


def climb(
    log_joint: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    newton: bool = True,
) -> tuple[Tensor, float] | None:
    """Follow the gradient up from the start: the point and its value, None if never finite."""

    def down(x: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.tensor(x, requires_grad=True)
        value = log_joint(theta)
        (g,) = torch.autograd.grad(value, theta)
        value = value.detach()
        if not (value.isfinite() and g.isfinite().all()):
            return _BAD, np.zeros_like(x)
        return -float(value), -g.numpy()

    def curvature(x: np.ndarray) -> np.ndarray:
        h = -hessian(log_joint, torch.as_tensor(x))
        return h.numpy() if h.isfinite().all() else np.eye(len(x))

    x = start.numpy()
    if len(x) == 0:
        value = float(log_joint(start))
        return (start, value) if math.isfinite(value) else None
    # Many cheap steps to come near, then a few with the true curvature to arrive.
    # Hopeless laws overflow on the way; that is an answer here, not a warning.
    with np.errstate(all="ignore"):
        near = minimize(down, x, jac=True, method="L-BFGS-B", options={"maxiter": _MAX_ITERATIONS})
    x = near.x if near.fun < _BAD else x
    # What is missing to the top is at most half the squared gradient where the prior is 1 wide.
    if not newton or (near.fun < _BAD and np.abs(near.jac).max() < _ARRIVED):
        return None if near.fun >= _BAD else (torch.as_tensor(near.x), -float(near.fun))
    with np.errstate(all="ignore"):
        exact = minimize(
            down, x, jac=True, hess=curvature, method="trust-exact",
            options={"maxiter": _MAX_NEWTON, "gtol": _ARRIVED},
        )  # fmt: skip
    best = exact if exact.fun <= near.fun else near
    return None if best.fun >= _BAD else (torch.as_tensor(best.x), -float(best.fun))
