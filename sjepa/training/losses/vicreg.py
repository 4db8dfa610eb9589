"""The paper's own representation terms: invariance, variance, covariance and mean."""

import torch
from torch import Tensor

from sjepa.training.losses.admissibility import covariance_matrix, off_diagonal, rows


def invariance(view_a: Tensor, view_b: Tensor) -> Tensor:
    """L_inv: mean squared difference between two augmented views of the same observations.

    Makes z insensitive to the augmentation. Constant embeddings satisfy it perfectly.
    """
    return (view_a - view_b).square().mean()


def variance(z: Tensor, target: float = 1.0, floor: float = 1e-4) -> Tensor:
    """L_var: how far each coordinate's standard deviation falls short of ``target``.

    Blocks the constant-embedding shortcut and fixes the scale of z from below. It does not see
    copies of one coordinate, coordinates that are constant along every trajectory, or folded
    states. ``floor`` keeps the gradient finite at exact collapse, where it is zero: the term
    keeps embeddings from collapsing but cannot restart ones that are identical.
    """
    std = (rows(z).var(0, correction=0) + floor).sqrt()
    return torch.relu(target - std).mean()


def covariance(z: Tensor) -> Tensor:
    """L_cov: squared off-diagonal covariances, summed and divided by d.

    Discourages linearly redundant coordinates. Nonlinear copies (E and a decorrelated function
    of E) pass, and shrinking z lowers it, so it needs the variance term beside it.
    """
    return off_diagonal(covariance_matrix(rows(z))).square().sum() / z.shape[-1]


def mean(z: Tensor) -> Tensor:
    """L_mean: squared mean of each coordinate, averaged. Centers z; prevents nothing else."""
    return rows(z).mean(0).square().mean()
