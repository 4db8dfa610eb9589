"""What the folder of a run holds and what resuming it would touch, without touching any of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sjepa.errors import ConfigError, FormatError
from sjepa.runs.best import NAME as BEST, read_best
from sjepa.runs.folder import KIND, VERSION, Run
from sjepa.settings import path_of
from sjepa.storage import read_json


def inspect(folder: str | Path) -> dict[str, Any]:
    """State, settings, data and files of a run, as plain data.

    Nothing but ``run.json`` and ``best.json`` is opened; ``best`` is what the latter holds, None
    without a law, or a line that says what is wrong with it. Each file has a size and a kind:
    "file", "link to ...", "folder" or "neither file nor folder".
    """
    folder = path_of(folder, "folder")
    run = Run.open(folder)
    known = read_json(folder / "run.json", KIND, VERSION)
    try:
        path: str | None = run.source()["path"]
    except ConfigError:  # begun in Python: the data come from there again
        path = None
    files = {p.name: _entry(p) for p in sorted(folder.iterdir())}
    return {
        "folder": str(folder),
        "state": "finished"
        if run.finished
        else "begun"
        if _has_no(run.checkpoint)
        else "resumable",
        "version": known["version"],
        "foreign": is_foreign(run),
        "data": None
        if path is None
        else {"path": path, **_entry(Path(path)), "inside": _inside(run, path)},
        "settings": run.asked.get("settings"),
        "best": _best(folder),
        "files": files,
    }


def _best(folder: Path) -> dict[str, Any] | str | None:
    try:
        return read_best(folder / BEST)
    except FormatError as error:
        return str(error)


def _has_no(path: Path) -> bool:
    return not os.path.lexists(path)


def _entry(path: Path) -> dict[str, Any]:
    try:
        found = path.lstat()
    except (OSError, ValueError) as error:
        return {
            "kind": "missing" if isinstance(error, FileNotFoundError) else "unreadable",
            "size": 0,
        }
    if stat.S_ISLNK(found.st_mode):
        return {"kind": f"link to {os.readlink(path)}", "size": 0}
    if stat.S_ISDIR(found.st_mode):
        return {"kind": "folder", "size": 0}
    plain = stat.S_ISREG(found.st_mode)
    return {"kind": "file" if plain else "neither file nor folder", "size": found.st_size}


def _inside(run: Run, path: str) -> bool:
    """Whether a path stays in the folder of its run, links followed."""
    try:
        return Path(path).resolve().is_relative_to(run.folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False


def is_foreign(run: Run) -> bool:
    """Whether another user's account wrote the run, as far as the system tells."""
    if not hasattr(os, "getuid"):
        return False
    return (run.folder / "run.json").lstat().st_uid != os.getuid()


def stamped(source: Mapping[str, Any]) -> dict[str, Any]:
    """Where data come from, with the size and time of what is there: proof of having seen it."""
    return {**source, "stamp": _stamp(source["path"])}


def _stamp(path: str) -> str:
    found = os.stat(path)
    return f"{found.st_size} {found.st_mtime_ns}"


def distrust(run: Run) -> str:
    """Why not to read the data that a run names; empty where nothing speaks against it.

    Data in its own folder may be read, and elsewhere what it had seen when it was begun: whoever
    makes up a run to read the files of others does not know when they were written.
    """
    path = run.source()["path"]
    if _inside(run, path):
        return ""
    if is_foreign(run):
        return "and another user wrote it"
    return "" if run.asked["data"].get("stamp") == _stamp(path) else "which it was not begun with"
