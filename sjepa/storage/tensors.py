"""One file for nested data with tensors: safetensors, with the structure as its metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sjepa.errors import FormatError
from sjepa.storage.files import regular, write_whole
from sjepa.storage.jsonfile import check_version
from sjepa.storage.plain import pack, unpack


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
