"""Any module or TorchScript file as a frozen encoder, and the two baselines of comparisons."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError
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
    """Your own network, frozen: batched, at a layer of choice.

    It is kept on disk only if asked: the hash knows weights and layers, but not the code of
    ``forward``, which you may edit.
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


def torchscript(
    path: str | Path,
    *,
    trust: bool = False,
    pool: str = "mean",
    batch_size: int = 64,
    cached: bool | str | Path = True,
    device: str = "cpu",
) -> Embedder:
    """A network saved by ``torch.jit.save``, called with observations as they are.

    Parameters
    ----------
    path : file
    trust : bool
        Must be True: unlike weights, a TorchScript file is a program, and running the network
        runs it. Say so only for files whose origin you know.
    pool : as in :func:`sjepa.models.pretrained.frozen`
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file; check the path.")
    if not trust:
        raise ConfigError(
            f"{path}: a TorchScript file is a program, and using it runs it. If you know where it "
            "is from, say so with trust=True (--trust on the command line); otherwise ask for "
            "the weights as safetensors."
        )
    try:
        network = torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ConfigError(f"{path}: cannot be read as TorchScript. {reason}") from error
    return Embedder(
        network, path.stem, how=pool, options=f"torchscript {_code(path)}",
        batch_size=batch_size, cached=cached, device=device,
    )  # fmt: skip


def _code(path: Path) -> str:
    """The file itself: what it computes is more than its weights."""
    from hashlib import blake2b

    return blake2b(path.read_bytes(), digest_size=20).hexdigest()
