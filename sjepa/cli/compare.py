"""Backends side by side on a file of one's own: what ``sjepa benchmark FILE`` does."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sjepa.cli.inputs import DataOptions, read_data
from sjepa.cli.settings import words
from sjepa.errors import DataError


# What is printed; the file has the rest.
SHOWN = ["backend", "score", "complexity", "verdict", "agreement", "seconds", "equation"]


def compare_on(
    path: Path,
    target: str,
    reading: DataOptions,
    *,
    backends: Sequence[str] | None,
    seed: int,
    seconds: float,
    folds: int,
    workers: int,
    executor: str,
    out: Path | None,
    json: bool,
) -> None:
    """Compare backends on a table with targets, or on trajectories; print and write the result."""
    where = reading.source(path)  # a wrong path before slow imports
    from sjepa.storage import make_folder, write_csv, writing
    from sjepa.studies.compare import compare

    settings: dict[str, Any] = {
        "backends": backends, "budget": seconds, "cv": folds, "random_state": seed,
        "workers": workers, "executor": executor,
    }  # fmt: skip
    if target:
        X, y = _columns(path, words(target), words(reading.columns))
    else:
        X, y = read_data(where), None
    with counting_bar() as bar:
        task = bar.add_task("searching", total=None)

        def show(label: str, done: int, total: int) -> None:
            bar.update(task, description=f"{label} done", completed=done, total=total)

        found = compare(X, y, **settings, progress=show)
    table = found.to_frame()
    if out is not None:
        make_folder(out)
        with writing(out / "comparison.csv") as file:
            write_csv(table, file)
        found.report(out / "comparison.html", title=f"Backends on {path.name}")
    if json:
        print(json_module.dumps(json_module.loads(table.to_json(orient="records")), indent=1))
        return
    console = Console(markup=False)
    done = table[table["error"] == ""]
    console.print(as_table(done[SHOWN].astype(object).where(done[SHOWN].notna(), "")))
    for row in table[table["error"] != ""].itertuples():
        console.print(f"{row.backend}: {row.error}")
    if out is not None:
        console.print(f"Written: {out}/comparison.csv, comparison.html")


def _columns(path: Path, targets: Sequence[str], columns: Sequence[str]) -> tuple[Any, Any]:
    """The columns of a table to predict from, and those to predict."""
    from sjepa.data.files import read_table

    frame = read_table(path)
    for name in (*targets, *columns):
        if name not in frame:
            raise DataError(f"{path}: no column {name!r}; there are {', '.join(map(str, frame))}.")
    inputs = list(columns) or [n for n in frame.select_dtypes("number") if n not in targets]
    if clash := set(inputs) & set(targets):
        raise DataError(f"{path}: {min(clash)} is a target; leave it out of --columns.")
    whole = frame[[*inputs, *targets]].dropna()
    if not inputs or len(whole) < len(frame):
        missing = len(frame) - len(whole)
        raise DataError(
            f"{path}: {missing} rows have missing values; drop or fill them."
            if inputs
            else f"{path}: no column of numbers beside the target."
        )
    y = whole[list(targets)]
    return whole[inputs], y.iloc[:, 0] if len(targets) == 1 else y


def counting_bar() -> Progress:
    """What is done of how many, on standard error."""
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), console=Console(stderr=True, markup=False),
    )  # fmt: skip


def as_table(frame: Any) -> Table:
    table = Table(*map(str, frame.columns), box=None, pad_edge=False)
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row))
    return table
