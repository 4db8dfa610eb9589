"""Embeddings on disk, under the hash of everything they were computed from.

A name is the hash of weights, options and data, so an entry is never out of date: other weights
are another name. Entries are plain ``.npy`` arrays, written under a name of their own and renamed
when complete; two processes that compute the same entry at once both leave a whole file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sjepa.storage import writing


# Part of every name; raise it when the same inputs would give other embeddings.
FORMAT = 1


def cache_folder() -> Path:
    """``$SJEPA_CACHE``, or ``sjepa`` in the user's cache folder."""
    chosen = os.environ.get("SJEPA_CACHE")
    if chosen:
        return Path(chosen)
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


def load(folder: Path, name: str) -> np.ndarray | None:
    """The entry, or None if there is none; a damaged one counts as none."""
    try:
        return np.load(folder / f"{name}.npy", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None


def store(folder: Path, name: str, array: np.ndarray) -> None:
    """Make an entry appear, complete or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder / f"{name}.npy") as file:
        np.save(file, array, allow_pickle=False)
