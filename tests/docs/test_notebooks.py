"""The notebooks are their pages, run: same cells, and outputs that the pages promise."""

import json

import pytest

from tests.docs.notebooks import FOLDER, PAGES, cells, executed, printed
from tests.docs.pages import ROOT, blocks, promised, same


def _read(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_has_the_cells_of_its_page_and_was_run(name: str) -> None:
    book = _read(name)
    source = cells(ROOT / PAGES[name])
    assert [(c["cell_type"], c["source"]) for c in book["cells"]] == source, "run make notebooks"
    counts = [c["execution_count"] for c in book["cells"] if c["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert (FOLDER / f"{name}.ipynb").stat().st_size < 1_000_000


@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_prints_what_its_page_promises(name: str) -> None:
    """The pages are run by other tests, so that this holds for what the code does today."""
    page = (ROOT / PAGES[name]).read_text(encoding="utf-8")
    found = blocks(page)
    outputs = {c["source"]: printed(c) for c in _read(name)["cells"] if c["cell_type"] == "code"}
    compared = 0
    for i, block in enumerate(found):
        promise = promised(found, i, page) if block.language == "python" else None
        if promise is not None:
            source = next(s for s in outputs if s.endswith(block.text.rstrip("\n")))
            assert same(promise.text, outputs[source], promise.rtol), outputs[source]
            compared += 1
    assert compared


def test_every_picture_of_the_gallery_is_shown() -> None:
    shown = [c for c in _read("gallery")["cells"] if c["source"].startswith("Image(")]
    assert len(shown) >= 10
    assert all("image/png" in c["outputs"][0]["data"] for c in shown)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_running_a_notebook_again_prints_the_same(name: str) -> None:
    again = executed(ROOT / PAGES[name])
    for old, new in zip(_read(name)["cells"], again["cells"], strict=True):
        if old["cell_type"] == "code":
            assert same(printed(old), printed(new)), old["source"]
