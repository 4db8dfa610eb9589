"""README and documentation say what happens: every block runs and prints what the page shows."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, same


PAGES = [
    ROOT / "README.md", ROOT / "docs" / "llms.txt", *sorted((ROOT / "docs").rglob("*.md"))
]  # fmt: skip
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


@pytest.fixture(scope="session")
def runner() -> Iterator[subprocess.Popen[str]]:
    paths = os.pathsep.join(str(ROOT / p) for p in (".", "backends", "julia"))
    plain = {"PYTHONPATH": paths, "MPLBACKEND": "agg", "COLUMNS": "100", "NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.docs.pages"], text=True, env={**os.environ, **plain},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield process


@pytest.mark.parametrize("page", _params())
def test_a_page_runs_from_the_top_and_prints_what_it_shows(
    page: Path, runner: subprocess.Popen[str], tmp_path: Path
) -> None:
    folder, printed = tmp_path / "empty", tmp_path / "printed"
    folder.mkdir()
    assert runner.stdin and runner.stdout
    print(json.dumps([str(page), str(folder), str(printed)]), file=runner.stdin, flush=True)
    assert runner.stdout.readline() == "0\n", printed.read_text(encoding="utf-8")
    for picture in _links(page, "pictures/"):
        assert (folder / picture.removeprefix("pictures/")).stat().st_size < 200_000


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in _links(page):
        if not target.startswith("pictures/"):  # drawn by the page itself
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize(
    "promise, printed",
    [
        ("x' = ...y\n", "x' = 2*y\n"),
        ("a ... 0.99...", "a b 0.9931 c"),
        ("loss 3.41e-09", "loss   3.42e-09\n"),
        ("-0.199*x + 4*y**2", "-0.2*x + 3.9999*y**2"),
        ("...\nweight 0.50 ...", "weight 0.1 x\nweight 0.50 y"),
    ],
)
def test_what_a_person_would_call_the_same_is_the_same(promise: str, printed: str) -> None:
    assert same(promise, printed)


@pytest.mark.parametrize(
    "promise, printed",
    [
        ("x' = 3*y", "x' = 2*y"),
        ("x' = 1.5*y", "x' = -1.5*y"),
        ("x' = 1.500*y", "x' = 1.505*y"),
        ("loss 1e-07", "loss 2e-07"),
        ("rho 0.0", "rho 0.1"),
        ("z1 = 1.5", "z2 = 1.5"),
        ("0.1 ... 0.3", "0.1 x 0.3 y"),
        ("x**2.0", "x**2.0 + 1"),
    ],
)
def test_other_numbers_and_other_text_are_not(promise: str, printed: str) -> None:
    assert not same(promise, printed)


def test_an_output_states_its_own_tolerance() -> None:
    strict, loose = blocks("```text\n1.000\n```\n```text rtol=0.1\n1.000\n```\n")
    assert not same(strict.text, "1.05", strict.rtol)
    assert same(loose.text, "1.05", loose.rtol)


def test_the_readme_is_short_and_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert "make demo" in text and "make test" in text


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r"^[\w/-]+$", (ROOT / "docs/index.md").read_text(encoding="utf-8"), re.M)
    folder = ROOT / "docs"
    pages = {str(p.relative_to(folder).with_suffix("")) for p in sorted(folder.rglob("*.md"))}
    assert set(listed) == pages - {"index", "SKILL"}  # the last is for assistants, beside llms.txt


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_that_are_named_exist(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^ {4}make ([\w-]+)", (ROOT / name).read_text(encoding="utf-8"), re.M)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"
