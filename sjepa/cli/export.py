"""``sjepa export``: a law in another language."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sjepa.cli.app import app
from sjepa.cli.inputs import Force, check_place, read_law


if TYPE_CHECKING:
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
    modelica = "modelica"
    sbml = "sbml"


@app.command()
def export(
    source: Annotated[
        Path,
        typer.Argument(
            help="A law.json, a run folder, a PySR hall-of-fame CSV, or \"q'' = -sin(q)\"."
        ),
    ],
    to: Annotated[Language, typer.Option(help="The language to write.")] = Language.latex,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write instead of the screen.")
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(help="Names of the inputs of a PySR file or equation, comma-separated."),
    ] = None,
    force: Force = False,
) -> None:
    """Write a law as LaTeX, Python, C, Julia, Modelica, SBML, ..."""
    from sjepa.storage import write_whole

    check_place(out, force)
    law = read_law(source, inputs.split(",") if inputs else None)
    text = render(law, to.value)
    if out is None:
        print(text.rstrip("\n"))
    else:
        write_whole(out, (text.rstrip("\n") + "\n").encode())


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
