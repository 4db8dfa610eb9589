"""The transition covariance Σ = L Lᵀ in unconstrained numbers λ, and its inverse-Wishart prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sjepa.errors import ConfigError
from sjepa.settings import array_of


Kind = Literal["full", "diagonal", "isotropic", "fixed"]
KINDS = ("full", "diagonal", "isotropic")


@dataclass(frozen=True, eq=False)
class Covariance:
    """Σ = S Σ̃ S with Σ̃ = L̃ L̃ᵀ dimensionless; λ holds log-diagonal and lower entries of L̃.

    Σ̃ has an inverse-Wishart prior with identity scale and ν = d + 1 + `strength` degrees of
    freedom, so that Σ has the mean S² / strength. "diagonal" gives each coordinate such a prior
    with d = 1 of its own, "isotropic" one to all. "fixed" is known: Σ = root rootᵀ.
    """

    kind: Kind
    scale: Tensor  # S, (d,)
    strength: float
    root: Tensor | None = None

    @classmethod
    def make(cls, kind: object, noise: Tensor, strength: float) -> Covariance:
        """`kind` by name, or a known Σ as a variance or a matrix. `noise` (d,) is the prior's
        guess of the standard deviation of each coordinate."""
        d = len(noise)
        if isinstance(kind, str):
            if kind not in KINDS:
                raise ConfigError(
                    f"covariance is one of {', '.join(KINDS)}, a variance or a matrix; "
                    f"got {kind!r}."
                )
            if kind == "isotropic":
                noise = noise.square().mean().sqrt().expand(d)
            return cls(kind, noise * math.sqrt(strength), strength)  # type: ignore[arg-type]
        matrix = array_of(kind, "covariance")
        matrix = matrix * np.eye(d) if matrix.ndim == 0 else matrix
        if matrix.shape != (d, d) or not np.allclose(matrix, matrix.T):
            raise ConfigError(f"A known covariance must be a number or symmetric ({d}, {d}).")
        try:
            root = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise ConfigError("The known covariance is not positive definite.") from None
        return cls("fixed", noise, strength, torch.as_tensor(root))

    @property
    def d(self) -> int:
        return len(self.scale)

    @property
    def size(self) -> int:
        """Number of unconstrained parameters."""
        d = self.d
        return {"full": d * (d + 1) // 2, "diagonal": d, "isotropic": 1, "fixed": 0}[self.kind]

    def relative(self, free: Tensor) -> Tensor:
        """L̃ (..., d, d) of unconstrained λ (..., size)."""
        d = self.d
        if self.kind == "isotropic":
            return torch.diag_embed(free.expand(*free.shape[:-1], d).exp())
        if self.kind == "diagonal":
            return torch.diag_embed(free.exp())
        return lower_factor(free, d)

    def factor(self, free: Tensor) -> Tensor:
        """L (..., d, d) with Σ = L Lᵀ."""
        if self.root is not None:
            return self.root.expand(*free.shape[:-1], self.d, self.d)
        return self.scale[:, None] * self.relative(free)

    def start(self, residuals: Tensor) -> Tensor:
        """λ for the covariance of given residuals (n, d), shrunk a little toward the prior."""
        if self.kind == "fixed":
            return residuals.new_zeros(0)
        r = residuals / self.scale
        n = len(r)
        sigma = (r.T @ r + torch.eye(self.d, dtype=r.dtype)) / (n + self.strength)
        if self.kind == "isotropic":
            return 0.5 * sigma.diagonal().mean().log()[None]
        if self.kind == "diagonal":
            return 0.5 * sigma.diagonal().log()
        root = torch.linalg.cholesky(sigma)
        below = torch.tril_indices(self.d, self.d, -1)
        return torch.cat([root.diagonal().log(), root[below[0], below[1]]])

    def log_prior(self, free: Tensor) -> Tensor:
        """Log density of λ: inverse Wishart for Σ̃, times the Jacobian of λ → Σ̃."""
        if self.kind == "fixed":
            return free.new_zeros(())
        if self.kind == "full":
            return _log_prior(self.relative(free), free[: self.d], self.strength)
        return sum(
            (_log_prior(x.exp()[None, None], x[None], self.strength) for x in free),
            start=free.new_zeros(()),
        )


def lower_factor(free: Tensor, d: int) -> Tensor:
    """The lower triangle (..., d, d) of its log-diagonal and the entries below: (..., d(d+1)/2)."""
    below = torch.tril_indices(d, d, -1)
    place = torch.zeros(below.shape[1], d, d, dtype=free.dtype)
    place[torch.arange(below.shape[1]), below[0], below[1]] = 1.0
    # A product instead of writing into a tensor: it stays differentiable under torch.func.
    lower = torch.einsum("...k,kij->...ij", free[..., d:], place)
    return torch.diag_embed(free[..., :d].exp()) + lower


def _log_prior(root: Tensor, logs: Tensor, strength: float) -> Tensor:
    d = len(logs)
    nu = d + 1 + strength
    inverse = torch.linalg.solve_triangular(root, torch.eye(d, dtype=root.dtype), upper=False)
    density = -(nu + d + 1) * logs.sum() - 0.5 * inverse.square().sum() - wishart_norm(nu, d)
    # |dΣ/dL| = 2^d Π L_ii^(d - i + 1), and L_ii = exp(λ_i).
    powers = torch.arange(d, 0, -1, dtype=root.dtype) + 1.0
    return density + d * math.log(2.0) + (powers * logs).sum()


def wishart_norm(nu: float, d: int) -> float:
    """log of 2^(νd/2) Γ_d(ν/2): what normalizes an inverse Wishart with identity scale."""
    return 0.5 * nu * d * math.log(2.0) + float(torch.mvlgamma(torch.tensor(nu / 2).double(), d))
