"""Other views of the same frames, for the invariance term: what should not change the state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.errors import ConfigError


@dataclass(frozen=True)
class FrameAugmentation:
    """White noise, a shift by a few pixels, and a change of brightness, at random.

    Frames are the last two axes. Each trajectory of a batch (first axis) gets one shift and one
    brightness for all its frames: a camera that shakes from frame to frame would look like
    motion. Shifts repeat the border. They make coordinates blind to where the whole scene is, so
    leave them at 0 when position in the frame is the state.

    Parameters
    ----------
    noise : float
        Standard deviation, in units of the frames.
    shift : int
        Largest shift in pixels, in both directions.
    brightness : float
        Frames are multiplied by a number within this share of 1.
    """

    noise: float = 0.012
    shift: int = 0
    brightness: float = 0.0

    def __post_init__(self) -> None:
        if self.noise < 0 or self.shift < 0 or not 0 <= self.brightness < 1:
            raise ConfigError(
                f"noise and shift must not be negative and brightness lies in [0, 1), got {self}."
            )

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, ..., H, W) to the same shape."""
        place = generator.device if generator is not None else x.device
        if self.shift:
            x = _shifted(x, self.shift, generator)
        if self.brightness:
            draw = torch.rand(len(x), generator=generator, dtype=x.dtype, device=place)
            factor = 1 + self.brightness * (2 * draw.to(x.device) - 1)
            x = x * factor.reshape(-1, *[1] * (x.ndim - 1))
        if self.noise:
            draw = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=place)
            x = x + self.noise * draw.to(x.device)
        return x


def _shifted(x: Tensor, max_shift: int, generator: torch.Generator | None) -> Tensor:
    height, width = x.shape[-2:]
    place = generator.device if generator is not None else x.device
    moves = torch.randint(-max_shift, max_shift + 1, (len(x), 2), generator=generator, device=place)
    down = (torch.arange(height) - moves.cpu()[:, :1]).clamp(0, height - 1).to(x.device)
    right = (torch.arange(width) - moves.cpu()[:, 1:]).clamp(0, width - 1).to(x.device)
    return torch.stack(
        [frames[..., d, :][..., r] for frames, d, r in zip(x, down, right, strict=True)]
    )
