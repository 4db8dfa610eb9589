"""Blurring of frames: without it a small moving object is a thousand unrelated pixels.

Each position of a sharp blob is a direction of its own, so principal components are many and
in no order. Blurred, the same motion is a few smooth components, coarse ones first, and a
linear read-out of them can be the position. White noise averages out on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.models.layers import ObsShape, as_shape, check_observations


# Frames are smooth enough when this many components carry this share of their variance.
COMPONENTS, SHARE = 20, 0.97
# Widths to try, as shares of the shorter side, and the frames they are judged by.
WIDTHS = (1 / 24, 1 / 12, 1 / 6)
FRAMES = 800
MIN_SIDE = 16


class Blur(nn.Module):
    """A Gaussian of `width` pixels over the last two axes, then every k-th pixel.

    (..., *obs) with obs = (..., H, W) to (..., *obs) with fewer pixels. Linear, so that a
    linear encoder behind it stays linear. Near the border the Gaussian is truncated and
    renormalized.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, obs_shape: ObsShape, width: float) -> None:
        super().__init__()
        self.obs_shape, self.width = as_shape(obs_shape), float(width)
        stride = max(1, int(width / 1.3))
        height, across = self.obs_shape[-2:]
        self.register_buffer("rows", _weights(height, width, stride))
        self.register_buffer("columns", _weights(across, width, stride))

    def forward(self, x: Tensor) -> Tensor:
        check_observations(x, self.obs_shape)
        return self.rows.to(x.dtype) @ x @ self.columns.to(x.dtype).T


def _weights(size: int, width: float, stride: int) -> Tensor:
    """(kept, size): each row is a Gaussian around one of the kept pixels."""
    place = torch.arange(size, dtype=torch.float64)
    kernel = torch.exp(-((place[::stride, None] - place) ** 2) / (2 * width**2))
    return kernel / kernel.sum(1, keepdim=True)


def choose_blur(series: Sequence[np.ndarray]) -> Blur | None:
    """The least blur that makes videos (T, ..., H, W) smooth; None if none is needed."""
    shape = series[0].shape[1:]
    if len(shape) < 2 or min(shape[-2:]) < MIN_SIDE:
        return None
    total = sum(map(len, series))
    stride = max(1, total // FRAMES)
    frames = torch.as_tensor(np.concatenate([x[::stride] for x in series])).double()
    best, highest = None, _leading_share(frames)
    for share in WIDTHS:
        if highest >= SHARE:
            break
        blur = Blur(shape, share * min(shape[-2:]))
        share_blurred = _leading_share(blur(frames))
        if share_blurred > highest:
            best, highest = blur, share_blurred
    return best


def _leading_share(frames: Tensor) -> float:
    rows = frames.flatten(1)
    centered = rows - rows.mean(0)
    gram = centered @ centered.T if len(rows) < rows.shape[1] else centered.T @ centered
    values = torch.linalg.eigvalsh(gram).clamp_min(0).flip(0)
    total = float(values.sum())
    return float(values[:COMPONENTS].sum()) / total if total > 0 else 1.0
