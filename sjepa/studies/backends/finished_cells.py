"""The cells that a sweep has finished, one file each: a stopped sweep resumes from them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from sjepa.errors import FormatError
from sjepa.storage import make_folder
from sjepa.storage.tensors import read_state, write_state
from sjepa.studies.backends.cells import COLUMNS, Cell


KIND, VERSION = "sjepa-cell", 1


def kept_at(folder: Path, cell: Cell) -> Path:
    """The file of a cell; other settings and other releases have files of their own."""
    from sjepa import __version__

    settings = repr((cell.system, cell.backend, cell.noise, cell.seed, sorted(cell.options.items()),
                  cell.seconds, __version__))  # fmt: skip
    return folder / "cells" / f"{hashlib.sha256(settings.encode()).hexdigest()[:24]}.safetensors"


def keep(place: Path, row: dict[str, Any]) -> None:
    """Write the row of a finished cell; one that failed is tried again the next time."""
    if not row["error"]:
        make_folder(place.parent)
        write_state(place, KIND, VERSION, row)


def finished(place: Path) -> dict[str, Any] | None:
    """The row of a cell, if it was finished; a damaged file is one that was not."""
    try:
        row = read_state(place, KIND, VERSION)
    except FormatError:
        return None
    return row if isinstance(row, dict) and row.keys() == {*COLUMNS} else None


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """The rows of all cells that a sweep in this folder has finished so far."""
    rows = map(finished, sorted((folder / "cells").glob("*.safetensors")))
    return [row for row in rows if row is not None]
