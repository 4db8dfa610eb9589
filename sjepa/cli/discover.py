"""``sjepa discover``: equations from a file of states."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sjepa.cli.app import app
from sjepa.cli.datafile import Actions, Columns, DropNan, Id, Time, read_source, source_of
from sjepa.cli.settings import ConfigFile, pairs_of, terms_of
from sjepa.errors import ConfigError


@app.command()
def discover(
    data: Annotated[
        Path, typer.Argument(help="CSV, Parquet, NPZ or HDF5 file, or a folder of them.")
    ],
    config: ConfigFile = None,
    backend: Annotated[str, typer.Option(help="Search engine; see 'sjepa backends'.")] = "stlsq",
    backend_option: Annotated[
        list[str] | None, typer.Option(help="Option of the engine, name=value; repeatable.")
    ] = None,
    time: Time = None,
    id: Id = None,
    columns: Columns = "",
    actions: Actions = "",
    terms: Annotated[str, typer.Option(help="Candidate terms, comma-separated.")] = "",
    form: Annotated[str, typer.Option(help="auto, derivative, weak, zoh or discrete.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    seconds: Annotated[float | None, typer.Option(help="Time budget.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the law as JSON to this file.")] = None,
    drop_nan: DropNan = False,
    json: Annotated[bool, typer.Option("--json", help="Print the front as JSON.")] = False,
) -> None:
    """Find the equations that move measured states."""
    from sjepa.cli.progress import ProgressBar
    from sjepa.data.names import numbered
    from sjepa.discovery import discover as run
    from sjepa.storage import write_whole
    from sjepa.symbolic import Library

    log = Console(stderr=True)
    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"The folder {out.absolute().parent} does not exist; create it first.")
    trajectories, dropped = read_source(source_of(data, time, id, columns, actions, drop_nan))
    if dropped:
        log.print(dropped, highlight=False, soft_wrap=True)
    library = None
    if terms:
        names = trajectories.names or numbered("x", trajectories.obs_shape[0])
        library = Library.from_terms(terms_of(terms), [*names, *(trajectories.action_names or ())])
    settings = pairs_of(backend_option, "--backend-option")
    with ProgressBar(log, "differentiating") as bar:
        front = run(
            trajectories, backend={"name": backend, **settings}, library=library,
            form=form, seed=seed, budget=seconds, progress=bar.show,  # type: ignore[arg-type]
        )  # fmt: skip
    law = front.best()
    if out is not None:
        write_whole(out, law.to_json().encode())
    if json:
        rows: list[dict[str, Any]] = front.to_frame().to_dict("records")
        print(json_module.dumps({"law": json_module.loads(law.to_json()), "front": rows}, indent=1))
    else:
        print("\n".join(law.lines(digits=6)))
