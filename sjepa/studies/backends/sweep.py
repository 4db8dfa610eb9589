"""Problems x backends x noise x seeds, on as many workers as there are; finished cells are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from sjepa.backend.executors import run_on
from sjepa.backend.registry import make_backend
from sjepa.data import SYSTEMS, find_system
from sjepa.errors import ConfigError, FormatError
from sjepa.settings import path_of
from sjepa.storage import make_folder, write_csv, writing
from sjepa.storage.tensors import read_state, write_state
from sjepa.studies.backends.cells import COLUMNS, Cell, run_cell
from sjepa.studies.backends.problems import PROBLEMS


KIND, VERSION = "sjepa-cell", 1
SUITES = {"odes": (*SYSTEMS,), "static": (*PROBLEMS,), "all": (*SYSTEMS, *PROBLEMS)}


def benchmark(
    systems: Sequence[str] | None = None,
    backends: Sequence[str] = ("stlsq", "subset"),
    noise: Sequence[float] = (0.0,),
    seeds: Sequence[int] = (0,),
    *,
    suite: str = "odes",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    seconds: float | None = 60.0,
    workers: int = 1,
    executor: Any = "local",
    out: str | Path | None = None,
    progress: Callable[[dict[str, Any], int, int], None] | None = None,
) -> pd.DataFrame:
    """Run every combination and return one row each; a failing backend is a row with its error.

    Parameters
    ----------
    systems : names in ``sjepa.data.SYSTEMS`` or ``PROBLEMS``; by default all of the `suite`
    backends : names, several for one search joined as in ``"stlsq+operon"``
    suite : "odes" (trajectories of known systems), "static" (y = f(x)) or "all"
    options : settings of a backend, by its name
    seconds : budget of one search, in processor time
    workers, executor : how many processes, and where: "local", "dask", "ray" or a client
    out : folder for results.parquet and results.csv, and for each cell as soon as it is finished;
        a sweep that was stopped and is started again in its folder runs only the rest
    progress : called with each finished row, the number finished and the number in all
    """
    if suite not in SUITES:
        raise ConfigError(f"suite is one of {', '.join(SUITES)}, got {suite!r}.", "suite")
    systems = list(SUITES[suite]) if systems is None else list(systems)
    for name in systems:
        if name not in PROBLEMS:
            find_system(name)
    for name in backends:
        make_backend(name)
    cells = [
        Cell(s, b, float(n), int(seed), (options or {}).get(b, {}), seconds)
        for s, n, b, seed in product(systems, noise, backends, seeds)
    ]
    if not cells:
        raise ConfigError("Nothing to run: give at least one system, backend, noise and seed.")
    folder = None if out is None else path_of(out, "out")
    rows = []
    for row in _each(cells, executor, workers, folder):
        rows.append(row)
        if progress is not None:
            progress(row, len(rows), len(cells))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table = table.sort_values(["system", "backend", "noise", "seed"], ignore_index=True)
    if folder is not None:
        write_results(table, folder)
    return table


def _each(
    cells: Sequence[Cell], executor: Any, workers: int, out: Path | None
) -> Iterator[dict[str, Any]]:
    """The rows of the cells, first those that an earlier sweep left in the folder."""
    todo = []
    for cell in cells:
        place = None if out is None else cell_file(out, cell)
        row = None if place is None else read_cell(place)
        if row is None:
            todo.append((cell, place))
        else:
            yield row
    for place, row in run_on(executor, _run, todo, workers):
        if place is not None:
            write_cell(place, row)
        yield row


def _run(_: int, job: tuple[Cell, Path | None]) -> tuple[Path | None, dict[str, Any]]:
    cell, place = job
    return place, run_cell(cell)


def write_results(table: pd.DataFrame, folder: Path) -> None:
    """results.parquet and results.csv."""
    make_folder(folder)
    with writing(folder / "results.parquet") as file:
        table.to_parquet(file, index=False)
    with writing(folder / "results.csv") as file:
        write_csv(table, file)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Per backend and noise level: systems recovered, mean scores, failures, median time."""
    groups = table.assign(failed=table["error"] != "").groupby(["backend", "noise"])
    return groups.agg(
        recovered=("recovered", "sum"),
        cells=("recovered", "size"),
        precision=("precision", "mean"),
        recall=("recall", "mean"),
        valid_time=("valid_time", "mean"),
        r2=("r2", "median"),
        r2_beyond=("r2_beyond", "median"),
        median_seconds=("seconds", "median"),
        failed=("failed", "sum"),
    ).reset_index()


def matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Systems down, backend and noise across: how many seeds were recovered, in what time."""

    def cell(rows: pd.DataFrame) -> str:
        if (rows["error"] != "").all():
            return "failed"
        recovered = f"{rows['recovered'].sum()}/{len(rows)}" if len(rows) > 1 else None
        word = recovered or ("yes" if rows["recovered"].iloc[0] else "no")
        return f"{word}, {rows['seconds'].median():.1f} s"

    keys = ["system", "backend", "noise"]
    cells = {key: cell(rows) for key, rows in table.groupby(keys, sort=False)}
    columns = sorted({(b, n) for _, b, n in cells})
    data = {
        f"{b}, noise {n:g}": [cells.get((s, b, n), "") for s in table["system"].unique()]
        for b, n in columns
    }
    return pd.DataFrame({"system": table["system"].unique(), **data})


def cell_file(folder: Path, cell: Cell) -> Path:
    """The file of a cell; other settings and other releases have files of their own."""
    from sjepa import __version__

    settings = repr((cell.system, cell.backend, cell.noise, cell.seed, sorted(cell.options.items()),
                  cell.seconds, __version__))  # fmt: skip
    return folder / "cells" / f"{hashlib.sha256(settings.encode()).hexdigest()[:24]}.safetensors"


def write_cell(place: Path, row: dict[str, Any]) -> None:
    """Write the row of a finished cell; one that failed is tried again the next time."""
    if not row["error"]:
        make_folder(place.parent)
        write_state(place, KIND, VERSION, row)


def read_cell(place: Path) -> dict[str, Any] | None:
    """The row of a cell, if it was finished; a damaged file is one that was not."""
    try:
        row = read_state(place, KIND, VERSION)
    except FormatError:
        return None
    return row if isinstance(row, dict) and row.keys() == {*COLUMNS} else None


def finished_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of all cells that a sweep in this folder has finished so far."""
    rows = map(read_cell, sorted((folder / "cells").glob("*.safetensors")))
    return [row for row in rows if row is not None]
