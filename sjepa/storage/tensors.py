"""One file for nested data with tensors: safetensors, with the structure as its metadata."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sjepa.errors import FormatError
from sjepa.storage.files import regular, write_whole
from sjepa.storage.jsonfile import check_version


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


def write_state(path: Path, kind: str, version: int, state: Any) -> bytes:
    """Write nested plain data and tensors as one file; returns the bytes."""
    from safetensors.torch import save

    text, tensors = pack(state)
    about = {"format": kind, "version": version, "digest": _digest(text, tensors), "state": text}
    # One entry: several would be written in a different order every time.
    content = save(tensors, {"sjepa": json.dumps(about)})
    write_whole(path, content)
    return content


def read_state(path: Path, kind: str, version: int) -> Any:
    """Read what :func:`write_state` wrote; a flipped bit or a missing byte is noticed."""
    from safetensors import SafetensorError, safe_open

    if not regular(path):
        raise FormatError(f"{path} is damaged: it is empty.")
    try:
        with safe_open(str(path), "pt") as file:
            about = json.loads((file.metadata() or {}).get("sjepa", "null"))
            if not isinstance(about, dict) or about.get("format") != kind:
                raise FormatError(f"{path} is not a {kind} file; nothing was read from it.")
            check_version(path, about.get("version"), version)
            # Copies: where numbers lie in memory decides how matrix products round their last bit.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}
    except FormatError:
        raise
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:100]
        raise FormatError(f"{path} is damaged or not a safetensors file ({reason}).") from None
    text = about.get("state")
    if not isinstance(text, str) or about.get("digest") != _digest(text, tensors):
        raise FormatError(f"{path} is damaged: its contents do not match their checksum.")
    try:
        return unpack(text, tensors)
    except FormatError as error:
        raise FormatError(f"{path} is damaged: {error}.") from None


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
