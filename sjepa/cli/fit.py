"""``sjepa fit``: coordinates and equations from a file, with checkpoints."""

from __future__ import annotations

import json as json_module
import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from sjepa.cli.app import Stopped, app, say
from sjepa.cli.inputs import (
    DataOptions,
    Order,
    RandomState,
    read_data,
    reads_data,
)
from sjepa.cli.settings import ConfigFile, Set, Trust, parts_of, terms_of
from sjepa.errors import ConfigError, FormatError


if TYPE_CHECKING:
    from sjepa.data import Trajectories
    from sjepa.estimator import SJEPA
    from sjepa.runs import Run

# Simulating all of a large data set would take longer than the fit.
MAX_SCORED = 20


@app.command()
@reads_data
def fit(
    reading: DataOptions,
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Argument(help="CSV, Parquet, NPZ or HDF5 file, or a folder of them.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for checkpoints, log and the model.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the run in this folder.", metavar="RUN")
    ] = None,
    config: ConfigFile = None,
    latent_dim: Annotated[
        str, typer.Option(help="Number of coordinates to find, or auto: the fewest.")
    ] = "2",
    encoder: Annotated[
        str, typer.Option(help="auto: find coordinates; identity: take the columns as they are.")
    ] = "auto",
    search: Annotated[
        str | None, typer.Option(help="joint; alternating as in the paper; law: coordinates given.")
    ] = None,
    backend: Annotated[str, typer.Option(help="See 'sjepa backends'.")] = "stlsq",
    correction: Annotated[
        str | None, typer.Option(help="neural: learn the residual of the law; or neural_only.")
    ] = None,
    set: Set = None,
    library: Annotated[
        str, typer.Option(help="Candidate terms in z1, z2, ..., comma-separated.")
    ] = "",
    delta: Annotated[str, typer.Option(help="Largest adequate risk, or auto.")] = "auto",
    order: Order = 1,
    history: Annotated[
        str | None,
        typer.Option(help="Read coordinates off this many successive rows, or auto."),
    ] = None,
    random_state: RandomState = 0,
    trust: Trust = False,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard's files.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find coordinates of observations and the shortest adequate law of their motion."""
    log = Console(stderr=True, markup=False)
    run: Run | None
    if resume is not None:
        if out is not None:
            raise ConfigError("--resume continues in its own folder; leave --out out.")
        run, model, source = _reopen(resume, data, trust)
        trajectories = read_data(source)
    else:
        if data is None:
            raise ConfigError("Give a data file, or --resume with the folder of a run.")
        source = reading.source(data)
        trajectories = read_data(source)
        # This imports torch, which takes longer than finding out that a column does not exist.
        from sjepa.estimator import SJEPA

        if out is not None:
            _check_place(out)
        default = "joint" if encoder == "auto" else "law"
        model = SJEPA(
            _whole_or_auto(latent_dim, "--latent-dim"),
            encoder=encoder,
            delta=_delta(delta),
            order=order,  # type: ignore[arg-type]
            history=_whole_or_auto(history, "--history"),
            random_state=random_state,
            **parts_of(
                context, set, trust, backend=backend, search=search or default,
                correction=correction,
            ),
        )  # fmt: skip
        if library:
            model.library = _library(library, model, trajectories)
        run = None if out is None else _begin(out, model, trajectories, source)
    _fit(model, trajectories, run, log, tensorboard)
    _report(model, trajectories, run, json)


def _delta(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise ConfigError(f"--delta is a number or auto, got {text!r}.") from None


def _whole_or_auto(text: str | None, option: str) -> Any:
    try:
        return text if text in (None, "auto") else int(text)
    except ValueError:
        raise ConfigError(f"{option} is a whole number or auto, got {text!r}.") from None


def _library(given: str, model: SJEPA, trajectories: Trajectories) -> Any:
    from sjepa.data.names import numbered
    from sjepa.symbolic import Library

    if model.encoder == "identity":
        names = list(trajectories.names or numbered("z", trajectories.obs_shape[0]))
    elif model.latent_dim == "auto":
        raise ConfigError("--latent-dim auto tries several libraries; leave --library out.")
    else:
        names = list(numbered("z", int(model.latent_dim)))
    return Library.from_terms(terms_of(given), [*names, *(trajectories.input_names or ())])


def _check_place(out: Path) -> None:
    from sjepa.runs import Run, writable

    Run.check_free(out)
    writable(out)


def _begin(out: Path, model: SJEPA, trajectories: Trajectories, source: dict[str, Any]) -> Run:
    from sjepa.estimator.files import plain_params
    from sjepa.estimator.validate import validate
    from sjepa.runs import Run, fingerprint
    from sjepa.runs.inspection import stamped

    validate(model, trajectories)  # before a folder is made for nothing
    asked = {
        "settings": plain_params(model),
        "fingerprint": fingerprint(trajectories),
        "data": stamped(source),
    }
    return Run.begin(out, asked)


def _reopen(folder: Path, data: Path | None, trust: bool) -> tuple[Run, SJEPA, dict[str, Any]]:
    """The run, its model before the fit, and where its data are."""
    from sjepa.estimator import SJEPA
    from sjepa.estimator.files import with_settings
    from sjepa.runs import Run
    from sjepa.runs.inspection import distrust

    run = Run.open(folder)
    model = with_settings(SJEPA(), run.asked, trust)
    source = run.source()
    if data is not None:
        source["path"] = str(data.absolute())
    elif not Path(source["path"]).exists():
        raise ConfigError(
            f"The data of this run are no longer at {source['path']}; say where they are: "
            f"sjepa fit DATA --resume {folder}"
        )
    elif not trust and (reason := distrust(run)):
        raise FormatError(
            f"The run in {folder} would read {source['path']}, {reason}: see sjepa runs show "
            f"{folder}, then add --trust, or give the data: sjepa fit DATA --resume {folder}"
        )
    return run, model, source


def _fit(
    model: SJEPA, data: Trajectories, run: Run | None, log: Console, tensorboard: Path | None
) -> None:
    from sjepa.callbacks import ProgressBar, TensorBoard
    from sjepa.cli.progress import GracefulInterrupt

    with ExitStack() as stack:
        bar, brake = (
            stack.enter_context(ProgressBar()),
            stack.enter_context(GracefulInterrupt(log)),
        )
        model.verbose = [bar, brake]
        if tensorboard is not None:
            model.verbose = [bar, brake, TensorBoard(tensorboard)]
        try:
            model.fit(data, run=run)
        except KeyboardInterrupt:
            share = 100 * bar.share
            where = f" Resume with: sjepa fit --resume {run.folder}" if run is not None else ""
            raise Stopped(f"stopped at {share:.0f} %.{where}") from None
        finally:
            model.verbose = None


def _report(model: SJEPA, data: Trajectories, run: Run | None, json: bool) -> None:
    from sjepa.estimator.files import dimension_rows, finite

    score = model.score(data[:: -(-len(data) // MAX_SCORED)])
    if json:
        result = {
            "law": json_module.loads(model.law_.to_json()),
            "equations": model.law_.lines(6),
            "front": model.equations_.to_dict("records"),
            "diagnostics": model.diagnostics_,
            "warnings": model.warnings_,
            "figures": finite(model.figures_),
            "dimensions": dimension_rows(model),
            "form": model.front_.form,
            "score": score if math.isfinite(score) else None,  # JSON has no infinity
            "run": None if run is None else str(run.folder),
        }
        print(json_module.dumps(result, indent=1))
        return
    model.print(digits=6)
    terms, tree = (model.law_.complexity(m) for m in ("terms", "tree"))
    summary = (
        f"Complexity {terms:g} (terms), {tree:g} (tree). "
        f"R2 of simulated against encoded trajectories, all that were given: {score:.4f}."
    )
    summary += _held_out(model.figures_)
    if model.front_.form:
        summary += f" Form: {model.front_.form}."
    notes = [f"! {d}" if d in model.warnings_ else d for d in model.diagnostics_]
    if run is not None:
        notes.append(f"Written to {run.folder}; sjepa.load({str(run.folder)!r}) reads it.")
    say("\n".join([summary, *notes]), error=True)


def _held_out(figures: dict[str, float]) -> str:
    """How the law does on what it was not fitted to, beside what it was, where that is known."""
    if "rollout_held_out" in figures:
        out, seen = (1 - figures[f"rollout_{part}"] for part in ("held_out", "training"))
        return f" R2 of rollouts: {out:.4f} held out, {seen:.4f} in training."
    return " No data were held out."
