"""Kernels of the correction, as GPyTorch modules whose parameters are logarithms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sjepa.bayes.prior import GP
from sjepa.errors import MissingDependency


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
