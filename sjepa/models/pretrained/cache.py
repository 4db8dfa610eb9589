"""Embeddings on disk, under the hash of everything they were computed from.

A name is the hash of weights, options and data, so an entry is never out of date: other weights
are another name. Entries are ``.npy`` arrays with a checksum behind them, and appear when complete;
two processes that compute the same entry at once both leave a whole file.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sjepa.errors import FormatError, NumericalWarning
from sjepa.storage import read_bounded, write_whole


# Part of every name; raise it when the same inputs would give other embeddings.
FORMAT = 2
# Bytes of the checksum, and of the largest entry that is read.
SEAL, MAX_BYTES = 32, 2**33


def cache_folder() -> Path:
    """``$SJEPA_CACHE``, or ``sjepa`` in the user's cache folder."""
    folder = os.environ.get("SJEPA_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sjepa"


def clear_cache(folder: Path | None = None) -> int:
    """Delete every cached embedding; returns how many there were."""
    entries = list((folder or cache_folder()).glob("*.npy"))
    for entry in entries:
        entry.unlink(missing_ok=True)
    return len(entries)


def digest(parts: Sequence[object]) -> str:
    """One name for texts and arrays together; shape and type of an array count."""
    name = hashlib.blake2b(digest_size=20)
    for part in parts:
        if isinstance(part, np.ndarray):
            head = f"array {part.dtype} {part.shape}"
            body: bytes | memoryview = np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        else:
            head, body = "text", str(part).encode()
        name.update(f"{head} {len(body)}\n".encode())
        name.update(body)
    return name.hexdigest()


def weights_digest(module: nn.Module) -> str:
    """The architecture as torch prints it, and every number in it."""
    parts: list[object] = [type(module).__qualname__, repr(module)]
    for key, value in sorted(module.state_dict().items()):
        # As bytes: numpy does not know every number format that torch has.
        numbers = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        parts += [key, f"{value.dtype} {tuple(value.shape)}", numbers.numpy()]
    return digest(parts)


def cached(folder: Path, name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """The entry of this name; computed and kept if there is none, or none that can be trusted."""
    path = folder / f"{name}.npy"
    if os.path.lexists(path):
        try:
            return _load(path)
        except (FormatError, ValueError, EOFError) as error:
            _warn(f"A cached embedding cannot be used and is computed again: {error!s:.200}")
    array = compute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _store(path, array)
    except OSError as error:
        _warn(f"Embeddings cannot be kept in {folder} ({error!s:.200}); see SJEPA_CACHE.")
    return array


def _load(path: Path) -> np.ndarray:
    content = read_bounded(path, MAX_BYTES)
    array, seal = content[:-SEAL], content[-SEAL:]
    if seal != _seal(path, array):
        raise FormatError(f"{path} is damaged, or an entry of another name.")
    return np.asarray(np.load(io.BytesIO(array), allow_pickle=False))


def _store(path: Path, array: np.ndarray) -> None:
    memory = io.BytesIO()
    np.save(memory, array, allow_pickle=False)
    content = memory.getvalue()
    write_whole(path, content + _seal(path, content))


def _seal(path: Path, content: bytes) -> bytes:
    """A checksum of name and content: an entry under another name is as bad as a flipped bit."""
    return hashlib.blake2b(
        content, digest_size=SEAL, person=b"sjepa", key=path.stem.encode()
    ).digest()


def _warn(message: str) -> None:
    warnings.warn(message, NumericalWarning, stacklevel=4)
