"""Somebody's trained network as a frozen encoder: loaded from local files, batched, cached.

>>> from sjepa import encoders
>>> encoder = encoders.huggingface("models/dinov2-small", pool="mean")  # doctest: +SKIP
>>> sjepa.SJEPA(encoder=encoder, head="slow").fit(frames, t)  # doctest: +SKIP
"""

from sjepa.encoders.cache import cache_folder, clear_cache
from sjepa.encoders.embedder import Embedder
from sjepa.encoders.heads import HEADS, fit_head
from sjepa.encoders.hub import huggingface
from sjepa.encoders.image_models import timm
from sjepa.encoders.plain import frozen, pixels, random_cnn
from sjepa.encoders.scripted import torchscript
from sjepa.encoders.spec import from_text
from sjepa.encoders.texts import sentence_transformers


__all__ = [
    "HEADS",
    "Embedder",
    "cache_folder",
    "clear_cache",
    "fit_head",
    "from_text",
    "frozen",
    "huggingface",
    "pixels",
    "random_cnn",
    "sentence_transformers",
    "timm",
    "torchscript",
]
