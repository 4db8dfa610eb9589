"""The slowly moving target encoder."""

from copy import deepcopy
from typing import Self

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError


class EMATarget(nn.Module):
    """Target encoder E_θ̄: an exponential moving average of the context encoder.

    It gives prediction targets in the same coordinates as the context encoder, never receives
    gradients and always runs in evaluation mode. It holds a copy, not the encoder itself, so a
    model that owns both saves each once.
    """

    def __init__(self, encoder: nn.Module, decay: float = 0.99) -> None:
        super().__init__()
        if not 0.0 <= decay <= 1.0:
            raise ConfigError(f"decay must lie between 0 and 1, got {decay}.")
        self.decay = decay
        self.encoder = deepcopy(encoder).requires_grad_(False)
        self.eval()

    @torch.no_grad()
    def update(self, encoder: nn.Module) -> None:
        """θ̄ <- decay θ̄ + (1 - decay) θ. Buffers, which are not learned, are copied."""
        for mine, theirs in zip(self.encoder.parameters(), encoder.parameters(), strict=True):
            mine.lerp_(theirs, 1.0 - self.decay)
        for buffer, source in zip(self.encoder.buffers(), encoder.buffers(), strict=True):
            buffer.copy_(source)

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode: targets carry no dropout and no latent noise."""
        del mode
        return super().train(False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)
