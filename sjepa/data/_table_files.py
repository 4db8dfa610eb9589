"""CSV and Parquet: one row per observation."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sjepa.data._check import Array, check_expansion, repeated
from sjepa.data.names import numbered, split_unit
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError
from sjepa.storage import without_guards, write_csv as write_frame


if TYPE_CHECKING:
    import pandas as pd


# Names of trajectories and typing errors are short; a cell of a megabyte is neither.
MAX_TEXT = 10_000
# What separates columns; where several occur, the most frequent in the header does.
_SEPARATORS = ",;\t|"
_COMMENTS = (b"#", b"%", b"//")
_DECIMAL_COMMA = r"\s*[+-]?(?:\d+,?\d*|,\d+)(?:[eE][+-]?\d+)?\s*"
_DATE = re.compile(r"\d+[-/.:]\d")
# What the time column is called where nobody says it.
_TIMES = ("t", "time", "timestamp", "datetime", "date")
_NOTHING = {"", "-", "na", "n/a", "null", "none", "<na>", "#n/a"}


def read_csv(path: Path) -> pd.DataFrame:
    """A table as instruments and spreadsheets write it.

    Lines that begin with #, % or // are comments. Commas, semicolons, tabs or bars separate
    columns; with anything but commas numbers may have decimal commas. A row of units below the
    header goes into the names, as in "Level (cm)".
    """
    import pandas as pd

    encoding, skipped, lines = _look(path)
    if not lines:
        raise DataError("it has no header and no rows; write it again.")
    separator = max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", lines[0][1]).count)
    names, *rows = csv.reader([text for _, text in lines], delimiter=separator)
    skipped.append(lines[0][0])
    if len(rows) > 1 and _is_second_header(rows[0], rows[1]):
        units = [unit.strip(" ()[]") for unit in rows.pop(0)]
        names = [n if split_unit(n)[1] or not u else f"{n.strip()} ({u})"
                 for n, u in zip_longest(names, units, fillvalue="")]  # fmt: skip
        skipped.append(lines[1][0])
    names = [name.strip() for name in names]
    if (twice := repeated(n for n in names if n)) is not None:
        raise DataError(f"two columns are called {twice!r}; rename one.")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # Left to itself pandas takes surplus first values for labels and shifts all columns.
            frame = pd.read_csv(
                path, sep=separator, encoding=encoding, low_memory=False, skiprows=skipped,
                header=None, names=[n or f"column {i + 1}" for i, n in enumerate(names)],
                index_col=False, skipinitialspace=True,
            )  # fmt: skip
        except pd.errors.ParserWarning:
            raise DataError(
                "row 0 has more values than the header has names; correct the header or the rows."
            ) from None
    # Lines that end in a separator have a last column of nothing.
    empty = [c for c, n in zip(frame, names, strict=True) if not n and frame[c].isna().all()]
    frame = frame.drop(columns=empty)
    if separator != ",":
        _read_decimal_commas(frame)
    return without_guards(frame)


def _look(path: Path) -> tuple[str, list[int], list[tuple[int, str]]]:
    """Encoding, numbers of the lines to skip, and number and text of the first three others.

    A comment just before rows of numbers is their header: so numpy's savetxt writes it.
    """
    encoding, comments, lines = "utf-8-sig", list[int](), list[tuple[int, str]]()
    header: tuple[int, str] | None = None
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if not line.isascii() and encoding != "cp1252":
                try:
                    line.decode()
                except UnicodeDecodeError:
                    encoding = "cp1252"  # what spreadsheets write where they do not write UTF-8
            if line.startswith(_COMMENTS):
                comments.append(number)
                if not lines:
                    header = number, line.decode(encoding, "replace").lstrip("#%/ ")
            elif len(lines) < 3 and line.strip():
                lines.append((number, line.decode(encoding, "replace")))
    if header and lines and all(map(_is_number, re.split(r"[,;\t|]", lines[0][1]))):
        lines.insert(0, header)
    return encoding, comments, lines


def _is_number(text: str) -> bool:
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def _is_second_header(row: Sequence[str], following: Sequence[str]) -> bool:
    """Whether a row holds no values but words that the one below does not repeat."""

    def is_value(cell: str) -> bool:
        return _is_number(cell) or bool(_DATE.match(cell.strip()))

    words = [c for c in row if c.strip().lower() not in _NOTHING]
    if not words or any(map(is_value, words)) or set(words) & set(following):
        return False
    return any(map(is_value, following))


def _read_decimal_commas(frame: pd.DataFrame) -> None:
    """Read 3,5 as a number, in place, unless other columns have points."""
    import pandas as pd

    for name in frame:
        column = frame[name]
        if column.dtype.kind == "f" and (column.dropna() % 1 != 0).any():
            return
    for name in frame:
        if pd.api.types.is_numeric_dtype(frame[name].dtype):
            continue
        texts = frame[name].astype("string")
        fine = texts.str.fullmatch(_DECIMAL_COMMA).fillna(False)
        if fine.sum() >= 0.5 * texts.notna().sum():
            texts = texts.where(~fine, texts.str.replace(",", "."))
            numbers = pd.to_numeric(texts, errors="coerce")
            frame[name] = texts if (numbers.isna() & texts.notna()).any() else numbers


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
    **how: Any,
) -> Trajectories:
    from sjepa.data._dates import is_date

    if time is None:
        plain = {split_unit(str(c))[0].lower(): c for c in reversed(frame.columns)}
        time = next((plain[name] for name in _TIMES if name in plain), None)
        if time is None and len(frame):
            time = next((c for c in frame if is_date(frame[c].iloc[0])), None)
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
    sigma = [c for c in map(str, frame.columns) if c.startswith("sigma.") and c not in wanted]
    return Trajectories.from_frame(
        frame, time=time, id=id, columns=columns, actions=actions, state=state,
        sigma=sigma or None, **how,
    )  # fmt: skip


def _to_table(trajectories: Trajectories) -> pd.DataFrame:
    if len(trajectories.obs_shape) != 1:
        raise DataError(
            f"observations of shape {trajectories.obs_shape} do not fit into a table; write .npz."
        )
    rows, index = trajectories.stacked()
    names = [trajectories.labels.get(n, n) for n in trajectories.names or ()]
    names = names or list(numbered("x", rows.shape[1]))
    if clash := {"trajectory", "t"} & set(names):
        raise DataError(f"{min(clash)!r} is also what the table calls its own column; rename it.")
    if trajectories.ids:
        index = np.asarray(trajectories.ids)[index]
    data: dict[str, Array] = {"trajectory": index, "t": np.concatenate(trajectories.t)}
    data |= dict(zip(names, rows.T, strict=True))
    if trajectories.u and trajectories.input_names:
        labels = [f"action.{trajectories.labels.get(n, n)}" for n in trajectories.input_names]
        data |= dict(zip(labels, np.concatenate(trajectories.u).T, strict=True))
    if trajectories.state:
        states = np.concatenate(trajectories.state).T
        data |= {f"state.{i + 1}": s for i, s in enumerate(states)}
    if trajectories.sigma:
        errors = np.concatenate(trajectories.sigma).T
        data |= {f"sigma.{n}": s for n, s in zip(names, errors, strict=True)}
    import pandas as pd

    return pd.DataFrame(data)


def write_csv(trajectories: Trajectories, file: BinaryIO) -> None:
    write_frame(_to_table(trajectories), file)


def write_parquet(trajectories: Trajectories, file: BinaryIO) -> None:
    _to_table(trajectories).to_parquet(file, index=False)
