"""The baseline of what an architecture alone is worth: a convolutional network never trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sjepa.models import make_encoder
from sjepa.models.pretrained import Embedder


def random_cnn(seed: int = 0, features: int = 64) -> Embedder:
    return Embedder(_RandomCNN(seed, features), f"random-cnn {seed}", cached=False)


class _RandomCNN(nn.Module):
    """Built at the first frame, when its size is known; the seed decides about the weights."""

    def __init__(self, seed: int, features: int) -> None:
        super().__init__()
        self.seed, self.features = seed, features
        self.network: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.network is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self.network = make_encoder("cnn", tuple(x.shape[1:]), self.features).eval()
            self.network.requires_grad_(False)
        return self.network(x)
