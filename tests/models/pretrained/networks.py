"""A tiny network with random weights, and frames for it."""

import numpy as np
import torch
from torch import nn


SIDE = 16


def frames(n: int = 5, seed: int = 0, channels: tuple[int, ...] = ()) -> np.ndarray:
    return np.random.default_rng(seed).random((n, *channels, SIDE, SIDE)).astype(np.float32)


def transformer(seed: int = 0) -> nn.Sequential:
    """Gray frames (b, H, W) to tokens (b, 4, 24)."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE)),
        nn.Conv2d(1, 24, 8, stride=8),
        nn.Flatten(2),
        nn.Linear(4, 4),
        Transposed(),
        nn.TransformerEncoderLayer(24, 2, 32, batch_first=True),
    ).eval()


class Transposed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


def count_passes(model: nn.Module) -> list[int]:
    """A list that grows by one with every forward pass of the network itself."""
    passes: list[int] = []
    model.register_forward_hook(lambda *_: passes.append(1))
    return passes
