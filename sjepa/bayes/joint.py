"""The log joint density of data and parameters for one structure, without a correction."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sjepa.bayes.covariance import Covariance
from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import Prior, Sizes, residuals
from sjepa.bayes.transitions import StepModel, Transitions


class JointDensity:
    """log p(D, ϑ | E) for ϑ = (a, λ).

    Coefficients are α = scales · a, so that a is of order 1 a priori; λ parametrizes the Cholesky
    factor of Σ. Rescaling by constants changes neither the evidence nor its Laplace
    approximation.
    """

    def __init__(
        self, structure: ParametricLaw, rows: Transitions, step: StepModel, sizes: Sizes,
        prior: Prior, covariance: object,
    ) -> None:  # fmt: skip
        self.structure, self.rows, self.step, self.prior = structure, rows, step, prior
        noise = sizes.noise
        if prior.noise is not None:
            noise = torch.full_like(noise, prior.noise)
        self.covariance = Covariance.make(covariance, noise, prior.strength)
        self.scales = sizes.coefficient_scales(structure, prior)

    @property
    def size(self) -> int:
        return self.structure.size + self.covariance.size

    def split(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients α (..., K) and the Cholesky factor L (..., d, d)."""
        k = self.structure.size
        return theta[..., :k] * self.scales, self.covariance.factor(theta[..., k:])

    def start(self) -> Tensor:
        """The candidate's own coefficients, and the covariance of the residuals."""
        residual = residuals(self.structure, self.structure.start, self.rows, self.step)
        residual = (residual / self.step.spread(self.rows.dt)).nan_to_num(0.0, 0.0, 0.0)
        return torch.cat([self.structure.start / self.scales, self.covariance.start(residual)])

    def log_likelihood(self, theta: Tensor) -> Tensor:
        alpha, root = self.split(theta)
        residual = residuals(self.structure, alpha, self.rows, self.step)
        spread = self.step.spread(self.rows.dt)
        return log_normal(residual / spread, root) - log_volume(spread, *residual.shape)

    def log_prior(self, theta: Tensor) -> Tensor:
        k = self.structure.size
        a = theta[:k]  # of unit variance
        normal = -0.5 * a.square().sum() - 0.5 * k * math.log(2 * math.pi)
        return normal + self.covariance.log_prior(theta[k:])

    def __call__(self, theta: Tensor) -> Tensor:
        return self.log_likelihood(theta) + self.log_prior(theta)


def log_normal(rows: Tensor, root: Tensor) -> Tensor:
    """Sum over rows (n, d) of log N(row; 0, root rootᵀ)."""
    n, d = rows.shape
    white = torch.linalg.solve_triangular(root, rows.T, upper=False)
    logs = root.diagonal().log().sum()
    return -0.5 * white.square().sum() - n * logs - 0.5 * n * d * math.log(2 * math.pi)


def log_volume(spread: Tensor | float, n: int, d: int) -> Tensor | float:
    """log of the factors by which residuals were divided."""
    if isinstance(spread, Tensor):
        return d * spread.log().sum()
    return n * d * math.log(spread)
