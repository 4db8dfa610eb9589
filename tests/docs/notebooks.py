"""Pages of the documentation as executed notebooks: ``make notebooks``.

The page stays the source. Its Python becomes cells, its commands become ``%%bash``, an included
script becomes a cell, a picture is shown by the cell that opens it, a formula by the one that ends
with it; what the page promises is left out, since the notebook prints it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.docs.pages import FENCE, ROOT


PAGES = {
    "states": "docs/start/states.md",
    "observations": "docs/start/observations.md",
    "formulas": "docs/start/formulas.md",
    "gallery": "docs/gallery/index.md",
}
FOLDER = ROOT / "docs" / "notebooks"
PICTURE = re.compile(r"^!\[([^\]]*)\]\(pictures/([^)]+)\)$", re.M)
INCLUDE = re.compile(r"^```\{literalinclude\} (\S+)\n.*?^```$", re.M | re.S)
COLORS = re.compile(r"\x1b\[[0-9;]*m")  # a kernel asks its commands for them
SECONDS = 600


def cells(page: Path) -> list[tuple[str, str]]:
    """("markdown" or "code", source) in the order of the page."""
    text = page.read_text(encoding="utf-8")
    text = INCLUDE.sub(lambda m: f"```python\n{(page.parent / m[1]).read_text()}```", text)
    text = PICTURE.sub(r'```python\nImage("\2", alt="\1")\n```', text)
    found: list[tuple[str, str]] = []
    last, after_code = 0, False
    for fence in FENCE.finditer(text):
        words = text[last : fence.start()].strip()
        if words:
            found.append(("markdown", _links(words, page)))
        language, body = fence[1], fence[3].rstrip("\n")
        if language == "python":
            found.append(("code", body))
        elif language == "console":
            commands = "\n".join(_commands(body))
            found.append(("code", f"%%bash\n{commands}"))
        elif not (language == "text" and after_code and not words):
            found.append(("markdown", fence[0]))
        last, after_code = fence.end(), language == "python"
    if words := text[last:].strip():
        found.append(("markdown", _links(words, page)))
    if any(source.startswith("Image(") for _, source in found):
        first = next(i for i, (kind, _) in enumerate(found) if kind == "code")
        found[first] = ("code", f"from IPython.display import Image\n{found[first][1]}")
    return found


def _commands(block: str) -> list[str]:
    """What is typed, but for the scripts of the checkout, whose text is a cell of its own."""
    typed = re.findall(r"^\$ (.*)$", block, re.M)
    return [one for one in typed if not one.startswith("python docs/")]


def _links(words: str, page: Path) -> str:
    """Links as seen from the folder of the notebooks."""
    place = os.path.relpath(page.parent, FOLDER)
    return re.sub(r"\]\((?!https?:|#|\.\./)", f"]({place}/", words)


def notebook(page: Path) -> dict[str, Any]:
    """The notebook of a page, not yet run."""
    made = []
    for i, (kind, source) in enumerate(cells(page)):
        cell = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": source}
        made.append(cell if kind == "markdown" else cell | {"execution_count": None, "outputs": []})
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": made, "metadata": {"kernelspec": python}, "nbformat": 4, "nbformat_minor": 5}


def executed(page: Path) -> dict[str, Any]:
    """The same with what its cells print and show; progress bars are not kept."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.from_dict(notebook(page))
    paths = os.pathsep.join(str(ROOT / p) for p in (".", "backends", "julia"))
    os.environ |= {
        "PYTHONPATH": paths, "MPLBACKEND": "agg", "COLUMNS": "100", "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            book,
            timeout=SECONDS,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [kept for one in cell["outputs"] if (kept := _kept(one))]
    book["metadata"].pop("language_info", None)
    return dict(book)


def _kept(output: dict[str, Any]) -> dict[str, Any] | None:
    """Text without colors, pictures, and the formula that a cell ends with."""
    if output["output_type"] == "stream":
        plain = {**output, "text": COLORS.sub("", output["text"])}
        return None if output["name"] == "stderr" else plain
    kinds = ["image/png"]
    if output["output_type"] == "execute_result":
        kinds.append("text/html")
    data = {k: v for k, v in output["data"].items() if k in kinds}
    return {**output, "data": data, "metadata": {}} if data else None


def printed(cell: dict[str, Any]) -> str:
    return "".join(
        "".join(one["text"]) for one in cell["outputs"] if one["output_type"] == "stream"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PAGES:
        text = json.dumps(executed(ROOT / PAGES[name]), indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")
        print(f"docs/notebooks/{name}.ipynb: {len(text) / 1e3:.0f} kB")
