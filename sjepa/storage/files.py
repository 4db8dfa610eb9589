"""Bytes on disk: a reader meets the old file or the new one, never half of one."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from sjepa.errors import FormatError, OutputError


UNFINISHED = ".unfinished"


def write_whole(path: Path, data: bytes) -> None:
    """Write beside `path`, flush to the disk, then rename: survives a kill at any moment."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written ({error.strerror or error}); make room, or write elsewhere."
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove the drafts that a killed process left behind."""
    for draft in folder.glob(f".*{UNFINISHED}"):
        if draft.is_file() and not draft.is_symlink():
            draft.unlink(missing_ok=True)


def regular(path: Path) -> int:
    """Size of a plain file; pipes, devices and folders are refused before they are opened."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise FormatError(f"{path} is missing.") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read ({error}).") from None
    if not stat.S_ISREG(found.st_mode):
        raise FormatError(f"{path} is not a plain file.")
    return found.st_size


def read_bounded(path: Path, most: int) -> bytes:
    """The bytes of a plain file of at most so many bytes."""
    if (size := regular(path)) > most:
        raise FormatError(f"{path} has {size} bytes, more than such a file can have ({most}).")
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror or error}).") from None
