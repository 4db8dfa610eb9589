"""NPZ and HDF5: named arrays, time first."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sjepa.data._check import Array, check_expansion, require
from sjepa.data._folders import natural
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError, MissingDependency


# Names of columns; each can be as long as the file.
MAX_NAMES = 10_000


def read_npz(path: Path) -> list[dict[str, Array]]:
    if not zipfile.is_zipfile(path):
        raise DataError("this is not an NPZ archive, or it is cut short; write it again.")
    with zipfile.ZipFile(path) as archive:
        claimed = sum(entry.file_size for entry in archive.infolist())
    check_expansion(claimed, path.stat().st_size)
    with np.load(path, allow_pickle=False) as archive:
        return [{key: archive[key] for key in archive.files}]


def read_hdf5(path: Path) -> list[dict[str, Array]]:
    try:
        import h5py
    except ImportError as error:
        raise MissingDependency("Reading HDF5 needs h5py: pip install h5py") from error

    def members(group: Any, kind: type) -> dict[str, Any]:
        for name in group:
            # Soft links stay in the file, but may lead through one that does not.
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise DataError(f"{name!r:.60} is a link; store the data themselves.")
        return {k: v for k, v in group.items() if isinstance(v, kind)}

    with h5py.File(path, "r") as file:
        groups = members(file, h5py.Group) if "x" not in file else {}
        chosen = [groups[k] for k in sorted(groups, key=natural)] or [file]
        found = [members(group, h5py.Dataset) for group in chosen]
        check_expansion(sum(map(_claimed, _each(found))), path.stat().st_size)
        return [{k: np.asarray(v) for k, v in group.items()} for group in found]


def _each(groups: list[dict[str, Any]]) -> Iterator[Any]:
    return (dataset for group in groups for dataset in group.values())


def _claimed(dataset: Any) -> int:
    """Bytes of an HDF5 array; one that lies in other files is refused."""
    if dataset.external or dataset.is_virtual:
        raise DataError(f"{dataset.name!r:.60} lies in other files; store the data themselves.")
    if dataset.dtype.kind == "O" and dataset.size > MAX_NAMES:
        raise DataError(f"{dataset.name!r:.60} holds {dataset.size} texts; arrays are numbers.")
    return int(dataset.size) * dataset.dtype.itemsize


def from_arrays(arrays: Mapping[str, Array], time: str | float | None, **how: Any) -> Trajectories:
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
    fields: dict[str, Any] = {k: arrays.get(k) for k in ("x", "u", "state", "sigma")}
    if np.ndim(t) == 2:
        fields, t = {k: None if v is None else list(v) for k, v in fields.items()}, list(t)
    elif "lengths" in arrays:
        ends = _ends(arrays["lengths"], len(fields["x"]))
        fields = {k: None if v is None else np.split(v, ends) for k, v in fields.items()}
        t = np.split(t, ends) if np.ndim(t) == 1 else t
    names, action_names, ids = (
        None if k not in arrays else [_text(n) for n in arrays[k].ravel()]
        for k in ("names", "action_names", "ids")
    )
    return Trajectories(
        fields["x"],
        t,
        fields["u"],
        state=fields["state"],
        names=names,
        input_names=action_names,
        sigma=fields["sigma"],
        ids=ids,
        **how,
    )


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)  # HDF5 stores bytes


def _ends(lengths: Array, total: int) -> Array:
    """Where each trajectory but the last ends, if the lengths make sense."""
    whole = lengths.dtype.kind in "iu" and lengths.ndim == 1
    if not whole or (lengths < 1).any() or (lengths > total).any() or lengths.sum() != total:
        raise DataError(f"'lengths' must be whole numbers that add up to the {total} rows of x.")
    return np.cumsum(lengths)[:-1]


def write_npz(trajectories: Trajectories, file: BinaryIO) -> None:
    arrays: dict[str, Any] = {"lengths": trajectories.lengths}
    for key, series in trajectories._series().items():
        if series:
            arrays[key] = np.concatenate(series)
    for key in ("names", "action_names", "ids"):
        if names := getattr(trajectories, key):
            arrays[key] = np.array([trajectories.labels.get(n, n) for n in names])
    np.savez(file, **arrays)
