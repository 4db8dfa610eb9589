"""Nested plain data with tensors in it, as JSON text and a flat table of tensors.

Numbers, texts, lists, tuples and dictionaries come back as they were, also not-a-number, whole
numbers as keys, and tensors to the last bit. Anything else is refused when it is written, so
that nothing has to be executed to read it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sjepa.errors import FormatError


def pack(data: Any) -> tuple[str, dict[str, Tensor]]:
    """JSON text, and the tensors it refers to by name."""
    tensors: dict[str, Tensor] = {}
    return json.dumps(_encode(data, tensors), allow_nan=False), tensors


def unpack(text: str, tensors: Mapping[str, Tensor]) -> Any:
    """The data that :func:`pack` was given."""
    try:
        return _decode(json.loads(text), tensors)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"its contents cannot be read ({' '.join(str(error).split())[:80]})")  # noqa: B904


def _encode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Tensor):
        name = str(len(tensors))
        # A copy of its own: views and broadcast numbers share or lack storage.
        tensors[name] = torch.empty(value.shape, dtype=value.dtype).copy_(value.detach())
        return {"tensor": name}
    if isinstance(value, list):
        return [_encode(v, tensors) for v in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(v, tensors) for v in value]}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str | int) or isinstance(key, bool):
                raise FormatError(f"A key of type {type(key).__name__} is not plain data.")
        return {"dict": [[k, _encode(v, tensors)] for k, v in value.items()]}
    raise FormatError(f"A {type(value).__name__} is not plain data and cannot be stored.")


def _decode(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise FormatError("its contents are not of this format")
    ((tag, body),) = value.items()
    if tag == "tensor" and isinstance(body, str) and body in tensors:
        return tensors[body]
    if tag == "float" and body in ("nan", "inf", "-inf"):
        return float(body)
    if tag == "tuple" and isinstance(body, list):
        return tuple(_decode(v, tensors) for v in body)
    if tag == "dict" and isinstance(body, list) and all(map(_is_item, body)):
        return {k: _decode(v, tensors) for k, v in body}
    raise FormatError("its contents are not of this format")


def _is_item(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], str | int)
