"""A pretrained network as a frozen encoder: loaded from local files, batched, cached.

>>> from sjepa.models import pretrained
>>> encoder = pretrained.huggingface("models/dinov2-small", pool="mean")  # doctest: +SKIP
>>> sjepa.SJEPA(encoder=encoder, head="slow").fit(frames, t)  # doctest: +SKIP
"""

from sjepa.models.pretrained.cache import cache_folder, clear_cache
from sjepa.models.pretrained.embedder import Embedder
from sjepa.models.pretrained.heads import HEADS, fit_head
from sjepa.models.pretrained.hub import huggingface
from sjepa.models.pretrained.image_models import timm
from sjepa.models.pretrained.plain import frozen, pixels, random_cnn, torchscript
from sjepa.models.pretrained.spec import from_text
from sjepa.models.pretrained.texts import sentence_transformers


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
