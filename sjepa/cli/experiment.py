"""``sjepa experiment``: the paper's experiments, ours beside its own figures."""

from __future__ import annotations

import json as json_module
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sjepa.cli.app import app
from sjepa.cli.settings import ConfigFile
from sjepa.errors import ConfigError


class Name(StrEnum):
    exp1 = "exp1"
    exp2 = "exp2"


class ProfileName(StrEnum):
    default = "default"
    paper = "paper"
    windows = "windows"
    fast = "fast"


# `--seeds 7 19 37` is how people write it; the parser takes the first, the rest are extras.
@app.command(context_settings={"allow_extra_args": True})
def experiment(
    context: typer.Context,
    name: Annotated[Name, typer.Argument(help="Which experiment.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for metrics, laws, tables and figures.")
    ],
    seeds: Annotated[
        list[str] | None, typer.Option(help="Optimisation seeds: --seeds 7 19 37, or 7,19,37.")
    ] = None,
    backend: Annotated[str, typer.Option(help="See 'sjepa backends'.")] = "stlsq",
    profile: Annotated[
        ProfileName,
        typer.Option(
            help="default: our own way; paper: the appendix, in batches of whole trajectories; "
            "windows: the appendix to the letter; fast."
        ),
    ] = ProfileName.default,
    conditions: Annotated[
        str | None, typer.Option(help="Only these conditions, comma-separated.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    config: ConfigFile = None,
    json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
) -> None:
    """Run one of the paper's experiments and set our figures beside its own."""
    import pandas as pd
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from sjepa.studies.paper import run
    from sjepa.studies.paper.runner import SEEDS

    if context.args and not seeds:
        raise ConfigError(f"Unexpected {' '.join(context.args)!r}; see sjepa experiment --help.")
    console = Console(stderr=json, markup=False)
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=20),
        TextColumn("{task.fields[line]}", markup=False), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bars:
        known: dict[str, TaskID] = {}

        def progress(task: str, line: str, share: float) -> None:
            if task not in known:
                known[task] = bars.add_task(task, total=1.0, line="")
            bars.update(known[task], completed=share, line=line)

        run(
            name.value,
            read_seeds([*(seeds or ()), *context.args]) or SEEDS,
            backend,
            profile.value,
            out,
            conditions=conditions.split(",") if conditions else None,
            device=device,
            n_jobs=jobs,
            progress=progress,
        )
    if json:
        metrics = pd.read_parquet(out / "metrics.parquet").to_json(orient="records")
        print(json_module.dumps(json_module.loads(metrics), indent=1))
        return
    console.print(Markdown((out / "tables.md").read_text(encoding="utf-8")))
    console.print(f"Written to {out}")


def read_seeds(texts: list[str] | None) -> list[int]:
    """Seeds given one by one, separated by commas or by blanks."""
    parts = [part for text in texts or [] for part in text.replace(",", " ").split()]
    try:
        return list(dict.fromkeys(int(part) for part in parts))
    except ValueError:
        raise ConfigError(f"Seeds are whole numbers, got {' '.join(parts)!r}.") from None
