"""Build the wheel and the source archive, twice, and refuse if they differ in a byte.

    python release.py DIST

Built from the tracked files alone, in folders of other names and at other times. Files inside carry
the time of SOURCE_DATE_EPOCH, by default that of the last commit, and the rights of a usual umask.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


ROOT = Path(__file__).resolve().parents[1]
BUILD = "from setuptools import build_meta as b; b.build_wheel({0!r}); b.build_sdist({0!r})"


def git(*arguments: str) -> str:
    called = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(called, capture_output=True, text=True, check=True).stdout


def build(place: Path, epoch: int) -> dict[str, bytes]:
    """The archives by name, from a copy of the tracked files in this folder."""
    source, out = place / "source", place / "out"
    out.mkdir(parents=True)
    for name in git("ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
            runs = os.access(ROOT / name, os.X_OK)  # other rights are those of the checkout
            (source / name).chmod(0o755 if runs else 0o644)
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "random"}
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(str(out))], cwd=source, env=environment, umask=0o022,
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return {
        p.name: _plain(p.read_bytes(), epoch) if p.name.endswith(".tar.gz") else p.read_bytes()
        for p in out.iterdir()
    }


def _plain(archive: bytes, epoch: int) -> bytes:
    """A source archive without what setuptools takes from the machine: owners, times, order."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.pax_headers = epoch, {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=epoch)


def main() -> None:
    dist = Path(sys.argv[1]).absolute()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as place:
        once, twice = (build(Path(place, name), epoch) for name in ("a", "b/c"))
    if wrong := [name for name in {**once, **twice} if once.get(name) != twice.get(name)]:
        sys.exit(f"{', '.join(wrong)}: two builds differ.")
    dist.mkdir(exist_ok=True)
    for name, content in once.items():
        (dist / name).write_bytes(content)
        print(f"{name}: {len(content)} bytes, the same when built twice")


if __name__ == "__main__":
    main()
