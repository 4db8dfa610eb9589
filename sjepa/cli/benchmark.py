"""``sjepa benchmark``: backends side by side, on known problems or on one's own data."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sjepa.cli.app import app
from sjepa.cli.compare import as_table, compare_on, counting_bar
from sjepa.cli.inputs import DataOptions, reads_data
from sjepa.cli.settings import ConfigFile, words


@app.command()
@reads_data
def benchmark(
    reading: DataOptions,
    data: Annotated[
        Path | None, typer.Argument(help="Your own table or trajectories; else known problems.")
    ] = None,
    config: ConfigFile = None,
    target: Annotated[
        str, typer.Option(help="Columns of the table to find formulas for, comma-separated.")
    ] = "",
    folds: Annotated[int, typer.Option(help="Parts of your data left out in turn.")] = 3,
    backends: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated; stlsq+operon for both as one. By default stlsq,subset, and on "
            "your own data all that are installed."
        ),
    ] = None,
    suite: Annotated[
        str, typer.Option(help="odes: trajectories; static: y = f(x); all: both.")
    ] = "odes",
    systems: Annotated[str, typer.Option(help="Problems, comma-separated; empty for all.")] = "",
    noise: Annotated[str, typer.Option(help="Noise levels as shares of the spread.")] = "0,0.01",
    seeds: Annotated[str, typer.Option(help="Data seeds, comma-separated.")] = "0",
    budget: Annotated[float, typer.Option(help="Seconds of processor time for one search.")] = 60.0,
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
    """Compare backends on problems whose laws are known, or on your own data.

    With a file, --target y compares formulas y = f(X) of a table, --time t equations of motion.
    """
    if data is not None:
        compare_on(
            data, target, reading,
            backends=words(backends) if backends else None, seed=_numbers(seeds, int)[0],
            seconds=budget, folds=folds, workers=workers, executor=executor, out=out, json=json,
        )  # fmt: skip
        return
    if target or reading != DataOptions():
        raise typer.BadParameter("--target and how to read data (--time, --id, ...) need a file")
    from sjepa.storage import writing
    from sjepa.studies.backends import benchmark as run, matrix, plot_results, summary

    console = Console(markup=False)
    with counting_bar() as bar:
        task = bar.add_task("searching", total=None)

        def show(row: dict[str, Any], done: int, total: int) -> None:
            mark = "found" if row["recovered"] else row["error"] or "not found"
            text = f"{row['system']} / {row['backend']} / {row['noise']:g}: {mark}"
            bar.update(task, description=text[:70], completed=done, total=total)

        table = run(
            words(systems) or None, words(backends or "stlsq,subset"),
            _numbers(noise, float), _numbers(seeds, int),
            suite=suite, seconds=budget, workers=workers, executor=executor, out=out,
            progress=show,
        )  # fmt: skip
    if out is not None:
        with writing(out / "results.png") as file:
            plot_results(table).savefig(file, format="png", dpi=150)
    if json:
        print(json_module.dumps(json_module.loads(table.to_json(orient="records")), indent=1))
        return
    console.print(as_table(matrix(table)))
    console.print()
    console.print(as_table(summary(table)))
    if out is not None:
        console.print(f"Written: {out}/results.parquet, results.csv, results.png")


def _numbers(text: str, kind: type) -> list[Any]:
    try:
        return [kind(word) for word in words(text)]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a comma-separated list of numbers") from None
