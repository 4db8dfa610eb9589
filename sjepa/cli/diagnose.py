"""``sjepa diagnose``: do the coordinates of these encoders have a short law?"""

from __future__ import annotations

import json as json_module
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sjepa.cli.app import app
from sjepa.errors import ConfigError


@app.command()
def diagnose(
    data: Annotated[
        str,
        typer.Option(
            help="Observations: a data file, a video, a folder of pictures, or video:NAME?seed=0 "
            "for a rendered one (pendulum, spring_mass, two_body, bouncing_ball)."
        ),
    ],
    encoder: Annotated[
        list[str],
        typer.Option(
            help="pixels, random-cnn, huggingface:FOLDER, timm:NAME?weights=FILE, "
            "torchscript:FILE, or end-to-end; ?head=..., ?layer=..., ?pool=... for this one "
            "alone. Repeat to compare."
        ),
    ],
    head: Annotated[
        str, typer.Option(help="auto, none, pca, whiten, slow or learned, for all encoders.")
    ] = "auto",
    latent_dim: Annotated[int, typer.Option(help="Coordinates.")] = 2,
    order: Annotated[int, typer.Option(help="2 for laws of accelerations, as from frames.")] = 1,
    delta: Annotated[float, typer.Option(help="Unexplained share that is adequate.")] = 0.01,
    terms: Annotated[
        str, typer.Option(help="Candidate terms in z1, z2, ...; comma-separated.")
    ] = "",
    step: Annotated[float | None, typer.Option(help="Time between frames or rows.")] = None,
    size: Annotated[int | None, typer.Option(help="Resize videos to this side.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of the rollouts.")] = None,
    seed: Annotated[int, typer.Option()] = 0,
    trust: Annotated[bool, typer.Option(help="Run TorchScript files, which are programs.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for table, JSON and plot.")
    ] = None,
    json: Annotated[bool, typer.Option(help="Print everything as JSON.")] = False,
) -> None:
    """Compare encoders: C_dyn curve, law, rollouts, probes, collapse."""
    from sjepa.studies.encoders import diagnose as run

    trajectories = _read(data, step, size)
    chosen = dict(_encoder(text, head, trust) for text in encoder)
    if len(chosen) < len(encoder):
        raise ConfigError("An encoder is given twice.")
    log = Console(stderr=True, markup=False)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=log,
    )
    with bar:
        task = bar.add_task("reading", total=1.0)
        comparison = run(
            chosen, trajectories, latent_dim=latent_dim, order=order,
            library=_library(terms, latent_dim, order), delta=delta, horizon=horizon, seed=seed,
            progress=lambda line, share: bar.update(task, description=line[:60], completed=share),
        )  # fmt: skip
    if out is not None:
        comparison.save(out)
        log.print(f"Written: {out}/table.csv, diagnosis.json, diagnosis.png")
    if json:
        print(json_module.dumps(comparison.to_dict(), indent=1))
        return
    _show(comparison)


def _show(comparison: Any) -> None:
    console = Console(markup=False)
    columns = ("encoder", "head", "C_dyn", "rollout", "diverged", "probe_r2", "neighbour")
    table = Table("encoder", "head", "C_dyn", box=None, pad_edge=False)
    for name in ("rollout", "diverged", "probe R²", "neighbour"):
        table.add_column(name, no_wrap=True)
    frame = comparison.to_frame()
    for line in frame[list(columns)].itertuples(index=False):
        table.add_row(*(_text(v) for v in line))
    console.print(table)
    for row, line in zip(comparison, frame.itertuples(index=False), strict=True):
        doubt = "" if row.adequate else f"  (no law reaches δ = {comparison.delta:g})"
        console.print(f"\n{row.name}{doubt}", style="bold", highlight=False)
        lines = [*row.law.lines(digits=5), *row.notes, *map(str, row.findings)]
        if row.probe is not None:
            lines.append(
                f"reference states: {_text(line.rollout_state)} of their variance is off in "
                f"rollouts; a probe of the whole embedding has R² {_text(line.probe_embedding)}."
            )
        for text in lines:
            console.print(f"  {text}", highlight=False)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "∞" if value == float("inf") else "" if value != value else f"{value:.3g}"
    return "" if value is None else str(value)


def _read(text: str, step: float | None, size: int | None) -> Any:
    from sjepa.data import read, read_video, rendered
    from sjepa.data.video import videos_of

    if text.startswith("video:"):
        name, _, query = text.removeprefix("video:").partition("?")
        options = {
            k: _number(k, v) for k, _, v in (p.partition("=") for p in query.split("&") if p)
        }
        if step is not None:
            options["step"] = step
        if size is not None:
            options["size"] = size
        try:
            return rendered(name, **options)
        except TypeError as error:
            raise ConfigError(f"{text!r}: {str(error).replace('()', '')}.") from error
    path = Path(text)
    if path.exists() and videos_of(path) and size is not None:
        return read_video(path, step=step, size=size)
    return read(path, time=step)


def _number(key: str, text: str) -> Any:
    try:
        return float(text) if key in ("step", "noise") else int(text)
    except ValueError:
        raise ConfigError(f"{key}={text}: expected a number.") from None


def _encoder(text: str, head: str, trust: bool) -> tuple[str, Any]:
    """The name in the table, and the encoder with its head."""
    from sjepa.models.pretrained import from_text

    if text == "end-to-end":
        return text, ("identity", "learned")
    own = re.search(r"[?&]head=([^&]*)", text)
    plain = re.sub(r"([?&])head=[^&]*&?", r"\1", text).rstrip("?&")
    return text, (from_text(plain, trust=trust), own.group(1) if own else head)


def _library(terms: str, latent_dim: int, order: int) -> Any:
    from sjepa.cli.settings import terms_of
    from sjepa.data.names import numbered, with_velocity_names
    from sjepa.symbolic import Library

    if not terms:
        return None
    names = numbered("z", latent_dim)
    if order == 2:
        names = with_velocity_names(names)
    return Library.from_terms(terms_of(terms), names)
