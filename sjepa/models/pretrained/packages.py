"""Optional packages, imported when asked for."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

import torch

from sjepa.errors import MissingDependency


# Kept alive: torch forgets the declarations of a library object that is gone.
_DECLARED: list[Any] = []


def optional(name: str) -> ModuleType:
    """Import a package of the extra ``vision``, or say how to install it."""
    if importlib.util.find_spec(name) is None:
        raise MissingDependency(
            f"{name} is not installed. Fix: pip install 'sjepa[vision]' (or pip install "
            f"{name.replace('_', '-')})."
        )
    _make_torchvision_importable()
    return importlib.import_module(name)


def _make_torchvision_importable() -> None:
    """Declare two operators that a torchvision built for another torch fails to load.

    The index holds torchvision built for GPUs only. Beside a processor-only torch its compiled
    part does not load, its Python part then stops at declaring shapes for ``nms``, and with it
    everything that imports torchvision: timm always, transformers whenever it is there. None of
    them uses these operators to encode, so declaring that they exist is enough.
    """
    if _DECLARED or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except (RuntimeError, AttributeError) as error:
        if "torchvision::" not in str(error):
            raise
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)
        importlib.import_module("torchvision")
