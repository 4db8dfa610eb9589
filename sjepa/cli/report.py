"""``sjepa report``: one page about a law and how well it does."""

from __future__ import annotations

import json as json_module
import math
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from sjepa.cli.app import app
from sjepa.cli.inputs import is_run, read_data, read_model_or_law, recorded_data


@app.command()
def report(
    source: Annotated[Path, typer.Argument(help="A run folder, a law.json or a PySR CSV.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    data: Annotated[
        Path | None,
        typer.Option(
            help="Observations (for a law: states) to show the law on; by default the run's own."
        ),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Name of the time column.")] = None,
    id: Annotated[str | None, typer.Option(help="Column that tells trajectories apart.")] = None,
    columns: Annotated[str, typer.Option(help="Observed columns, comma-separated.")] = "",
    actions: Annotated[str, typer.Option(help="Action columns, comma-separated.")] = "",
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write one self-contained HTML page: equations, front, simulated paths, diagnostics."""
    from sjepa.report import collect, write_report

    found = read_model_or_law(source)
    trajectories = None
    if data is not None:
        trajectories = read_data(data, time, id, columns, actions)
    elif recorded := recorded_data(source):
        trajectories = read_data(recorded[0], **recorded[1])
    command = f"sjepa {shlex.join(sys.argv[1:])}"
    content = collect(found, trajectories, title=title or source.resolve().name)
    content = content.with_recipe((*content.recipe, "", "# this page", command))
    path = write_report(content, out)
    if json:
        score = content.score if math.isfinite(content.score) else None  # JSON has no infinity
        print(json_module.dumps({"page": str(path), "laws": content.laws, "score": score}))
        return
    print(f"Written: {path}")
    if trajectories is None:
        kind = "observations" if is_run(source) else "states"
        print(
            f"Without --data there are no simulated paths; give a file of {kind}.", file=sys.stderr
        )
