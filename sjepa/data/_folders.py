"""Files and folders of data that others may have made: no pipe is awaited, no link leads away."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from sjepa.errors import DataError


def natural(path: Path | str) -> list[tuple[int, str]]:
    """Sort run2 before run10."""
    name = path if isinstance(path, str) else path.name
    return [(int(s), "") if s.isdecimal() else (-1, s) for s in re.split(r"(\d+)", name)]


def entries(folder: Path) -> list[Path]:
    """What a folder shows, run2 before run10, without links to folders: those may go in circles."""
    shown = [p for p in folder.iterdir() if not p.name.startswith(".")]
    return sorted((p for p in shown if not (p.is_symlink() and p.is_dir())), key=natural)


def files_in(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """The files of a folder with these endings; a link that leads out of it is refused."""
    found = [p for p in entries(folder) if p.suffix.lower() in endings]
    for path in found:  # what a link to itself leads to is refused when it is opened
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(
            os.path.realpath(folder)
        ):
            raise DataError(f"{path}: a link that leads out of its folder; name that file itself.")
    return found


def check_file(path: Path) -> int:
    """Bytes of a plain file; others are not opened: a pipe would wait, a device never ends."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: there is no such file; check the path.") from None
    except (OSError, ValueError) as error:  # a link to itself, a name of a thousand letters
        raise DataError(f"{path}: cannot be read ({error!s:.80}).") from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path}: this is not a plain file.")
    if not found.st_size:
        raise DataError(f"{path}: the file is empty; write it again.")
    return found.st_size
