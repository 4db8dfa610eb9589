"""README and documentation say what happens: every block runs and prints what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, same


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages that begin with this take minutes.
SLOW = "<!-- slow -->"


def _runs(page: Path) -> bool:
    text = page.read_text(encoding="utf-8")
    return any(b.language in ("python", "console") for b in blocks(text))


def _links(page: Path, start: str = "") -> list[str]:
    """Where a page links to within the project."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return re.findall(rf"\]\((?!https?:|#)({start}[^)#\s]+)", text)


def _params() -> list[object]:
    found = []
    for page in filter(_runs, PAGES):
        slow = page.read_text(encoding="utf-8").startswith(SLOW)
        marks = [pytest.mark.slow] if slow else []
        found.append(pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks))
    return found


@pytest.mark.parametrize("page", _params())
def test_a_page_runs_from_the_top_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(ROOT / p) for p in (".", "backends", "julia"))
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.pages", str(page)], capture_output=True, text=True,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1",
                           "MPLBACKEND": "agg", "COLUMNS": "100", "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for picture in _links(page, "pictures/"):
        assert (tmp_path / picture.removeprefix("pictures/")).stat().st_size < 200_000


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in _links(page):
        if not target.startswith("pictures/"):  # drawn by the page itself
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_promises_are_compared() -> None:
    assert same("x' = ...y\n", "x' = 2*y\n")
    assert not same("x' = 3*y\n", "x' = 2*y\n")


def test_the_readme_is_short_and_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert "make demo" in text and "make test" in text


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r"^[\w/-]+$", (ROOT / "docs/index.md").read_text(encoding="utf-8"), re.M)
    pages = {str(p.relative_to(ROOT / "docs").with_suffix("")) for p in PAGES[1:]}
    assert set(listed) == pages - {"index"}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_that_are_named_exist(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^ {4}make ([\w-]+)", (ROOT / name).read_text(encoding="utf-8"), re.M)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"
