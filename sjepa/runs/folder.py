"""The folder of a run: what was asked, the last checkpoint, a log, and in the end the model.

================  =============================================================================
run.json          settings, where the data came from, and a fingerprint of them
checkpoint.*      the state of the search (safetensors), replaced as it goes
best.json         the best law so far, while a search runs; in the end the model's
log.txt           what happened when
config.json, ...  the model of :mod:`sjepa.runs.saving`, once the run has finished
================  =============================================================================
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from sjepa.data import Trajectories
from sjepa.errors import ConfigError, FormatError, OutputError
from sjepa.runs.best import NAME as BEST
from sjepa.runs.saving import FILES, Saved, read, write_files
from sjepa.settings import path_of
from sjepa.storage import discard, make_folder, open_kept, read_json, sweep, write_json


KIND, VERSION = "sjepa-run", 1
# Where the data of a run come from: the arguments of :func:`sjepa.data.read`, and their kinds.
_SOURCE: Mapping[str, tuple[type, ...]] = {
    "path": (str,),
    "time": (str, float, int, type(None)),
    "id": (str, type(None)),
    "columns": (list, type(None)),
    "actions": (list,),
    "missing": (str,),
    "gaps": (str,),
}


# All that can be in the folder of a run.
_OWN = {*FILES, "run.json", "checkpoint.safetensors", BEST, "log.txt", ".lock"}


class Run:
    """A run and its folder. Make one with :meth:`begin` or :meth:`open`.

    Only one process at a time may work on a run.
    """

    def __init__(self, folder: Path, asked: Mapping[str, Any]) -> None:
        self.folder, self.asked = folder, dict(asked)
        self._lock: Any = None

    @classmethod
    def begin(cls, folder: str | Path, asked: Mapping[str, Any]) -> Self:
        """Start a run in a new or empty folder and lock it; `asked` is plain data."""
        folder = path_of(folder, "folder")
        cls.check_free(folder)
        make_folder(folder)
        run = cls(folder, asked)
        run._lock = lock(folder)
        cls.check_free(folder)  # another process may have been faster
        write_json(folder / "run.json", KIND, VERSION, {"asked": run.asked})
        return run

    @staticmethod
    def check_free(folder: Path, force: bool = False) -> None:
        """Refuse a folder that something is in already; with `force` only if it is no run."""
        names = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
        if force and "run.json" in names and names <= _OWN:
            return
        if os.path.lexists(folder / "run.json"):
            raise ConfigError(
                f"{folder} already holds a run: resume it with sjepa fit --resume {folder}, "
                "or choose another folder."
            )
        if folder.exists() and (not folder.is_dir() or any(not _ours(n) for n in names)):
            raise ConfigError(f"{folder} already holds other things; choose another folder.")

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """A run that was begun before."""
        folder = path_of(folder, "folder")
        if not os.path.lexists(folder / "run.json"):
            raise FormatError(f"{folder} is not the folder of a run: there is no run.json in it.")
        data = read_json(folder / "run.json", KIND, VERSION)
        asked = data.get("asked")
        if not isinstance(asked, dict) or type(asked.get("seed", 0)) is not int:
            raise FormatError(f"{folder}/run.json is damaged: it does not say what was asked.")
        return cls(folder, asked)

    def source(self) -> dict[str, Any]:
        """Where the data came from, if the run was begun from a file."""
        source = self.asked.get("data")
        if source is None:
            raise ConfigError(
                f"The run in {self.folder} was begun in Python; resume it there, with "
                "fit(..., run=folder) and the same data."
            )
        if isinstance(source, dict) and "drop_nan" in source:  # as version 0.1.0 wrote it
            drop = source["drop_nan"] is True
            source = {"missing": "drop" if drop else "raise", "gaps": "keep", **source}
        if (
            not isinstance(source, dict)
            or any(
                key not in source or not isinstance(source[key], kinds)
                for key, kinds in _SOURCE.items()
            )
            or not all(isinstance(n, str) for n in [*(source["columns"] or ()), *source["actions"]])
        ):
            raise FormatError(f"{self.folder}/run.json is damaged: it does not say where data are.")
        return {key: source[key] for key in _SOURCE}

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.safetensors"

    @property
    def finished(self) -> bool:
        return os.path.lexists(self.folder / "config.json")

    def finish(self, saved: Saved) -> None:
        """Write the model; the checkpoint has served its purpose."""
        write_files(self.folder, saved)
        discard(self.checkpoint)

    def result(self) -> Saved:
        return read(self.folder)

    def check(self, asked: Mapping[str, Any]) -> None:
        """Refuse to resume with other settings or other data than the run began with."""
        before, now = self.asked.get("settings"), asked["settings"]
        if not isinstance(before, dict):
            raise FormatError(f"{self.folder}/run.json is damaged: it holds no settings.")
        for key in sorted({*before, *now}):
            if before.get(key) != now.get(key):
                raise ConfigError(
                    f"The run in {self.folder} began with {key}={before.get(key)!r:.60}, now it is "
                    f"{now.get(key)!r:.60}; use the old value, or begin a run in another folder."
                )
        if self.asked.get("fingerprint") != asked["fingerprint"]:
            raise ConfigError(
                f"The data are not those that the run in {self.folder} began with; "
                "give the old data, or begin a run in another folder."
            )

    def __enter__(self) -> Self:
        """Lock the folder against a second process, and clear what a killed one left."""
        if self._lock is None:
            self._lock = lock(self.folder)
        sweep(self.folder)
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _ours(name: str) -> bool:
    """What a run that was killed before it began properly may have left."""
    return name in (".lock", "log.txt") or name.startswith(".run.json.")


def lock(folder: Path) -> Any:
    """An open file that no other process can lock; the system releases it when we die."""
    file = open_kept(folder / ".lock")
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: two runs in one folder are then not noticed
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError(f"Another process is at work in {folder}; wait for it.") from None
    return file


def fingerprint(trajectories: Trajectories) -> str:
    """A checksum of all numbers and names: the same data give the same one."""
    found = hashlib.sha256(repr((trajectories.names, trajectories.input_names)).encode())
    for series in (trajectories.x, trajectories.t, trajectories.u or []):
        for array in series:
            found.update(f"{array.dtype.str} {array.shape}".encode())
            found.update(array.tobytes())
    return found.hexdigest()


def writable(folder: Path) -> None:
    """Fail now, not after an hour of search, where a folder cannot be written."""
    folder = folder.absolute()
    nearest = next(p for p in (folder, *folder.parents) if p.exists())
    if not nearest.is_dir():
        raise OutputError(f"{nearest} is a file, not a folder; choose another place.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(f"{nearest} cannot be written to; choose another place.")
