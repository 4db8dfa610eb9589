"""A measured affine read-out."""

import torch
from torch import Tensor, nn


class AffineHead(nn.Module):
    """An affine map (..., D) -> (..., d) that was measured, not trained, and what it keeps."""

    mean: Tensor
    matrix: Tensor

    def __init__(self, size: int, dim: int, note: str = "") -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("matrix", torch.zeros(size, dim, dtype=torch.float64))
        self.note = note

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.mean) - self.mean) @ self.matrix
