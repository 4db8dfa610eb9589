"""Every operation on files that a run makes fails once in turn, or is the last before a power cut.

The shim stands between :mod:`sjepa.storage` and the system. It counts operations (making folders
and files, writing, flushing, renaming, removing, and allocating what is to be written), raises at
the chosen one, and remembers what the disk would hold if the power went now: a file's bytes are
safe once the file was flushed, a name once its folder was.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO
from unittest import mock

import safetensors.torch

from sjepa.storage import files, jsonfile, tensors


class PowerCut(BaseException):
    """Nothing after it happens: not even what handlers of errors would do."""


class Disk:
    """Operations under one folder; fault number `at` (from 0) is the one that happens.

    Parameters
    ----------
    root : Path
        What is watched; operations elsewhere pass.
    at : int, optional
        The operation that fails; without it all are only counted.
    cut : bool
        Whether the power goes after that operation, in place of an error from it.
    """

    def __init__(self, root: Path, at: int | None = None, cut: bool = False) -> None:
        self.root, self.at, self.cut = root, at, cut
        self.operations: list[str] = []
        self.dead = False
        # Of each name the bytes that are safe.
        self.safe: dict[Path, bytes] = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
        self.folders = {root, *(p for p in root.rglob("*") if p.is_dir())}
        self.flushed: dict[int, bytes] = {}  # by inode: what fsync made durable
        for path in self.safe:
            self.flushed[path.stat().st_ino] = self.safe[path]

    def operate(self, what: str, path: Any, act: Callable[[], Any]) -> Any:
        if self.dead:
            raise PowerCut
        if not Path(path).absolute().is_relative_to(self.root):
            return act()
        here = len(self.operations)
        self.operations.append(f"{what} {Path(path).name}")
        if here != self.at:
            return act()
        if what == "allocate":
            raise MemoryError
        if not self.cut:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        act()
        self.dead = True
        raise PowerCut

    def restore(self, place: Path) -> None:
        """What is found at `place` after the power came back."""
        shutil.rmtree(place, ignore_errors=True)
        for path, content in self.safe.items():
            if not self.folders.issuperset({*path.parents} - {*self.root.parents}):
                continue  # the folder itself was never safe
            there = place / path.relative_to(self.root)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(content)

    @contextlib.contextmanager
    def plugged_in(self) -> Iterator[None]:
        real_open, real_fsync, real_replace = Path.open, os.fsync, os.replace
        real_mkdir, real_unlink, real_os_open = os.mkdir, os.unlink, os.open

        def mkdir(path: Any, *rest: Any, **more: Any) -> None:
            self.operate("mkdir", path, lambda: real_mkdir(path, *rest, **more))

        def unlink(path: Any, **more: Any) -> None:
            self.operate("unlink", path, lambda: real_unlink(path, **more))

        def os_open(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            if not flags & os.O_CREAT:
                return real_os_open(path, flags, *rest, **more)
            made = self.operate("create", path, lambda: real_os_open(path, flags, *rest, **more))
            return int(made)

        def allocating(make: Callable[..., Any]) -> Callable[..., Any]:
            def made(*given: Any, **more: Any) -> Any:
                if self.cut:
                    return make(*given, **more)
                return self.operate("allocate", self.root, lambda: make(*given, **more))

            return made

        dumps = allocating(json.dumps)

        def fsync(handle: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))

            def act() -> None:
                real_fsync(handle)
                if path.is_dir():
                    self.folders |= {p for p in path.iterdir() if p.is_dir()}
                    inside = {p for p in path.iterdir() if p.is_file()}
                    for gone in [p for p in self.safe if p.parent == path and p not in inside]:
                        del self.safe[gone]
                    for p in inside:
                        # A name whose bytes were never flushed leads to an empty file.
                        self.safe[p] = self.flushed.get(p.stat().st_ino, b"")
                else:
                    self.flushed[os.fstat(handle).st_ino] = path.read_bytes()
                    if path in self.safe:
                        self.safe[path] = self.flushed[os.fstat(handle).st_ino]

            self.operate("fsync", path, act)

        def replace(old: Any, new: Any) -> None:
            self.operate("rename", new, lambda: real_replace(old, new))

        def opened(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if "x" not in mode:
                return real_open(path, mode, *rest, **more)
            file = self.operate("create", path, lambda: real_open(path, mode, *rest, **more))
            return _Writing(file, path, self)

        with (
            mock.patch.object(files.os, "fsync", fsync),
            mock.patch.object(files.os, "replace", replace),
            mock.patch.object(files.os, "mkdir", mkdir),
            mock.patch.object(files.os, "unlink", unlink),
            mock.patch.object(files.os, "open", os_open),
            mock.patch.object(Path, "open", opened),
            mock.patch.object(tensors, "pack", allocating(tensors.pack)),
            mock.patch.object(safetensors.torch, "save", allocating(safetensors.torch.save)),
            mock.patch.object(jsonfile, "json", SimpleNamespace(dumps=dumps, loads=json.loads)),
        ):
            yield


class _Writing:
    """A file whose writes are operations too."""

    def __init__(self, file: BinaryIO, path: Path, disk: Disk) -> None:
        self.file, self.path, self.disk = file, path, disk

    def write(self, data: bytes) -> int:
        def act() -> int:
            return self.file.write(data)

        if self.disk.at == len(self.disk.operations) and not self.disk.cut:
            self.file.write(data[: len(data) // 2])  # half of it arrives
            self.file.flush()
        return int(self.disk.operate("write", self.path, act))

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)
