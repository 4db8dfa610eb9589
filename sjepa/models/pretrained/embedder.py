"""Any network as a frozen encoder: at a layer, pooled, in batches, cached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, DataError, did_you_mean, lookup
from sjepa.models.angle import turn
from sjepa.models.pretrained import cache
from sjepa.settings import path_of


def _tokens(features: Tensor) -> Tensor:
    """(B, C, H, W) maps and (B, T, H, W, C) volumes as tokens (B, n, C)."""
    if features.ndim == 4:
        return features.flatten(2).transpose(1, 2)
    if features.ndim > 4:
        return features.flatten(1, -2)
    return features


# Flattening keeps where things are, which is often the state; means keep it only as far as the
# network wrote positions into the tokens.
POOLS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda f: _tokens(f).mean(1),
    "max": lambda f: _tokens(f).amax(1),
    "cls": lambda f: _tokens(f)[:, 0],
    "flatten": lambda f: f.flatten(1),
}


def pooled(features: Tensor, how: str) -> Tensor:
    """(B, ...) to (B, D); what is a vector already stays as it is."""
    return features if features.ndim == 2 else POOLS[how](features)


class LayerTap(nn.Module):
    """A network up to one of its layers, which is found by its name in ``named_modules``."""

    def __init__(self, module: nn.Module, layer: str) -> None:
        super().__init__()
        self.module, self.layer = module, layer
        names = [name for name, _ in module.named_modules() if name]
        if layer not in names:
            raise ConfigError(
                f"The network has no layer {layer!r}.{did_you_mean(layer, names)} "
                f"It has {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}."
            )

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        outputs: list[Any] = []
        target = self.module.get_submodule(self.layer)
        hook = target.register_forward_hook(lambda _m, _i, output: outputs.append(output))
        try:
            self.module(*inputs, **options)
        finally:
            hook.remove()
        if not outputs:
            raise ConfigError(f"Layer {self.layer!r} takes no part in the forward pass.")
        return as_tensor(outputs[-1])


def as_tensor(output: Any) -> Tensor:
    """The main tensor of what a network returned: itself, the first of a tuple, hidden states."""
    if isinstance(output, Tensor):
        return output
    if (hidden := getattr(output, "last_hidden_state", None)) is not None:
        return hidden
    values = list(output.values()) if isinstance(output, Mapping) else output
    if isinstance(values, list | tuple):
        for value in values:
            if isinstance(value, Tensor) and value.is_floating_point():
                return value
    raise ConfigError(f"The network returned a {type(output).__name__} without a tensor in it.")


class Embedder:
    """Observations (n, ...) to embeddings (n, D) by a network that is only ever evaluated.

    Made by :func:`sjepa.models.pretrained.frozen`, for ``SJEPA(encoder=...)``.

    Parameters
    ----------
    network : nn.Module
        Takes a batch (b, ...) in float32.
    name : str
        What it is called in tables.
    how : str
        Pooling of tokens or feature maps; see `POOLS`.
    options : str
        Everything besides weights and data that decides about the embeddings; part of their hash.
    batch_size : int
    cached : bool or folder
        Whether embeddings are kept on disk, in :func:`cache_folder` or in a folder of choice.
    """

    def __init__(
        self,
        network: nn.Module,
        name: str,
        *,
        how: str = "mean",
        options: str = "",
        batch_size: int = 64,
        cached: bool | str | Path = True,
        device: str = "cpu",
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, got {batch_size}.")
        self.network = network.eval().to(device)
        for parameter in network.parameters():  # scripted modules have no requires_grad_
            parameter.requires_grad_(False)
        lookup(POOLS, how, "pool")
        self.name, self.how = name, how
        self.options, self.batch_size, self.device = options, batch_size, device
        self.folder: Path | None = None
        if cached:
            self.folder = cache.cache_folder() if cached is True else path_of(cached, "cached")

    def __repr__(self) -> str:
        return f"<encoder {self.name}>"

    def __call__(self, x: Any) -> np.ndarray:
        """(n, ...) to (n, D), from the disk where it has been computed before."""
        return next(self.many([x]))

    def many(self, series: Iterable[Any]) -> Iterator[np.ndarray]:
        """The same for many trajectories; the weights are hashed once."""
        fingerprint = self.fingerprint() if self.folder is not None else ""
        return (self._one(x, fingerprint) for x in series)

    def fingerprint(self) -> str:
        """The hash of weights and options: what besides the data decides about embeddings."""
        known = [cache.FORMAT, torch.__version__, self.options, self.how]
        return cache.digest([*known, cache.weights_digest(self.network)])

    def _one(self, x: Any, fingerprint: str) -> np.ndarray:
        array = _observations(x)
        if self.folder is None:
            return self._run(array)
        name = cache.digest([fingerprint, array])
        return cache.cached(self.folder, name, lambda: self._run(array)).astype(float)

    @torch.inference_mode()
    def _run(self, array: np.ndarray) -> np.ndarray:
        parts = []
        for start in range(0, len(array), self.batch_size):
            batch = torch.tensor(array[start : start + self.batch_size], device=self.device)
            reference = next(self.network.parameters(), batch)
            features = as_tensor(self.network(batch.to(reference.dtype)))
            if features.ndim < 2 or len(features) != len(batch):
                raise DataError(
                    f"{self.name} turned {len(batch)} observations into an output of shape "
                    f"{tuple(features.shape)}; its first axis must count observations."
                )
            parts.append(pooled(features, self.how).float().cpu())
        return torch.cat(parts).numpy()


def _observations(x: Any) -> np.ndarray:
    """In single precision: what networks compute in, and one hash for equal observations."""
    array = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
    if array.dtype.kind not in "fiub" or array.ndim < 1 or not len(array):
        raise DataError(f"Expected observations (n, ...), got {array.dtype} {array.shape}.")
    return array.astype(np.float32)


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


def encode_all(encoder: Callable[[Any], Any], series: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Embeddings (T, D) of trajectories, by any kind of encoder; angles are unwrapped.

    A module gets tensors in the precision and on the device of its own numbers, any other function
    the arrays as they are.
    """
    if isinstance(encoder, Embedder):
        return [np.asarray(z, dtype=float) for z in encoder.many(series)]
    return [_encode(encoder, x) for x in series]


def _encode(encoder: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    batch: Any = x
    if isinstance(encoder, nn.Module):
        numbers = (*encoder.parameters(), *encoder.buffers())
        reference = next((n for n in numbers if n.is_floating_point()), None)
        batch = torch.as_tensor(x) if reference is None else torch.as_tensor(x).to(reference)
    with torch.no_grad():
        z = encoder(batch)
    z = np.asarray(z.double().cpu() if isinstance(z, Tensor) else z, dtype=float)
    if z.ndim != 2 or len(z) != len(x):
        raise DataError(
            f"The encoder turned a trajectory of shape {x.shape} into {z.shape}; "
            f"expected ({len(x)}, coordinates)."
        )
    period = turn(encoder)
    return z if period is None else np.unwrap(z, period=period, axis=0)
