"""CSV and Parquet: one row per observation."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sjepa.data._check import Array, check_expansion, repeated
from sjepa.data.names import numbered
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError
from sjepa.storage import without_guards, write_csv as write_frame


if TYPE_CHECKING:
    import pandas as pd


# Names of trajectories and typing errors are short; a cell of a megabyte is neither.
MAX_TEXT = 10_000


def read_csv(path: Path) -> pd.DataFrame:
    """Lines that begin with # before the header are comments."""
    import pandas as pd

    with path.open("rb") as file:
        comments = next(i for i, line in enumerate(file) if not line.startswith(b"#"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # Left to itself pandas takes surplus first values for labels and shifts all columns.
            frame = pd.read_csv(path, low_memory=False, skiprows=comments, index_col=False)
        except pd.errors.ParserWarning:
            raise DataError(
                "row 0 has more values than the header has names; correct the header or the rows."
            ) from None
    # pandas would call the second of two columns a "a.1".
    header = pd.read_csv(path, skiprows=comments, header=None, nrows=1, dtype=str).iloc[0].dropna()
    if (twice := repeated(header)) is not None:
        raise DataError(f"two columns are called {twice!r:.60}; rename one.")
    if len(frame.columns) == 1 and re.search(r"[;\t]", str(frame.columns[0])):
        raise DataError("the columns are not separated by commas; export with commas.")
    return without_guards(frame)


def read_parquet(path: Path) -> pd.DataFrame:
    """A few bytes of Parquet can stand for billions of rows, so they are counted first.

    Text is read as a dictionary, in which a long text stands once for all its rows.
    """
    import pyarrow as pa
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        about, schema = file.metadata, file.schema_arrow
        if nested := [f.name for f in schema if pa.types.is_nested(f.type)]:
            raise DataError(f"column {nested[0]!r:.60} holds lists or tables, not one value a row.")
        chunks = [
            about.row_group(i).column(j)
            for i in range(about.num_row_groups)
            for j in range(about.num_columns)
        ]
        rows = max(about.num_rows, 0) * max(about.num_columns, 1)
        values = max(rows, sum(c.num_values for c in chunks))
        claimed = max(8 * values, sum(c.total_uncompressed_size for c in chunks))
        check_expansion(claimed, path.stat().st_size)
    texts = [f.name for f in schema if _is_text(pa, f.type)]
    with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read()
    for name in texts:
        column = table.column(name)
        for part in column.chunks:
            if pa.types.is_dictionary(part.type) and any(
                len(v) > MAX_TEXT for v in part.dictionary.to_pylist() if v is not None
            ):
                raise DataError(f"column {name!r:.60} holds a text of over {MAX_TEXT} characters.")
    frame: pd.DataFrame = table.to_pandas()
    return frame.astype({n: object for n in texts if frame[n].dtype == "category"})


def _is_text(pa: Any, kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_string, pa.types.is_large_string, pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )  # fmt: skip


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
    wanted = set(columns or ())
    state = [c for c in map(str, frame.columns) if c.startswith("state.") and c not in wanted]
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
    import pandas as pd

    return pd.DataFrame(data)


def write_csv(trajectories: Trajectories, file: BinaryIO) -> None:
    write_frame(_to_table(trajectories), file)


def write_parquet(trajectories: Trajectories, file: BinaryIO) -> None:
    _to_table(trajectories).to_parquet(file, index=False)
