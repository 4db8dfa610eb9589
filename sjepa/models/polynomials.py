"""Polynomial encoders of whitened observations: nonlinear, but linear in their weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb

import torch
from torch import Tensor, nn


# A monomial that adds less than this share of its own spread to the others is left out.
REDUNDANT = 1e-4
# High degrees swing where data are rare, so their curvature weight is higher.
ROUGHNESS = 2


class PolynomialEncoder(nn.Module):
    """z = b + W p(x), where p are monomials of x (..., rank), orthonormal on the data they saw.

    The first `rank` of p span the linear functions of x.
    """

    factors: Tensor
    mean: Tensor
    matrix: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, rank: int, latent_dim: int, features: int, degree: int) -> None:
        super().__init__()
        self.rank = rank
        # Monomial k is the product of the components factors[k]; one past the last stands for 1.
        factors = torch.full((features, degree), rank, dtype=torch.long)
        self.register_buffer("factors", factors)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("matrix", torch.eye(features))
        self.register_buffer("low", torch.full((rank,), -torch.inf))
        self.register_buffer("high", torch.full((rank,), torch.inf))
        self.linear = nn.Linear(features, latent_dim)

    @classmethod
    def of(cls, x: Tensor, latent_dim: int, degree: int) -> PolynomialEncoder:
        """The monomials up to a weighted degree that are independent on rows x (n, rank).

        The leading components weigh one. Observations of d coordinates lie on a curved surface:
        the next d (d + 1) / 2 components are about the squares and products of the first and
        weigh two, as many as there are cubic monomials weigh three, and so on.
        """
        rank = x.shape[1]
        weights: list[int] = []
        while len(weights) < rank:
            order = weights[-1] + 1 if weights else 1
            weights += [order] * comb(latent_dim + order - 1, order)
        rows = [(i, *[rank] * (degree - 1)) for i in range(rank)]
        rows += [
            (*product, *[rank] * (degree - size))
            for size in range(2, degree + 1)
            for product in light_products(weights[:rank], size, degree)
        ]
        factors = torch.tensor(rows)
        values = _monomials(x, factors)
        values = (values - values.mean(0)) / values.std(0).clamp_min(1e-300)
        added = values.new_zeros(len(rows))  # there may be fewer rows than monomials
        triangle = torch.linalg.qr(values)[1].diagonal()
        added[: len(triangle)] = triangle.abs() / len(x) ** 0.5
        independent = (added > REDUNDANT) | (torch.arange(len(rows)) < rank)
        encoder = cls(rank, latent_dim, int(independent.sum()), degree).to(x.dtype)
        values = _monomials(x, factors[independent])
        mean, spread = values.mean(0), values.std(0).clamp_min(1e-300)
        triangle = torch.linalg.qr((values - mean) / spread)[1] / len(x) ** 0.5
        encoder.factors.copy_(factors[independent])
        encoder.mean.copy_(mean)
        encoder.matrix.copy_(torch.linalg.inv(triangle) / spread[:, None])
        encoder.low.copy_(x.amin(0))
        encoder.high.copy_(x.amax(0))
        return encoder

    def check(self) -> None:
        """Refuse monomials of components that there are not: numbers may come from a file."""
        factors = self.factors
        if factors.dtype != torch.long or bool(((factors < 0) | (factors > self.rank)).any()):
            raise ValueError(f"a factor is not one of {self.rank} components")

    def features(self, x: Tensor) -> Tensor:
        """p(x) (..., features); outside the training range only the linear ones extrapolate."""
        inside = _monomials(x.clamp(self.low, self.high), self.factors[self.rank :])
        return (torch.cat([x, inside], dim=-1) - self.mean) @ self.matrix

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.features(x))

    @torch.no_grad()
    def imitate(self, x: Tensor, z: Tensor) -> PolynomialEncoder:
        """Take the numbers that give rows x (n, rank) coordinates nearest to z (n, d)."""
        p = torch.cat([self.features(x), torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
        # Nearly orthonormal, so that sums do; LAPACK's lstsq differs from call to call.
        numbers = torch.linalg.solve(p.T @ p, p.T @ z)
        self.linear.weight.copy_(numbers[:-1].T)
        self.linear.bias.copy_(numbers[-1])
        return self

    @property
    def curvature(self) -> Tensor:
        """Curvature weight of each feature of p: zero for linear ones, cubes more than squares."""
        degree = (self.factors < self.rank).sum(1)
        return (degree - 1.0).to(self.mean) ** ROUGHNESS

    def curvature_penalty(self) -> Tensor:
        """Curvature of each coordinate (d,): shares of its variance, weighted by `curvature`."""
        size = self.linear.weight.detach().square()
        return (size * self.curvature).sum(1) / size.sum(1).clamp_min(1e-300)


def light_products(
    weights: Sequence[int], size: int, max_degree: int, first: int = 0
) -> Iterator[tuple[int, ...]]:
    """Ascending choices of `size` factors from `first` on that weigh at most `max_degree` together.

    Of 40 components there are millions of choices of seven, and hardly any of them is light enough.
    """
    if size == 0:
        yield ()
        return
    for i in range(first, len(weights)):
        if size * weights[i] > max_degree:  # weights ascend
            return
        for rest in light_products(weights, size - 1, max_degree - weights[i], i):
            yield (i, *rest)


def _monomials(x: Tensor, factors: Tensor) -> Tensor:
    padded = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
    values = padded[..., factors[:, 0]]
    for column in factors.T[1:]:
        values = values * padded[..., column]
    return values
