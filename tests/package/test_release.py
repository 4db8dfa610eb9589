"""What a release holds: the sources, and everything that tests and documents them."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


pytest.importorskip("setuptools")


def test_the_source_release_has_what_make_test_needs(tmp_path: Path) -> None:
    code = f"from setuptools import build_meta; print(build_meta.build_sdist({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as release:
        held = {name.split("/", 1)[1] for name in release.getnames() if "/" in name}
    named = {"Makefile", "constraints.txt", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"}
    named |= {
        "SECURITY.md",
        ".ci/release.py",
        ".ci/run",
        ".ci/check_wheel.py",
        "sjepa/report/page.html",
        "sjepa/report/page.js",
    }
    assert named <= held
    for folder in ("tests", "docs", "benchmarks"):
        own = {
            p.relative_to(ROOT).as_posix()
            for p in (ROOT / folder).rglob("*")
            if p.suffix in (".py", ".md", ".csv", ".ipynb") and "_build" not in p.parts
        }
        generated = {p for p in own if p.startswith(("docs/reference/names", "docs/gallery/pic"))}
        assert own - generated <= held, sorted(own - held)[:5]


@pytest.mark.slow
def test_a_release_is_the_same_to_the_byte(tmp_path: Path) -> None:
    """The script compares two builds itself; a third, at another hour, is compared here."""
    found = []
    for name in ("a", "b"):
        script = [sys.executable, str(ROOT / ".ci" / "release.py"), str(tmp_path / name)]
        done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert found[0] == found[1] and {Path(n).suffix for n in found[0]} == {".whl", ".gz"}


def test_the_release_can_be_cited() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^([\w-]+): *(.*)$", text, re.M))
    version = re.search(
        r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M
    )
    assert version is not None and fields["version"].strip('"') == version[1]
    assert {"cff-version", "message", "title", "authors", "license"} <= set(fields)
