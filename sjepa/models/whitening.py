"""Whitening: put the directions in which observations vary on an equal footing."""

from typing import Self

import torch
from torch import Tensor, nn

from sjepa.errors import DataError
from sjepa.models.layers import ObsShape, as_shape, flatten_observations


# Above this many observed values the covariance matrix is no longer cheap to diagonalize.
EXACT_UP_TO = 1024
# Principal components settle long before this many rows; more only cost memory.
MAX_ROWS = 20_000


class Whitening(nn.Module):
    """Center observations, keep their leading principal components, scale each to variance 1.

    (..., *obs) -> (..., rank). Put it in front of an encoder::

        whitening = Whitening.fit(x, obs_shape=32)
        encoder = nn.Sequential(whitening, make_encoder("linear", whitening.rank, 2))

    Mean and matrix are buffers: saved with the model, never trained. `unit` is what each value was
    divided by before the components were found; the matrix contains it, so it is not saved.
    """

    mean: Tensor
    matrix: Tensor
    unit: Tensor

    def __init__(self, obs_shape: ObsShape, rank: int) -> None:
        super().__init__()
        self.obs_shape = as_shape(obs_shape)
        size = torch.Size(self.obs_shape).numel()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("matrix", torch.eye(size, rank))
        self.register_buffer("unit", torch.ones(size), persistent=False)

    @property
    def rank(self) -> int:
        """How many components are kept; the ``obs_shape`` of the encoder behind."""
        return self.matrix.shape[1]

    @classmethod
    def fit(
        cls,
        x: Tensor,
        obs_shape: ObsShape,
        explained: float = 0.999,
        rank: int | None = None,
        max_rank: int = 64,
        unit: Tensor | None = None,
    ) -> Self:
        """Measure mean and components on observations (..., *obs), thinned if there are many.

        Parameters
        ----------
        explained : float, default=0.999
            Keep the fewest components that carry this share of the variance.
        rank : int, optional
            Keep exactly this many instead (fewer if the data have fewer).
        max_rank : int, default=64
            Never keep more.
        unit : Tensor, optional
            What one step of each observed value is, such as its noise; by default all are 1.
        """
        shape = as_shape(obs_shape)
        rows = flatten_observations(x.detach(), shape).flatten(0, -2)  # (n, size)
        rows = rows[:: max(1, -(-len(rows) // MAX_ROWS))].double()
        if not len(rows) or not rows.isfinite().all():
            raise DataError("Whitening needs finite observations; drop or fill NaN and inf.")
        mean = rows.mean(0)
        unit = torch.ones_like(mean) if unit is None else unit.to(mean).flatten()
        centered = (rows - mean) / unit
        total = centered.square().sum() / len(rows)
        if total <= 0:
            raise DataError("Whitening needs observations that vary; all of them are equal.")
        variance, axes = _principal_components(centered, min(max_rank, *centered.shape))
        # Components at rounding level are noise that whitening would blow up to unit variance.
        variance = variance[variance > 1e-12 * total]
        if rank is None:
            rank = int((variance.cumsum(0) < explained * total).sum()) + 1
        rank = min(rank, len(variance))
        dtype = x.dtype if x.is_floating_point() else None
        whitening = cls(shape, rank).to(x.device, dtype)
        whitening.mean.copy_(mean)
        whitening.unit.copy_(unit)
        whitening.matrix.copy_(axes[:, :rank] / variance[:rank].sqrt() / unit[:, None])
        return whitening

    @property
    def directions(self) -> Tensor:
        """Orthogonal directions (size, rank) in the unit of each value, each over its spread."""
        return self.unit[:, None] * self.matrix

    def restricted(self, components: list[int]) -> Self:
        """The same with some of the components."""
        fewer = type(self)(self.obs_shape, len(components)).to(self.mean.device, self.mean.dtype)
        fewer.mean.copy_(self.mean)
        fewer.unit.copy_(self.unit)
        fewer.matrix.copy_(self.matrix[:, components])
        return fewer

    def forward(self, x: Tensor) -> Tensor:
        return (flatten_observations(x, self.obs_shape) - self.mean) @ self.matrix


def _principal_components(centered: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Largest variances (count,), descending, and their directions (size, count)."""
    n, size = centered.shape
    if size <= EXACT_UP_TO:
        variance, axes = torch.linalg.eigh(centered.T @ centered / n)
        return variance.flip(0)[:count], axes.flip(1)[:, :count]
    # Subspace iteration from a fixed start: the same data give the same components.
    generator = torch.Generator().manual_seed(0)
    extra = min(count + 10, n, size)
    start = torch.randn(size, extra, generator=generator, dtype=centered.dtype).to(centered.device)
    basis = torch.linalg.qr(start).Q
    for _ in range(6):
        basis = torch.linalg.qr(centered.T @ (centered @ basis)).Q
    _, singular, right = torch.linalg.svd(centered @ basis, full_matrices=False)
    return singular[:count].square() / n, (basis @ right.T)[:, :count]
