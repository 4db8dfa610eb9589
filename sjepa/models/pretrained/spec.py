"""Encoders named in one line of text, as on the command line."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from sjepa.errors import ConfigError, did_you_mean
from sjepa.models.pretrained.embedder import Embedder
from sjepa.models.pretrained.hub import huggingface
from sjepa.models.pretrained.image_models import timm
from sjepa.models.pretrained.plain import pixels, random_cnn, torchscript


KINDS = ("pixels", "random-cnn", "huggingface", "timm", "torchscript")

_NUMBERS = {"layer", "size", "batch_size", "seed", "features", "img_size"}


def from_text(text: str, *, trust: bool = False) -> Embedder:
    """Read ``kind``, ``kind:where`` or ``kind:where?option=value&option=value``.

    ======================================  ===================================================
    ``pixels``                              the observations themselves
    ``random-cnn?seed=1``                   an untrained convolutional network
    ``huggingface:models/vit?layer=-2``     a folder with config.json and model.safetensors
    ``timm:vit_tiny_patch16_224?weights=f`` an architecture with weights from a file
    ``torchscript:network.pt``              needs `trust`, since the file is a program
    ======================================  ===================================================
    """
    kind, _, rest = text.partition(":") if ":" in text else text.partition("?")
    where, _, query = rest.partition("?") if ":" in text else ("", "", rest)
    options: dict[str, Any] = {k: _value(k, v) for k, v in parse_qsl(query)}
    if kind not in KINDS:
        raise ConfigError(
            f"{text!r}: an encoder is one of {', '.join(KINDS)}.{did_you_mean(kind, KINDS)}"
        )
    if kind in ("huggingface", "timm", "torchscript") and not where:
        raise ConfigError(f"{text!r}: say which, as in {kind}:{_EXAMPLES[kind]}.")
    try:
        if kind == "pixels":
            return pixels(**options)
        if kind == "random-cnn":
            return random_cnn(**options)
        if kind == "huggingface":
            return huggingface(where, **options)
        if kind == "timm":
            return timm(where, **options)
        return torchscript(where, trust=trust, **options)
    except TypeError as error:
        raise ConfigError(f"{text!r}: {str(error).replace('()', '')}.") from error


_EXAMPLES = {
    "huggingface": "models/vit",
    "timm": "vit_tiny_patch16_224",
    "torchscript": "network.pt",
}


def _value(key: str, text: str) -> Any:
    """Counts are numbers where they look like it; a layer may be a name."""
    if key == "value_range":
        return float(text)
    if key in _NUMBERS and text.lstrip("-").isdigit():
        return int(text)
    return text
