"""One vector per observation, whatever a network returns, and from whichever layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from sjepa.errors import ConfigError, did_you_mean


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


def pool(features: Tensor, how: str) -> Tensor:
    """(B, ...) to (B, D); what is a vector already stays as it is."""
    return features if features.ndim == 2 else POOLS[how](features)


def check_pool(how: str) -> str:
    if how not in POOLS:
        raise ConfigError(
            f"pool is one of {', '.join(POOLS)}; got {how!r}.{did_you_mean(how, POOLS)}"
        )
    return how


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
