"""TorchScript files: the one format that is a program."""

from __future__ import annotations

from pathlib import Path

import torch

from sjepa.errors import ConfigError
from sjepa.models.pretrained.embedder import Embedder


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
