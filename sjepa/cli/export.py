"""``sjepa export``: a law in another language."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sjepa.cli.app import app
from sjepa.errors import FormatError
from sjepa.storage import MAX_BYTES, read_bounded, write_whole
from sjepa.symbolic import Law


class Language(StrEnum):
    sympy = "sympy"
    latex = "latex"
    mathml = "mathml"
    python = "python"
    numpy = "numpy"
    torch = "torch"
    c = "c"
    julia = "julia"
    json = "json"
    casadi = "casadi"


@app.command()
def export(
    source: Annotated[
        Path, typer.Argument(help="A law.json, a run folder, or a PySR hall-of-fame CSV.")
    ],
    to: Annotated[Language, typer.Option(help="The language to write.")] = Language.latex,
    out: Annotated[Path | None, typer.Option(help="File to write instead of the screen.")] = None,
    inputs: Annotated[
        str | None, typer.Option(help="For a PySR file: names of the inputs, comma-separated.")
    ] = None,
) -> None:
    """Write a law as LaTeX, Python, C, Julia, ..."""
    law = read_law(source, inputs.split(",") if inputs else None)
    text = render(law, to.value)
    if out is None:
        print(text.rstrip("\n"))
    else:
        write_whole(out, (text.rstrip("\n") + "\n").encode())


def read_law(source: Path, inputs: list[str] | None = None) -> Law:
    """Whatever holds a law: our JSON, a folder with one, or PySR's files."""
    if not source.exists():
        raise FormatError(f"{source} does not exist.")
    if source.is_dir() and (source / "law.json").exists():
        source = source / "law.json"
    if source.suffix == ".json":
        return Law.from_json(read_bounded(source, MAX_BYTES))
    if source.is_dir() and not list(source.glob("hall_of_fame*")):
        raise FormatError(f"{source} holds neither a law.json nor PySR's hall_of_fame.csv.")
    if source.is_dir() or source.suffix in (".csv", ".bak"):
        return Law.from_pysr(source, inputs=inputs)
    raise FormatError(f"{source} is not a law.json, a run folder or a hall-of-fame CSV.")


def render(law: Law, language: str) -> str:
    match language:
        case "sympy":
            return "\n".join(map(str, law.sympy()))
        case "json":
            return law.to_json()
        case "python" | "numpy":
            return law.python()
        case "torch":
            return law.torch_source()
        case "casadi":
            return str(law.casadi().serialize())
    return str(getattr(law, language)())
