"""The Gaussian process of a correction: its kernel and its marginal likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sjepa.bayes.prior import GP
from sjepa.errors import MissingDependency


# Added to correlation matrices, whose diagonal is 1.
JITTER = 1e-9


def gpytorch() -> Any:
    """GPyTorch, or the command that installs it."""
    try:
        import gpytorch as package
    except ImportError:
        raise MissingDependency(
            "A Gaussian-process correction needs GPyTorch: pip install 'sjepa[bayes]'"
        ) from None
    return package


class Kernel:
    """k on standardized inputs, for one length scale vector each of one or more outputs.

    ``logs`` are log length scales (inputs,), in units of the inputs' standard deviations. A
    frozen module is called with them as arguments, so that `torch.func` can differentiate and
    many sets of them can be in use at once.
    """

    def __init__(self, settings: GP, inputs: Tensor) -> None:
        package = gpytorch()
        self.mean = inputs.mean(0)
        spread = inputs.std(0)
        self.spread = torch.where(spread > 1e-12 * self.mean.abs().clamp_min(1e-300), spread, 1.0)
        self.smooth = settings.kernel == "rbf"
        positive = package.constraints.Positive(transform=torch.exp, inv_transform=torch.log)
        options = {"ard_num_dims": inputs.shape[1], "lengthscale_constraint": positive}
        base: nn.Module = (
            package.kernels.RBFKernel(**options)
            if self.smooth
            else package.kernels.MaternKernel(nu=2.5, **options)
        )
        base.covar_dist = _distance  # type: ignore[assignment]
        self.module = _Forward(base.double().requires_grad_(False))

    def standardized(self, inputs: Tensor) -> Tensor:
        return (inputs - self.mean) / self.spread

    def __call__(self, a: Tensor, b: Tensor, logs: Tensor) -> Tensor:
        """k(a, b) for standardized inputs (..., n, s) and (..., m, s)."""
        name = "kernel.raw_lengthscale"
        # GPyTorch's hand-written gradients know nothing of torch.func; tracing mode avoids them.
        with gpytorch().settings.trace_mode():
            return functional_call(self.module, {name: logs[None]}, (a, b))

    def frequencies(self, count: int, inputs: int, generator: torch.Generator) -> Tensor:
        """Draws (count, inputs) from the spectral density for unit length scales."""
        omega = torch.randn(count, inputs, generator=generator, dtype=torch.float64)
        if self.smooth:
            return omega
        # Matérn 5/2: Student's t with 5 degrees of freedom.
        chi = torch.randn(count, 5, generator=generator, dtype=torch.float64).square().sum(1)
        return omega * (5.0 / chi).sqrt()[:, None]


class _Forward(nn.Module):
    """Calls a kernel's formula directly instead of making a lazy matrix of it."""

    def __init__(self, kernel: nn.Module) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.kernel.forward(a, b)


def _distance(
    a: Tensor, b: Tensor, diag: bool = False, square_dist: bool = False, **_: Any
) -> Tensor:
    """Distances between rows, with derivatives of every order and mode.

    GPyTorch's own go through ``torch.cdist``, which has no forward derivatives.
    """
    center = b.mean(-2, keepdim=True)
    a, b = a - center, b - center
    square = a.square().sum(-1, keepdim=True) + b.square().sum(-1).unsqueeze(-2)
    square = square - 2.0 * (a @ b.mT)
    # Below this, rounding; the clamp also keeps the root's derivatives finite.
    return square.clamp_min(0.0) if square_dist else square.clamp_min(1e-14).sqrt()


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
