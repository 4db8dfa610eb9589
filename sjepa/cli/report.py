"""``sjepa report``: one page about a law and how well it does."""

from __future__ import annotations

import json as json_module
import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from sjepa.cli.app import app, say
from sjepa.cli.inputs import (
    DataOptions,
    Force,
    check_place,
    command_line,
    is_run,
    read_data,
    read_model_or_law,
    reads_data,
    recorded_command,
    recorded_source,
)


@app.command()
@reads_data
def report(
    reading: DataOptions,
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
    held_out: Annotated[
        Path | None,
        typer.Option(help="Data that were not fitted to, with the same columns, for a score."),
    ] = None,
    force: Force = False,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write one self-contained HTML page: equations, front, simulated paths, diagnostics."""
    from sjepa.report import collect, write_report
    from sjepa.runs import Run
    from sjepa.runs.inspection import distrust

    check_place(out, force)
    found = read_model_or_law(source)
    trajectories = None
    if data is not None:
        trajectories = read_data(reading.source(data, source))
    elif (recorded := recorded_source(source)) and Path(recorded["path"]).exists():
        if reason := distrust(Run.open(source)):
            say(f"not read: {recorded['path']}, {reason}; give it as --data.", error=True)
        else:
            trajectories = read_data(recorded)
    others = None
    if held_out is not None:
        others = read_data(reading.source(held_out, source))
    content = collect(found, trajectories, held_out=others, title=title or source.resolve().name)
    recorded_line = recorded_command(source)
    made_by = content.recipe if recorded_line is None else (recorded_line,)
    content = content.with_recipe((*made_by, "", "# this page", command_line()))
    path = write_report(content, out)
    if json:
        score = content.score if math.isfinite(content.score) else None  # JSON has no infinity
        print(json_module.dumps({"page": str(path), "laws": content.laws, "score": score}))
        return
    say(f"Written: {path}")
    if trajectories is None:
        kind = "observations" if is_run(source) else "states"
        print(
            f"Without --data there are no simulated paths; give a file of {kind}.", file=sys.stderr
        )
