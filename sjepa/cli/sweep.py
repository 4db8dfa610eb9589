"""``sjepa sweep``: the trade-off surface over the weights of the objective."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from sjepa.cli.app import app
from sjepa.cli.inputs import Actions, Columns, Gaps, Id, Missing, Time, read_data, source_of
from sjepa.cli.settings import ConfigFile, pairs_of, words
from sjepa.errors import ConfigError


@app.command()
def sweep(
    data: Annotated[Path, typer.Argument(help="CSV, Parquet, NPZ or HDF5 file, or a folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the table and the figure.")],
    config: ConfigFile = None,
    lambda_s: Annotated[str, typer.Option(help="Weights of complexity.")] = "2.5e-5,2.5e-4,2.5e-3",
    lambda_c: Annotated[str, typer.Option(help="Weights of the correction.")] = "0,0.002,0.02,0.2",
    lambda_r: Annotated[str, typer.Option(help="Weights of rollouts.")] = "0.35",
    encoder: Annotated[
        str, typer.Option(help="identity: take the columns as they are; auto: find coordinates.")
    ] = "identity",
    latent_dim: Annotated[int, typer.Option(help="Number of coordinates to find.")] = 2,
    terms: Annotated[str, typer.Option(help="Candidate terms in z1, z2, ...")] = "",
    integrator: Annotated[str, typer.Option(help="rk4, euler, ...")] = "rk4",
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the search, name=value; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    time: Time = None,
    id: Id = None,
    columns: Columns = "",
    actions: Actions = "",
    missing: Missing = None,
    gaps: Gaps = None,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Fit law and correction under many weights; show what no other setting beats."""
    trajectories = read_data(source_of(data, time, id, columns, actions, missing, gaps))
    # These import torch, which takes longer than finding out that a column does not exist.
    from rich.console import Console

    from sjepa.callbacks import ProgressBar
    from sjepa.cli.settings import terms_of
    from sjepa.data.names import numbered
    from sjepa.storage import write_whole, writing
    from sjepa.studies.surface_page import surface_page
    from sjepa.studies.tradeoff import AXES, plot_surface, sweep as run

    settings: dict[str, Any] = {"encoder": encoder, "integrator": integrator}
    if encoder == "auto":
        settings["latent_dim"] = latent_dim
    elif terms:
        size = trajectories.obs_shape[0]
        settings["feature_names"] = list(trajectories.names or numbered("z", size))
    if terms:
        settings["library"] = terms_of(terms)
    with ProgressBar() as bar:
        table = run(
            trajectories, lambda_s=_numbers(lambda_s), lambda_c=_numbers(lambda_c),
            lambda_r=_numbers(lambda_r), out=out, seed=seed, progress=bar.show,
            options=pairs_of(option, "--option") or None, **settings,
        )  # fmt: skip
    with writing(out / "surface.png") as file:
        plot_surface(table).savefig(file, format="png", dpi=150)
    write_whole(out / "surface.html", surface_page(table).encode())
    if json:
        print(json_module.dumps(json_module.loads(table.to_json(orient="records")), indent=1))
        return
    best = table[table["front"]].sort_values("omega")
    shown = best[["lambda_s", "lambda_c", "lambda_r", *AXES, "law"]]
    print(shown.to_string(index=False, float_format=lambda v: f"{v:.3g}"))
    Console(stderr=True, markup=False).print(
        f"{len(best)} of {len(table)} settings that no other beats. "
        f"Written: {out}/surface.csv, surface.png, surface.html", highlight=False,
    )  # fmt: skip


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in words(text)]
    except ValueError:
        raise ConfigError(f"{text!r} is not a comma-separated list of numbers.") from None
