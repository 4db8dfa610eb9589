"""``sjepa backends``: which backends there are."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sjepa.cli.app import app


# Budget of the search that shows whether a backend works.
SECONDS = 2.0


@app.command()
def backends(
    json: Annotated[bool, typer.Option(help="Print JSON.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Run each installed one on a two-second problem.")
    ] = False,
) -> None:
    """List the backends, what is installed, and how to install the rest."""
    from sjepa.backend.registry import sources

    rows = [
        {
            "name": name,
            "description": source.description,
            "version": source.version(),
            "installed": not source.missing(),
            "install": source.fix,
        }
        for name, source in sorted(sources().items())
    ]
    if check:
        for row in rows:
            row |= _check(str(row["name"])) if row["installed"] else {}
    if json:
        print(json_module.dumps(rows, indent=1))
        return
    more = ["works", "start-up", "search"] if check else []
    table = Table("name", "description", "version", "installed", *more, "how to install", box=None)
    for row in rows:
        table.add_row(
            str(row["name"]),
            str(row["description"]),
            str(row["version"]),
            "yes" if row["installed"] else "no",
            *(_cell(row.get(key)) for key in ("works", "start_up", "search") if check),
            "" if row["installed"] else str(row["install"]),
        )
    Console(markup=False).print(table)
    for row in rows:
        if row.get("note"):
            Console(markup=False).print(f"{row['name']}: {row['note']}", soft_wrap=True)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.1f} s" if isinstance(value, float) else ""


def _check(name: str) -> dict[str, object]:
    """Whether a backend finds the oscillator within two seconds, and how long it took to start:
    what a first search takes longer than a second one, imports, workers and compilation."""
    import time

    import numpy as np

    from sjepa.backend import Budget, Problem
    from sjepa.backend.registry import make_backend
    from sjepa.symbolic import Library

    z = np.random.default_rng(0).uniform(-2.0, 2.0, (200, 2))
    library = Library.polynomial(["q", "p"], 2)
    targets = np.stack([z[:, 1], -4.0 * z[:, 0]], axis=1)
    problem = Problem(z, targets, library=library, budget=Budget(SECONDS))
    times = [time.perf_counter()]
    try:
        backend = make_backend(name)
        note = backend.describe()
        problem.solve(backend)
        times.append(time.perf_counter())
        found = "; ".join(problem.solve(backend).best().lines(digits=4))
        works = found == "q' = p; p' = -4*q"
        note = note if works else f"found {found} instead of q' = p; p' = -4*q"
    except Exception as error:  # whatever is wrong with it is the answer
        works, note = False, " ".join(f"{type(error).__name__}: {error}".split())
    first, *second = np.diff([*times, time.perf_counter()]).tolist()
    search = second[0] if second else first
    return {"works": works, "start_up": max(first - search, 0.0), "search": search, "note": note}
