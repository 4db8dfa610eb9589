"""Frames as a pretrained network wants them: three channels, its size, its normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from sjepa.errors import DataError


@dataclass(frozen=True)
class FrameInput:
    """Turns frames (B, H, W) or (B, C, H, W), or clips of them, into normalised input.

    Parameters
    ----------
    size : (height, width) or None
        Frames are resized to it; None keeps theirs.
    channels : int
        Of the network. Grey frames are repeated; colours are averaged for a grey network.
    mean, std : per channel
    value_range : float, default=1.0
        White. Frames that a loader of ours read are between 0 and 1; bytes need 255.
    clip : bool
        Whether the network takes clips (B, T, C, H, W).
    """

    size: tuple[int, int] | None = None
    channels: int = 3
    mean: Sequence[float] = (0.5, 0.5, 0.5)
    std: Sequence[float] = (0.5, 0.5, 0.5)
    value_range: float = 1.0
    clip: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        frames = self._framed(x)
        lead = frames.shape[: -3 if self.clip else 1]
        frames = self._coloured(frames.flatten(0, -4) / self.value_range)
        if self.size is not None and frames.shape[-2:] != torch.Size(self.size):
            frames = functional.interpolate(
                frames, self.size, mode="bilinear", antialias=True, align_corners=False
            )
        mean, std = (frames.new_tensor(list(v))[:, None, None] for v in (self.mean, self.std))
        frames = (frames - mean) / std
        return frames.reshape(*lead, *frames.shape[1:])

    def _framed(self, x: Tensor) -> Tensor:
        """With an axis of channels: (B, C, H, W), or (B, T, C, H, W) for clips."""
        wanted = 5 if self.clip else 4
        if x.ndim == wanted - 1:
            x = x.unsqueeze(-3)
        if x.ndim != wanted or x.shape[-3] not in (1, 3):
            what = "clips (T, H, W) or (T, C, H, W)" if self.clip else "frames (H, W) or (C, H, W)"
            raise DataError(
                f"The network takes {what} with 1 or 3 channels, got observations of shape "
                f"{tuple(x.shape[1:])}. Channels come first; sjepa.data.read_video sees to that."
            )
        high = float(x.max()) if x.numel() else 0.0
        if high > 2 * self.value_range:
            raise DataError(
                f"Frames reach {high:g} where {self.value_range:g} is white; "
                "divide them by 255, or give the encoder value_range=255."
            )
        return x

    def _coloured(self, frames: Tensor) -> Tensor:
        """(n, C, H, W) with the channels of the network."""
        if frames.shape[1] == self.channels:
            return frames
        if frames.shape[1] == 1:
            return frames.expand(-1, self.channels, -1, -1)
        return frames.mean(1, keepdim=True).expand(-1, self.channels, -1, -1)
