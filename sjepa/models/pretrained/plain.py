"""Any module as a frozen encoder, and the two baselines of comparisons."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from sjepa.models import make_encoder
from sjepa.models.pretrained.embedder import Embedder
from sjepa.models.pretrained.pooling import LayerTap


def frozen(
    module: nn.Module,
    *,
    layer: str | None = None,
    pool: str = "mean",
    name: str | None = None,
    batch_size: int = 64,
    cached: bool | str | Path = False,
    device: str = "cpu",
) -> Embedder:
    """Any network, frozen: batched, at a layer of choice, pooled to one vector per observation.

    It gets observations (b, ...) in float32. Put what it needs before that into the module, as in
    ``nn.Sequential(resize, network)``; docs/howto/images.md does so for Hugging Face, timm and
    sentence-transformers models.

    Parameters
    ----------
    layer : str, optional
        Name of a submodule in ``named_modules``; by default what the network returns.
    pool : "mean", "cls", "max" or "flatten"
        How tokens or feature maps become one vector.
    cached : bool or folder
        Whether embeddings are kept on disk. Off by default: their hash knows weights and layers,
        but not the code of ``forward``, which you may edit.
    """
    network = module if layer is None else LayerTap(module, layer)
    called = name or type(module).__name__
    return Embedder(
        network, called, how=pool, options=f"frozen {layer}", batch_size=batch_size,
        cached=cached, device=device,
    )  # fmt: skip


def pixels() -> Embedder:
    """Every value of an observation, as it is: with a head, principal components of pixels."""
    return Embedder(nn.Flatten(), "pixels", how="flatten", batch_size=4096, cached=False)


def random_cnn(seed: int = 0, features: int = 64) -> Embedder:
    """A convolutional network that was never trained: what architecture alone is worth."""
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
