"""The Gaussian process of a correction: its kernel and its marginal likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.bayes.prior import GP


# Added to correlation matrices, whose diagonal is 1.
JITTER = 1e-9


@dataclass(frozen=True, eq=False)
class Kernel:
    """k on standardized inputs: squared-exponential where `smooth`, else Matérn 5/2.

    Length scales are arguments, so that ``torch.func`` can differentiate by them and many sets of
    them can be in use at once.
    """

    smooth: bool
    mean: Tensor
    spread: Tensor

    @classmethod
    def of(cls, settings: GP, inputs: Tensor) -> Kernel:
        mean, spread = inputs.mean(0), inputs.std(0)
        varies = spread > 1e-12 * mean.abs().clamp_min(1e-300)
        return cls(settings.kernel == "rbf", mean, torch.where(varies, spread, 1.0))

    def standardized(self, inputs: Tensor) -> Tensor:
        return (inputs - self.mean) / self.spread

    def __call__(self, a: Tensor, b: Tensor, logs: Tensor) -> Tensor:
        """k(a, b) for standardized inputs (..., n, s) and (..., m, s), log length scales (s,)."""
        # Not torch.cdist, which has no forward derivatives.
        center = b.mean(-2, keepdim=True)
        a, b = ((v - center) / logs.exp() for v in (a, b))
        square = a.square().sum(-1, keepdim=True) + b.square().sum(-1).unsqueeze(-2)
        square = square - 2.0 * (a @ b.mT)
        if self.smooth:
            return (-0.5 * square.clamp_min(0.0)).exp()
        # Below this, rounding; the clamp also keeps the root's derivatives finite.
        distance = (5.0 * square.clamp_min(1e-14)).sqrt()
        return (1.0 + distance + distance.square() / 3.0) * (-distance).exp()

    def frequencies(self, count: int, inputs: int, generator: torch.Generator) -> Tensor:
        """Draws (count, inputs) from the spectral density for unit length scales."""
        omega = torch.randn(count, inputs, generator=generator, dtype=torch.float64)
        if self.smooth:
            return omega
        # Matérn 5/2: Student's t with 5 degrees of freedom.
        chi = torch.randn(count, 5, generator=generator, dtype=torch.float64).square().sum(1)
        return omega * (5.0 / chi).sqrt()[:, None]


@dataclass(frozen=True, eq=False)
class KernelBlock:
    """Outputs that one matrix-valued kernel B ⊗ k connects; a single output has B = amplitude².

    ``columns`` are the outputs, ``logs`` the log length scales, ``mix`` (q, q) a factor of B,
    ``root`` (q, q) the Cholesky factor of Σ for these outputs.
    """

    columns: Tensor
    logs: Tensor
    mix: Tensor
    root: Tensor


@dataclass(frozen=True, eq=False)
class ProcessRows:
    """e = gain · g(s) + spread · η: standardized inputs (n, s), gains and spreads (n,)."""

    kernel: Kernel
    inputs: Tensor
    gain: Tensor
    spread: Tensor
    inducing: Tensor | None = None  # standardized (m, s)

    def log_marginal(self, block: KernelBlock, errors: Tensor) -> Tensor:
        """log N(e; 0, C) of errors (n, q), or Titsias' collapsed bound of it."""
        if self.inducing is None:
            return _log_normal(self.chol(block), errors.reshape(-1))
        return self._bound(block, errors)

    def chol(self, block: KernelBlock) -> Tensor:
        """Cholesky factor of C = (gain K gain) ⊗ B + spread² ⊗ Σ, (nq, nq)."""
        k = self.kernel(self.inputs, self.inputs, block.logs)
        k = k + JITTER * torch.eye(len(k), dtype=k.dtype)
        k = self.gain[:, None] * k * self.gain
        noise = torch.diag(self.spread.square())
        total = torch.kron(k, block.mix @ block.mix.T) + torch.kron(
            noise, block.root @ block.root.T
        )
        return safe_cholesky(total)

    def projection(self, block: KernelBlock) -> tuple[Tensor, Tensor]:
        """Cholesky factor of K_mm, and U = L_mm⁻¹ K_mn (m, n)."""
        assert self.inducing is not None
        k = self.kernel(self.inducing, self.inducing, block.logs)
        root = safe_cholesky(k + 1e-8 * torch.eye(len(k), dtype=k.dtype))
        across = self.kernel(self.inducing, self.inputs, block.logs)
        return root, torch.linalg.solve_triangular(root, across, upper=False)

    def weights(self, block: KernelBlock, errors: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The regression on inducing features: root of its precision S (mq, mq), Sᵀ-side b.

        g at the rows is U ᵀ w mixᵀ with w (m, q) standard normal a priori; returns the root of
        K_mm, U, the Cholesky factor of S = cov(w | e)⁻¹, and b (..., mq) with E w = S⁻¹ b.
        """
        root_mm, u = self.projection(block)
        white_mix = torch.linalg.solve_triangular(block.root, block.mix, upper=False)
        scaled = u * (self.gain / self.spread)
        s = torch.kron(scaled @ scaled.T, white_mix.T @ white_mix)
        white = torch.linalg.solve_triangular(
            block.root, (errors / self.spread[:, None]).mT, upper=False
        ).mT
        b = scaled @ white @ white_mix  # (..., m, q)
        s_root = safe_cholesky(s + torch.eye(len(s), dtype=s.dtype))
        return root_mm, u, s_root, b.flatten(-2)

    def _bound(self, block: KernelBlock, errors: Tensor) -> Tensor:
        n, q = errors.shape
        _, u, s_root, b = self.weights(block, errors)
        white = torch.linalg.solve_triangular(
            block.root, (errors / self.spread[:, None]).T, upper=False
        )
        half = torch.linalg.solve_triangular(s_root, b.unsqueeze(-1), upper=False)
        quadratic = white.square().sum() - half.square().sum()
        logdet = (
            2 * s_root.diagonal().log().sum()
            + 2 * n * block.root.diagonal().log().sum()
            + 2 * q * self.spread.log().sum()
        )
        # What the inducing points leave out of the prior variance, in units of the noise.
        white_mix = torch.linalg.solve_triangular(block.root, block.mix, upper=False)
        missing = (1.0 - u.square().sum(0)).clamp_min(0.0)
        lost = ((self.gain / self.spread).square() * missing).sum() * white_mix.square().sum()
        return -0.5 * (quadratic + logdet + lost + n * q * math.log(2 * math.pi))


def safe_cholesky(matrix: Tensor) -> Tensor:
    """Cholesky factor, NaN instead of an exception where there is none."""
    root, info = torch.linalg.cholesky_ex(matrix)
    return torch.where(info == 0, root, torch.nan)


def _log_normal(root: Tensor, flat: Tensor) -> Tensor:
    white = torch.linalg.solve_triangular(root, flat[:, None], upper=False)
    logs = root.diagonal().log().sum()
    return -0.5 * white.square().sum() - logs - 0.5 * len(flat) * math.log(2 * math.pi)
