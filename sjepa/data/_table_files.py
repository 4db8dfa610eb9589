"""CSV and Parquet: one row per observation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd

from sjepa.data._check import Array
from sjepa.data.names import numbered
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError


# What a file may expand to when it is read: plain values, and so many for each byte.
MOST_CELLS, MOST_EXPANSION = 10_000_000, 1000


def read_csv(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, low_memory=False)
    if len(frame.columns) == 1 and re.search(r"[;\t]", str(frame.columns[0])):
        raise DataError("the columns are not separated by commas; export with commas.")
    return frame


def read_parquet(path: Path) -> pd.DataFrame:
    """A few bytes of Parquet can stand for billions of rows, so they are counted first."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        about = file.metadata
        cells = about.num_rows * max(about.num_columns, 1)
        if about.num_rows < 0 or cells > MOST_EXPANSION * path.stat().st_size + MOST_CELLS:
            raise DataError(f"it claims to hold {cells} values in {path.stat().st_size} bytes.")
        frame: pd.DataFrame = file.read().to_pandas()
    return frame


def from_table(
    frame: pd.DataFrame,
    time: str | float | None,
    id: str | None,
    columns: Sequence[str] | None,
    actions: Sequence[str],
    allow_nan: bool,
) -> Trajectories:
    if time is None:
        time = next((c for c in frame.columns if str(c).lower() in ("t", "time")), None)
        if time is None:
            listed = ", ".join(map(str, frame.columns[:20]))
            raise DataError(
                f"no column is called t or time; give one of these as time=...: {listed}.", "time"
            )
    if id is None and "trajectory" in frame.columns and "trajectory" not in (columns or ()):
        id = "trajectory"
    if not len(actions):
        ours = {c: c[7:] for c in map(str, frame.columns) if c.startswith("action.")}
        frame, actions = frame.rename(columns=ours), list(ours.values())
    state = [
        c for c in map(str, frame.columns) if c.startswith("state.") and c not in (columns or ())
    ]
    return Trajectories.from_frame(
        frame, time=time, id=id, columns=columns, actions=actions, state=state, allow_nan=allow_nan
    )


def _to_table(trajectories: Trajectories) -> pd.DataFrame:
    if len(trajectories.obs_shape) != 1:
        raise DataError(
            f"observations of shape {trajectories.obs_shape} do not fit into a table; write .npz."
        )
    rows, index = trajectories.stacked()
    names = trajectories.names or numbered("x", rows.shape[1])
    if clash := {"trajectory", "t"} & set(names):
        raise DataError(f"{min(clash)!r} is also what the table calls its own column; rename it.")
    if trajectories.ids:
        index = np.asarray(trajectories.ids)[index]
    data: dict[str, Array] = {"trajectory": index, "t": np.concatenate(trajectories.t)}
    data |= dict(zip(names, rows.T, strict=True))
    if trajectories.u and trajectories.action_names:
        labels = [f"action.{name}" for name in trajectories.action_names]
        data |= dict(zip(labels, np.concatenate(trajectories.u).T, strict=True))
    if trajectories.state:
        states = np.concatenate(trajectories.state).T
        data |= {f"state.{i + 1}": s for i, s in enumerate(states)}
    return pd.DataFrame(data)


def write_csv(trajectories: Trajectories, file: BinaryIO) -> None:
    _to_table(trajectories).to_csv(file, index=False)


def write_parquet(trajectories: Trajectories, file: BinaryIO) -> None:
    _to_table(trajectories).to_parquet(file, index=False)
