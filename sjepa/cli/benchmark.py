"""``sjepa benchmark``: backends side by side on known problems."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sjepa.cli.app import app
from sjepa.cli.settings import ConfigFile, words


@app.command()
def benchmark(
    config: ConfigFile = None,
    backends: Annotated[
        str, typer.Option(help="Comma-separated; stlsq+operon for both as one.")
    ] = "stlsq,subset",
    suite: Annotated[
        str, typer.Option(help="odes: trajectories; static: y = f(x); all: both.")
    ] = "odes",
    systems: Annotated[
        str, typer.Option(help="Problems, comma-separated; empty for all; 'dysts:Name' for dysts'.")
    ] = "",
    noise: Annotated[str, typer.Option(help="Noise levels as shares of the spread.")] = "0,0.01",
    seeds: Annotated[str, typer.Option(help="Data seeds, comma-separated.")] = "0",
    seconds: Annotated[float, typer.Option(help="Budget of one search.")] = 60.0,
    workers: Annotated[int, typer.Option(help="Processes.")] = 1,
    executor: Annotated[str, typer.Option(help="Where to run: local, dask or ray.")] = "local",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for the table and the plot; cells finished in it are kept."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Compare backends on problems whose laws are known."""
    from sjepa.storage import writing
    from sjepa.studies.backends import benchmark as run, matrix, plot_results, summary

    console = Console(markup=False)
    bar = Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), console=Console(stderr=True, markup=False),
    )  # fmt: skip
    with bar:
        task = bar.add_task("searching", total=None)

        def show(row: dict[str, Any], done: int, total: int) -> None:
            mark = "found" if row["recovered"] else row["error"] or "not found"
            text = f"{row['system']} / {row['backend']} / {row['noise']:g}: {mark}"
            bar.update(task, description=text[:70], completed=done, total=total)

        table = run(
            words(systems) or None, words(backends), _numbers(noise, float), _numbers(seeds, int),
            suite=suite, seconds=seconds, workers=workers, executor=executor, out=out,
            progress=show,
        )  # fmt: skip
    if out is not None:
        with writing(out / "results.png") as file:
            plot_results(table).savefig(file, format="png", dpi=150)
    if json:
        print(json_module.dumps(json_module.loads(table.to_json(orient="records")), indent=1))
        return
    console.print(_as_table(matrix(table)))
    console.print()
    console.print(_as_table(summary(table)))
    if out is not None:
        console.print(f"Written: {out}/results.parquet, results.csv, results.png")


def _numbers(text: str, kind: type) -> list[Any]:
    try:
        return [kind(word) for word in words(text)]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a comma-separated list of numbers") from None


def _as_table(frame: Any) -> Table:
    table = Table(*map(str, frame.columns), box=None, pad_edge=False)
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row))
    return table
