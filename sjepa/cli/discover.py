"""``sjepa discover``: equations from a file of states."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sjepa.cli.app import app
from sjepa.errors import ConfigError


@app.command()
def discover(
    data: Annotated[
        Path, typer.Argument(help="CSV, Parquet, NPZ or HDF5 file, or a folder of them.")
    ],
    backend: Annotated[str, typer.Option(help="Search engine; see 'sjepa backends'.")] = "stlsq",
    time: Annotated[str | None, typer.Option(help="Name of the time column.")] = None,
    id: Annotated[str | None, typer.Option(help="Column that tells trajectories apart.")] = None,
    columns: Annotated[str, typer.Option(help="State columns, comma-separated.")] = "",
    actions: Annotated[str, typer.Option(help="Action columns, comma-separated.")] = "",
    terms: Annotated[str, typer.Option(help="Candidate terms, comma-separated.")] = "",
    form: Annotated[str, typer.Option(help="auto, derivative, weak, held or discrete.")] = "auto",
    seed: Annotated[int, typer.Option()] = 0,
    seconds: Annotated[float | None, typer.Option(help="Time budget.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the law as JSON to this file.")] = None,
    drop_nan: Annotated[bool, typer.Option(help="Leave out rows with missing values.")] = False,
    json: Annotated[bool, typer.Option(help="Print the front as JSON.")] = False,
) -> None:
    """Find the equations that move measured states."""
    from sjepa.data import read
    from sjepa.discovery import discover as run
    from sjepa.symbolic import Library

    log = Console(stderr=True)
    trajectories = read(
        data, time=time, id=id, columns=_words(columns) or None, actions=_words(actions),
        allow_nan=drop_nan,
    )  # fmt: skip
    if drop_nan:
        trajectories, dropped = trajectories.drop_nan()
        log.print(str(dropped))
    library = None
    if terms:
        names = trajectories.names or [f"x{i + 1}" for i in range(trajectories.obs_shape[0])]
        library = Library.from_terms(_terms(terms), [*names, *(trajectories.action_names or ())])
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=log)
    with bar:
        task = bar.add_task("differentiating", total=1.0)
        front = run(
            trajectories, backend=backend, library=library, form=form, seed=seed, budget=seconds,  # type: ignore[arg-type]
            progress=lambda line, share: bar.update(task, description=line[:60], completed=share),
        )  # fmt: skip
    law = front.best()
    if out is not None:
        draft = out.with_name(f".{out.name}")
        draft.write_text(law.to_json(), encoding="utf-8")
        draft.replace(out)
    if json:
        rows: list[dict[str, Any]] = front.to_frame().to_dict("records")
        print(json_module.dumps({"law": json_module.loads(law.to_json()), "front": rows}, indent=1))
    else:
        print("\n".join(law.lines(digits=6)))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _terms(text: str) -> list[str]:
    """Split at commas outside parentheses: max(x, y) is one term."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts = [p.strip() for p in [*parts, text[start:]]]
    if not all(parts):
        raise ConfigError(f"--terms has an empty term: {text!r}.")
    return parts
