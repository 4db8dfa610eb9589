"""``sjepa encode``: observations to coordinates, with the encoder of a run."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from sjepa.cli.app import app
from sjepa.cli.inputs import (
    DataOptions,
    Force,
    TableFile,
    check_table,
    read_data,
    read_model,
    reads_data,
    write_table,
)


@app.command()
@reads_data
def encode(
    reading: DataOptions,
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    data: Annotated[
        Path, typer.Argument(help="Observations: CSV, Parquet, NPZ or HDF5 file, or a folder.")
    ],
    out: TableFile = None,
    force: Force = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Turn observations into the coordinates that a run has learned.

    Columns are read as those of the run were, unless said otherwise.
    """
    import numpy as np
    import pandas as pd

    from sjepa.errors import DataError

    check_table(out, force)
    model = read_model(run)
    source = reading.source(data, run)
    trajectories = read_data(source)
    size = int(np.prod(trajectories.obs_shape))
    if size != model.n_features_in_:
        raise DataError(
            f"{data}: observations have {size} values, the run was fitted on "
            f"{model.n_features_in_}; choose the same ones with --columns."
        )
    parts = []
    trajectories = model.coordinates(trajectories)
    for i, (z, t) in enumerate(zip(trajectories.x, trajectories.t, strict=True)):
        names = list(model.law_.inputs[: z.shape[1]])
        part = pd.DataFrame(z, columns=names)
        part.insert(0, "t", t)
        part.insert(0, "trajectory", trajectories.ids[i] if trajectories.ids else i)
        if trajectories.u is not None:
            labels = [f"action.{name}" for name in trajectories.input_names or ()]
            part[labels] = trajectories.u[i]
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    if json and out is None:
        print(json_module.dumps(frame.to_dict("list")))
        return
    write_table(frame, out)
    if json:
        facts = {"table": str(out), "coordinates": names, "rows": len(frame)}
        print(json_module.dumps({**facts, "trajectories": len(parts)}))
