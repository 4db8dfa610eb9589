"""NPZ and HDF5: named arrays, time first."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sjepa.data._check import Array
from sjepa.data._frame import require
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError, MissingDependency


# What a file may expand to when it is read: so many bytes, and so many for each of its own.
MOST_BYTES, MOST_EXPANSION = 2**28, 200


def read_npz(path: Path) -> list[dict[str, Array]]:
    if not zipfile.is_zipfile(path):
        raise DataError("this is not an NPZ archive, or it is cut short; write it again.")
    with zipfile.ZipFile(path) as archive:
        claimed = sum(entry.file_size for entry in archive.infolist())
    if claimed > MOST_EXPANSION * path.stat().st_size + MOST_BYTES:
        raise DataError(f"it claims to hold {claimed} bytes in {path.stat().st_size}.")
    with np.load(path, allow_pickle=False) as archive:
        return [{key: archive[key] for key in archive.files}]


def read_hdf5(path: Path) -> list[dict[str, Array]]:
    try:
        import h5py
    except ImportError as error:
        raise MissingDependency("Reading HDF5 needs h5py: pip install h5py") from error

    def arrays(group: Any) -> dict[str, Array]:
        return {k: np.asarray(v) for k, v in group.items() if isinstance(v, h5py.Dataset)}

    with h5py.File(path, "r") as file:
        groups = sorted((k for k, v in file.items() if isinstance(v, h5py.Group)), key=natural)
        return [arrays(file[k]) for k in groups] if groups and "x" not in file else [arrays(file)]


def from_arrays(
    arrays: Mapping[str, Array], time: str | float | None, allow_nan: bool
) -> Trajectories:
    if "x" not in arrays:
        raise DataError(f"there is no array 'x'; found: {', '.join(arrays) or 'nothing'}.")
    t: Any = time
    if time is None or isinstance(time, str):
        key = time or next((k for k in ("t", "time") if k in arrays), None)
        if key is None:
            raise DataError(
                f"there is no array 't'; found: {', '.join(arrays)}. Give a step: time=0.01.",
                "time",
            )
        require(arrays, [key], "array")
        t = arrays[key]
    fields: dict[str, Any] = {k: arrays.get(k) for k in ("x", "u", "state")}
    if np.ndim(t) == 2:
        fields, t = {k: None if v is None else list(v) for k, v in fields.items()}, list(t)
    elif "lengths" in arrays:
        ends = _ends(arrays["lengths"], len(fields["x"]))
        fields = {k: None if v is None else np.split(v, ends) for k, v in fields.items()}
        t = np.split(t, ends) if np.ndim(t) == 1 else t
    names, action_names = (
        None if k not in arrays else [_text(n) for n in arrays[k].ravel()]
        for k in ("names", "action_names")
    )
    return Trajectories(
        fields["x"],
        t,
        fields["u"],
        state=fields["state"],
        names=names,
        action_names=action_names,
        allow_nan=allow_nan,
    )


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)  # HDF5 stores bytes


def _ends(lengths: Array, total: int) -> Array:
    """Where each trajectory but the last ends, if the lengths make sense."""
    if lengths.dtype.kind not in "iu" or lengths.ndim != 1 or lengths.sum() != total:
        raise DataError(f"'lengths' must be whole numbers that add up to the {total} rows of x.")
    return np.cumsum(lengths)[:-1]


def write_npz(trajectories: Trajectories, file: BinaryIO) -> None:
    arrays: dict[str, Any] = {"lengths": trajectories.lengths}
    for key in ("x", "t", "u", "state"):
        if series := getattr(trajectories, key):
            arrays[key] = np.concatenate(series)
    for key in ("names", "action_names"):
        if names := getattr(trajectories, key):
            arrays[key] = np.array(names)
    np.savez(file, **arrays)


def natural(path: Path | str) -> list[tuple[int, str]]:
    """Sort run2 before run10."""
    name = path if isinstance(path, str) else path.name
    return [(int(s), "") if s.isdigit() else (-1, s) for s in re.split(r"(\d+)", name)]
