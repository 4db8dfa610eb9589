"""A pretrained network as a frozen encoder: batched, cached, with a head that reads coordinates.

>>> from sjepa.models import pretrained
>>> encoder = pretrained.frozen(network, layer="blocks.3", cached=True)  # doctest: +SKIP
>>> sjepa.SJEPA(encoder=pretrained.ReadOut(encoder, "slow")).fit(frames, t)  # doctest: +SKIP
"""

from sjepa.models.pretrained.cache import cache_folder, clear_cache
from sjepa.models.pretrained.embedder import Embedder, frozen, pixels
from sjepa.models.pretrained.heads import HEADS, ReadOut, fit_head


__all__ = [
    "HEADS",
    "Embedder",
    "ReadOut",
    "cache_folder",
    "clear_cache",
    "fit_head",
    "frozen",
    "pixels",
]
