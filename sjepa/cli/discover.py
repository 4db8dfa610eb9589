"""``sjepa discover``: equations from a file of states."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sjepa.cli.app import app, say, shown
from sjepa.cli.inputs import (
    Actions,
    Columns,
    Force,
    FormName,
    Gaps,
    Id,
    Missing,
    Order,
    Time,
    Window,
    check_place,
    command_line,
    read_data,
    source_of,
)
from sjepa.cli.settings import ConfigFile, Trust, backend_of, pairs_of, terms_of
from sjepa.errors import ConfigError


if TYPE_CHECKING:
    from sjepa.data import Trajectories
    from sjepa.estimator import SJEPA
    from sjepa.symbolic import Front


# Rows of the front that are printed after the chosen one.
MORE = 2


@app.command()
def discover(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="CSV, Parquet, NPZ or HDF5 file, or a folder of them.")
    ],
    config: ConfigFile = None,
    backend: Annotated[
        str | None, typer.Option(help="See 'sjepa backends'; by default by the library's size.")
    ] = None,
    backend_option: Annotated[
        list[str] | None, typer.Option(help="Option of the backend, name=value; repeatable.")
    ] = None,
    time: Time = None,
    id: Id = None,
    columns: Columns = "",
    actions: Actions = "",
    terms: Annotated[
        str,
        typer.Option(
            help="Candidate terms, comma-separated; letters that are no columns are numbers to be "
            "found, as in 'x/(c + x)', and t is the time, as in 'sin(w*t)'. 'wide' adds many such "
            "terms to the default."
        ),
    ] = "",
    order: Order = 1,
    lags: Annotated[
        int, typer.Option(help="Steps back that belong to the state, where part of it is hidden.")
    ] = 0,
    form: FormName = "auto",
    window: Window = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(help='What is known, as "coef(p\', sin(q)) = -1"; repeatable.'),
    ] = None,
    units: Annotated[
        list[str] | None,
        typer.Option(
            help="Unit of a column or of time (t), as q=rad; repeatable. Those in brackets behind "
            "names of columns are known."
        ),
    ] = None,
    dimensionless_constants: Annotated[
        bool, typer.Option(help="Numbers in the law have no unit.")
    ] = False,
    bootstrap: Annotated[
        int, typer.Option(help="Resamples of the data, for inclusion and interval of each term.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    seconds: Annotated[float | None, typer.Option(help="Time budget.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for the result, like that of fit; NAME.json for the law alone.",
        ),
    ] = None,
    force: Force = False,
    missing: Missing = None,
    gaps: Gaps = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Print all of the front, not only up to the chosen law.")
    ] = False,
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the front as JSON.")] = False,
) -> None:
    """Find the equations that move measured states, and the front they were chosen from."""
    source = source_of(data, time, id, columns, actions, missing, gaps)
    trajectories = read_data(source)
    # These import torch, which takes longer than finding out that a column does not exist.
    from sjepa.discovery import discover as run
    from sjepa.estimator import SJEPA
    from sjepa.runs import Run, writable
    from sjepa.storage import write_whole

    alone = out is not None and out.suffix.lower() == ".json"
    if out is not None and not alone:
        Run.check_free(out, force)
        writable(out)
    else:
        check_place(out, force)
    if lags and out is not None and not alone:
        raise ConfigError("A law with lags is kept alone: --out NAME.json.", "out")
    library: Any = terms or None
    if terms and terms != "wide":
        library = terms_of(terms)
    if backend_option and backend is None:
        raise ConfigError("--backend-option needs --backend.")
    given = {k: str(v) for k, v in pairs_of(units, "--units").items()} or None
    if given is not None:
        given = {**trajectories.units, **given}
    chosen = None if backend is None else backend_of(context, backend, backend_option, trust)
    front = run(
        trajectories, backend=chosen, library=library,
        order=order, lags=lags, form=form, seed=seed, budget=seconds,  # type: ignore[arg-type]
        window=window, constraints=constraint or (), n_bootstrap=bootstrap, units=given,
        dimensionless_constants=dimensionless_constants,
    )  # fmt: skip
    law = front.best()
    if out is not None and alone:
        write_whole(out, law.to_json().encode())
    elif out is not None:
        model = SJEPA(
            encoder="identity", backend=chosen or front.backend, random_state=seed,
            dynamics=law.dynamics, order=order,  # type: ignore[arg-type]
        )  # fmt: skip
        model.seed_ = seed
        _save(out, model, front, trajectories, source)
    if json:
        records: list[dict[str, Any]] = front.to_frame().to_dict("records")
        # JSON has no NaN; laws that were not run have no error.
        rows = [{k: None if v != v else v for k, v in row.items()} for row in records]
        print(
            json_module.dumps(
                {
                    "form": front.form,
                    "law": json_module.loads(law.to_json()),
                    "front": rows,
                    "intervals": [asdict(row) for row in front.intervals],
                },
                indent=1,
            )
        )
    else:
        say("\n".join([*law.lines(digits=6), "", str(front) if whole else _shortened(front)]))


def _shortened(front: Front) -> str:
    """The front up to two rows after the chosen one, without what was printed as a note."""
    chosen = front.candidates.index(front.best_candidate())
    left = len(front) - (chosen + 1 + MORE)
    fewer = replace(
        front, candidates=front.candidates[: chosen + 1 + MORE], chosen=chosen,
        notes=tuple(n for n in front.notes if n not in shown),
    )  # fmt: skip
    return f"{fewer}\n  {left} more with --all" if left > 0 else str(fewer)


def _save(
    out: Path, model: SJEPA, front: Front, data: Trajectories, source: dict[str, Any]
) -> None:
    """A run folder like that of a fit with the columns as coordinates."""
    from sjepa.estimator.files import plain_params, saved_from
    from sjepa.runs import Run, RunRecorder, fingerprint
    from sjepa.runs.inspection import stamped
    from sjepa.storage import writing_folder
    from sjepa.training import FitResult as Learned, identity

    model._keep(Learned.of_front(front, identity), data, RunRecorder().table())
    asked = {"settings": plain_params(model), "fingerprint": fingerprint(data),
             "data": stamped(source), "command": command_line()}  # fmt: skip
    with writing_folder(out) as draft, Run.begin(draft, asked) as run:
        run.finish(saved_from(model))
