"""Bytes on disk: a reader meets the old file or the new one, never half of one.

What others put into a folder is not trusted: links are not followed, and pipes and devices, which
may never end, are refused before anything waits for them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from sjepa.errors import FormatError, OutputError


UNFINISHED = ".unfinished"
# Windows has neither links to fear here nor these flags.
_GUARDED = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)  # fmt: skip


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name once it is complete and on the disk: survives a kill at any time.

    A link under that name is replaced, not followed.
    """
    draft = _draft(path)
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written ({error.strerror or error}); make room, or write elsewhere."
        ) from error
    finally:
        discard(draft)
    flush_folder(path.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write these bytes as a whole file."""
    with writing(path) as file:
        file.write(data)


@contextmanager
def writing_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `folder` once it is complete."""
    draft = _draft(folder.absolute())
    old = draft.with_name(draft.name + ".old")
    try:
        draft.mkdir()
        yield draft
        if folder.exists():
            os.replace(folder, old)
        try:
            os.replace(draft, folder)
        except BaseException:
            if old.exists():  # better the old one than none
                os.rename(old, folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written ({error.strerror or error}); choose another place."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    flush_folder(draft.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, if they are not there, and make their names durable."""
    new = [p for p in (folder.absolute(), *folder.absolute().parents) if not p.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made ({error.strerror or error}); choose another place."
        ) from error
    for made in new:
        flush_folder(made.parent)


def discard(path: Path) -> None:
    """Remove a file that is of no more use; where that fails it does no harm."""
    with suppress(OSError):
        path.unlink()


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system lets a folder be opened."""
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
            discard(draft)


def open_kept(path: Path) -> BinaryIO:
    """A file of our own to lock or to append to, made if it is not there, never emptied."""
    if os.path.lexists(path):
        regular(path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _GUARDED, 0o666)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written ({error.strerror or error}); choose another place."
        ) from error
    # A second name may be that of a file elsewhere, which is not ours to write to.
    if os.fstat(handle).st_nlink > 1:
        os.close(handle)
        raise FormatError(f"{path} is also a file of another name; remove it first.")
    return os.fdopen(handle, "ab")


def regular(path: Path) -> int:
    """Size of a plain file; links, pipes, devices and folders are refused before opening."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise FormatError(f"{path} is missing.") from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read ({error}).") from None
    if stat.S_ISLNK(found.st_mode):
        raise FormatError(f"{path} is a link; put the file itself there.")
    if not stat.S_ISREG(found.st_mode):
        raise FormatError(f"{path} is not a plain file.")
    return found.st_size


@contextmanager
def _reading(path: Path) -> Iterator[BufferedReader]:
    regular(path)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | _GUARDED), "rb") as file:
            yield file
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror or error}).") from None


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The bytes of a plain file of at most `max_bytes` bytes."""
    if (size := regular(path)) > max_bytes:
        raise FormatError(f"{path} has {size} bytes, more than such a file can have ({max_bytes}).")
    with _reading(path) as file:
        return file.read(max_bytes)


def digest_of(path: Path) -> str:
    """The SHA-256 of a plain file of any size."""
    with _reading(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
