"""The how-to page is the source of a backend, and whoever types it in has one that works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks


pytest.importorskip("gplearn")
PAGE = ROOT / "docs" / "howto" / "own-backend.md"
CODE = next(b.text for b in blocks(PAGE.read_text()) if "class GPLearn" in b.text)


def test_the_page_shows_the_file_and_the_file_is_short() -> None:
    source = (ROOT / "backends" / "sjepa_backends" / "gplearn.py").read_text()
    assert source == CODE
    assert len(source.splitlines()) <= 100


def test_a_backend_typed_from_the_page_is_found_and_keeps_the_contract(tmp_path: Path) -> None:
    """As a package of somebody else's, found by its entry point and by nothing else."""
    code = CODE.replace('"gplearn"\n', '"mine"\n').replace("int = 500", "int = 200")
    (tmp_path / "my_backend.py").write_text(code.replace("int = 12", "int = 5"))
    info = tmp_path / "my_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sjepa.backends]\nmine = my_backend:GPLearn\n")
    paths = os.pathsep.join([str(tmp_path), *(str(ROOT / p) for p in (".", "backends", "julia"))])
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    suite += ["tests/backends/test_contract.py", "--backend", "mine"]
    done = subprocess.run(
        suite, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
