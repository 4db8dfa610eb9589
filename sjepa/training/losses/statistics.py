"""What the terms share: rows, covariances and masked means."""

import torch
from torch import Tensor


def rows(z: Tensor, at_most: int | None = None) -> Tensor:
    """(..., d) as (n, d), evenly thinned to ``at_most`` rows where a term is quadratic in n."""
    flat = z.reshape(-1, z.shape[-1])
    return flat if at_most is None else flat[:: max(1, -(-len(flat) // at_most))]


def covariance_matrix(z: Tensor) -> Tensor:
    """Covariance of the rows of (..., n, d), divided by n: (..., d, d)."""
    centred = z - z.mean(-2, keepdim=True)
    return centred.mT @ centred / z.shape[-2]


def off_diagonal(matrix: Tensor) -> Tensor:
    """The matrix with its diagonal set to zero."""
    return matrix - torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))


def masked_mean(values: Tensor, mask: Tensor | None, dim: int | None = None) -> Tensor:
    """Mean over the entries where ``mask`` is true; without a mask over all of them."""
    if mask is None:
        return values.mean(dim)
    mask = mask.expand_as(values)
    return torch.where(mask, values, 0.0).sum(dim) / mask.sum(dim).clamp(min=1)
