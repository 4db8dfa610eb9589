"""Trajectories from files and back.

========  ==================================================================================
CSV,      one row per observation; see :meth:`Trajectories.from_frame`. Columns called
Parquet   ``action.<name>`` are control inputs, ``state.<name>`` the true state and
          ``sigma.<name>`` standard errors, without asking.
NPZ,      arrays ``x`` and ``t``, optionally ``u``, ``state`` and ``sigma``, time first. Several
HDF5      trajectories: stacked with ``t`` of shape (N, T), or end to end with an array
          ``lengths``; in HDF5 also one group of such arrays per trajectory.
mp4, gif  and other videos, and folders of pictures; see :func:`sjepa.data.read_video`.
a folder  of such files, in the order of their names; each file is one trajectory or more.
========  ==================================================================================

Files are data: nothing in them is ever executed or unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from sjepa.data import _array_files as arrays, _table_files as tables
from sjepa.data._folders import check_file, files_in
from sjepa.data.trajectories import Trajectories
from sjepa.data.video import VIDEO_ENDINGS, read_video, videos_of
from sjepa.errors import DataError, SjepaError
from sjepa.settings import path_of
from sjepa.storage import writing


if TYPE_CHECKING:
    import pandas as pd


_READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": tables.read_csv,
    ".parquet": tables.read_parquet,
    ".npz": arrays.read_npz,
    ".h5": arrays.read_hdf5,
    ".hdf5": arrays.read_hdf5,
}
_WRITERS: dict[str, Callable[[Trajectories, BinaryIO], None]] = {
    ".csv": tables.write_csv,
    ".parquet": tables.write_parquet,
    ".npz": arrays.write_npz,
}


def read(
    path: str | Path,
    *,
    time: str | float | None = None,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    actions: Sequence[str] = (),
    missing: Literal["raise", "drop"] = "raise",
    gaps: Literal["cut", "keep"] = "cut",
) -> Trajectories:
    """Read trajectories from a CSV, Parquet, NPZ or HDF5 file, or from a folder of them.

    Parameters
    ----------
    path : str or Path
    time : str or float, optional
        Name of the time column or array, or a constant step. By default ``t`` or ``time``, for
        tables also ``timestamp``, ``datetime``, ``date``, or the first column of dates.
    id : str, optional
        For tables: the column that identifies trajectories, by default ``trajectory`` if there.
    columns, actions : sequences of str, optional
        For tables: what was observed and the control inputs. By default every column with no
        other role is observed.
    missing, gaps : as for :class:`Trajectories`
    """
    how: dict[str, Any] = {"missing": missing, "gaps": gaps}
    path = path_of(path, "path")
    if videos_of(path) and not (path.is_dir() and files_in(path, tuple(_READERS))):
        return read_video(path, step=_step(time, path))
    if path.is_dir():
        files = list_files(path)
        parts = [read(f, time=time, id=id, columns=columns, actions=actions, **how) for f in files]
        return Trajectories.concat(parts, labels=[str(f) for f in files])
    if path.suffix.lower() not in _READERS:
        raise DataError(
            f"{path}: unknown file ending; known are {', '.join(_READERS)}, videos "
            f"({', '.join(VIDEO_ENDINGS)}) and folders of pictures."
        )
    check_file(path)
    try:
        found = _load(path)
        if not isinstance(found, list):
            return tables.from_table(found, time, id, columns, actions, **how)
        if id is not None or columns is not None or len(actions):
            raise DataError(
                "id, columns and actions are for tables; name the arrays x, t, u instead.",
                "columns",
            )
        return Trajectories.concat([arrays.from_arrays(group, time, **how) for group in found])
    except DataError as error:
        raise DataError(f"{path}: {error}", error.argument) from error
    except MemoryError as error:
        raise DataError(f"{path}: too large for the memory of this machine.") from error


def read_table(path: str | Path) -> pd.DataFrame:
    """A CSV or Parquet file as a table, whatever its separators; for rows that are no moments."""
    path = path_of(path, "path")
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{path}: a table is a .csv or .parquet file.")
    check_file(path)
    try:
        frame: pd.DataFrame = _load(path)
    except DataError as error:
        raise DataError(f"{path}: {error}", error.argument) from error
    return frame


def _load(path: Path) -> Any:
    """A table, or groups of arrays."""
    try:
        return _READERS[path.suffix.lower()](path)
    except (SjepaError, MemoryError):
        raise
    except Exception as error:
        # pandas, pyarrow, numpy and h5py each have their own words for a broken file.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"cannot be read as {path.suffix[1:]} ({reason[:200]}).") from error


def write(trajectories: Trajectories, path: str | Path) -> Path:
    """Write an NPZ, Parquet or CSV file that :func:`read` returns unchanged.

    The file appears under its name only when it is complete. Tables hold vectors only; frames
    need NPZ.
    """
    path = path_of(path, "path")
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise DataError(f"{path}: cannot write this ending; use {', '.join(_WRITERS)}.")
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder {path.parent} does not exist; create it first.")
    with writing(path) as file:
        writer(trajectories, file)
    return path


def _step(time: str | float | None, path: Path) -> float | None:
    """Videos have no columns: the time is a step between frames, if anything."""
    try:
        return None if time is None else float(time)
    except ValueError:
        raise DataError(f"{path}: a video has no column {time!r}; give a step as time.") from None


def list_files(folder: Path) -> list[Path]:
    """The files of a folder that can be read, run2 before run10."""
    if not (files := files_in(folder, tuple(_READERS))):
        raise DataError(f"{folder}: the folder holds none of {', '.join(_READERS)}.")
    return files
