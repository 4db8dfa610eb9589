"""``sjepa discover``: equations from a file of states."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sjepa.cli.app import app, say, shown
from sjepa.cli.inputs import (
    DataOptions,
    Force,
    Order,
    RandomState,
    check_place,
    command_line,
    read_data,
    reads_data,
)
from sjepa.cli.settings import ConfigFile, Set, Trust, pairs_of, parts_of, terms_of
from sjepa.errors import ConfigError


if TYPE_CHECKING:
    from sjepa.data import Trajectories
    from sjepa.estimator import SJEPA
    from sjepa.symbolic import Front


# Rows of the front that are printed after the chosen one.
MORE = 2


@app.command()
@reads_data
def discover(
    reading: DataOptions,
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="CSV, Parquet, NPZ or HDF5 file, or a folder of them.")
    ],
    config: ConfigFile = None,
    backend: Annotated[
        str | None, typer.Option(help="See 'sjepa backends'; by default by the library's size.")
    ] = None,
    set: Set = None,
    library: Annotated[
        str,
        typer.Option(
            help="Candidate terms, comma-separated; letters that are no columns are numbers to be "
            "found, as in 'x/(c + x)', and t is the time, as in 'sin(w*t)'. 'wide' adds many such "
            "terms to the default."
        ),
    ] = "",
    order: Order = 1,
    per_trajectory: Annotated[
        str | None,
        typer.Option(
            "--per-trajectory",
            "--vary",
            help="One structure for all trajectories: terms whose coefficients differ between "
            "them, comma-separated, or auto. -o NAME.csv keeps the coefficients.",
        ),
    ] = None,
    derivatives: Annotated[
        str,
        typer.Option(
            help="auto, smooth, weak, zoh (inputs held between samples) or discrete (a map); "
            "--set derivatives.lags=1 adds past values."
        ),
    ] = "auto",
    constraints: Annotated[
        list[str] | None,
        typer.Option(
            help='What is known, as "coef(p\', sin(q)) = -1"; "delay(u) <= 0.5" has the dead time '
            "of an input found up to that bound; repeatable."
        ),
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option(
            help='A known part of the law, as "p\' = -sin(q)": the rest is searched. Letters that '
            "are no columns are numbers to be found; repeatable."
        ),
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
    n_bootstrap: Annotated[
        int, typer.Option(help="Resamples of the data, for inclusion and interval of each term.")
    ] = 0,
    random_state: RandomState = 0,
    budget: Annotated[float | None, typer.Option(help="Seconds of processor time.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for the result, like that of fit; NAME.json for the law alone.",
        ),
    ] = None,
    force: Force = False,
    whole: Annotated[
        bool, typer.Option("--all", help="Print all of the front, not only up to the chosen law.")
    ] = False,
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the front as JSON.")] = False,
) -> None:
    """Find the equations that move measured states, and the front they were chosen from."""
    source = reading.source(data)
    trajectories = read_data(source)
    # These import torch, which takes longer than finding out that a column does not exist.
    from sjepa.data.derivative_settings import derivatives_of
    from sjepa.discovery import discover as run
    from sjepa.discovery.units import Units
    from sjepa.estimator import SJEPA
    from sjepa.runs import Run, writable
    from sjepa.storage import write_csv, write_whole, writing
    from sjepa.training import LawOnly

    alone = out is not None and out.suffix.lower() == ".json"
    if out is not None and not alone:
        Run.check_free(out, force)
        writable(out)
    else:
        check_place(out, force)
    parts = parts_of(context, set, trust, backend=backend, derivatives=derivatives)
    if derivatives_of(parts["derivatives"]).lags and out is not None and not alone:
        raise ConfigError("A law with lags is kept alone: --out NAME.json.", "out")
    terms: Any = library or None
    if library and library != "wide":
        terms = terms_of(library)
    if per_trajectory is not None and out is not None and out.suffix.lower() != ".csv":
        raise ConfigError("Coefficients of several trajectories are kept as -o NAME.csv.", "out")
    vary: Any = per_trajectory
    if vary not in (None, "auto"):
        vary = terms_of(vary)
    given = {k: str(v) for k, v in pairs_of(units, "--units").items()} or None
    if given is not None:
        given = {**trajectories.units, **given}
    front = run(
        trajectories, library=terms, order=order,  # type: ignore[arg-type]
        random_state=random_state, budget=budget, constraints=constraints or (),
        known=known or None, per_trajectory=vary,
        n_bootstrap=n_bootstrap, units=given and Units(given, dimensionless_constants), **parts,
    )  # fmt: skip
    law = front.best()
    if vary is not None and out is not None:
        with writing(out) as file:
            write_csv(front.per_trajectory.differing.reset_index(), file)
        out = None
    if out is not None and alone:
        write_whole(out, law.to_json().encode())
    elif out is not None:
        model = SJEPA(
            encoder="identity", backend=parts["backend"] or front.backend,
            search=LawOnly(derivatives=parts["derivatives"]),
            random_state=random_state, order=order,  # type: ignore[arg-type]
        )  # fmt: skip
        model.seed_ = random_state
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
                    **_by_trajectory(front),
                },
                indent=1,
            )
        )
    else:
        say("\n".join([*law.lines(digits=6), "", str(front) if whole else _shortened(front)]))


def _by_trajectory(front: Front) -> dict[str, Any]:
    """What ``--json`` says of coefficients that differ."""
    table = front.per_trajectory
    if table is None:
        return {}
    tables = {"shared": table.shared, "differing": table.differing}
    rows = {k: v.reset_index().to_dict("records") for k, v in tables.items()}
    return {"laws": [json_module.loads(law.to_json()) for law in table.laws], **rows}


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
