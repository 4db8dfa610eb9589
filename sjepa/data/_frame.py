"""From a table with one row per observation to trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from sjepa.data._angles import unwrapped
from sjepa.data._check import Array, repeated, require
from sjepa.data._dates import dates_of
from sjepa.data.names import split_unit, symbols_for
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError, warn_about_data


def from_frame(
    frame: Any,
    time: str | float,
    id: str | None,
    columns: Sequence[str] | None,
    actions: Sequence[str],
    state: Sequence[str],
    sigma: float | Sequence[str] | None,
    missing: Literal["raise", "drop"],
    gaps: Literal["cut", "keep"],
) -> Trajectories:
    """See :meth:`Trajectories.from_frame`."""
    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"expected a pandas table, got {type(frame).__name__}; see Trajectories(x, t)."
        )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"two columns are called {twice!r}; rename one.")
    if not len(frame):
        raise DataError("the table has no rows; pass data.")
    find = _Finder(frame.columns)
    actions, state = find(actions), find(state)
    errors = find(sigma) if _is_names(sigma) else []  # type: ignore[arg-type]
    time = find(time)[0] if isinstance(time, str) else time
    id = None if id is None else find(id)[0]
    special = [c for c in (time, id) if isinstance(c, str)]
    if columns is None:
        others = {*special, *actions, *state, *errors}
        columns = [c for c in frame.columns if c not in others]
        _refuse_text(frame, columns)
    columns = find(columns)
    if not columns:
        raise DataError("no column is left to observe; name some: columns=[...].", "columns")
    roles = [*special, *columns, *actions]
    if (twice := repeated(roles)) is not None:
        raise DataError(f"column {twice!r} is given two roles; each column has one.")

    groups = _groups(frame, id)

    def where(index: int, row: int | None = None) -> str:
        label = f"trajectory {str(groups[index][0])!r}" if id is not None else f"trajectory {index}"
        return label if row is None else f"{label}, row {groups[index][1][row]} of the table"

    def cut(names: list[str]) -> list[Array] | None:
        if not names:
            return None
        values = np.stack([_column(frame, c) for c in names], axis=1)
        return [values[rows] for _, rows in groups]

    t: Any = time
    if isinstance(time, str):
        clock = _clock(frame, time)
        t = [clock[rows] for _, rows in groups]
    found = Trajectories(
        cut(columns),
        t,
        cut(actions),
        state=cut(state),
        names=[str(c) for c in columns],
        input_names=[str(c) for c in actions] or None,
        sigma=cut(errors) if errors else sigma,
        ids=None if id is None else [str(label) for label, _ in groups],
        missing=missing,
        gaps=gaps,
        _where=where,
    )
    return unwrapped(found)


def _is_names(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list | tuple) and any(isinstance(v, str) for v in value)
    )


class _Finder:
    """Columns of a table by their label, their label without its unit, or their symbol."""

    def __init__(self, columns: Sequence[Any]) -> None:
        labels = [str(c) for c in columns]
        short = [split_unit(label)[0] for label in labels]
        self.columns = columns
        self.known: dict[str, Any] = {}
        for names in (labels, short, symbols_for(labels)):
            for name, column in zip(names, columns, strict=True):
                # What two columns share stands for neither; a whole label comes first.
                if names is labels or names.count(name) == 1:
                    self.known.setdefault(name, column)

    def __call__(self, names: Sequence[str] | str) -> list[Any]:
        wanted = [names] if isinstance(names, str) else list(names)
        if any(str(name) not in self.known for name in wanted):
            require(self.columns, wanted)
        return [self.known[str(name)] for name in wanted]


def _groups(frame: pd.DataFrame, id: str | None) -> list[tuple[Any, Array]]:
    """Label and row numbers of each trajectory, in order of first appearance."""
    if id is None:
        return [(0, np.arange(len(frame)))]
    codes, labels = pd.factorize(frame[id])
    if (codes < 0).any():
        raise DataError(
            f"column {id!r} is empty in row {int(np.argmin(codes))}; every row needs a trajectory."
        )
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return [(np.asarray(labels)[i], rows) for i, rows in enumerate(parts)]


def _refuse_text(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Columns nobody asked for by name must not slip in, or vanish, because they hold text."""
    for name in columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        # Mostly numbers: a number column with typing errors, which get a message of their own.
        known = column.dropna()
        if _is_date(column) or pd.to_numeric(known, errors="coerce").notna().mean() < 0.5:
            raise DataError(
                f"column {name!r} does not hold numbers; name the columns to observe: "
                "columns=[...].",
                "columns",
            )


def _is_date(column: pd.Series) -> bool:
    return column.dtype.kind in "mM"


def _column(frame: pd.DataFrame, name: str) -> Array:
    """A column as floats; text in it is an error that names the row."""
    column = frame[name]
    if pd.api.types.is_complex_dtype(column.dtype):
        raise DataError(f"column {name!r} is complex; use two columns, real and imaginary.")
    if _is_date(column):
        raise DataError(f"column {name!r} holds dates; only the time column may.")
    if not pd.api.types.is_numeric_dtype(column.dtype):
        numbers = pd.to_numeric(column, errors="coerce")
        bad = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
        if len(bad):
            raise DataError(
                f"column {name!r} holds {str(column.iloc[bad[0]])!r:.40} in row {bad[0]}, not a "
                "number; correct it or leave the column out."
            )
        column = numbers
    if column.dtype == np.float32:
        return column.to_numpy()
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _clock(frame: pd.DataFrame, name: str) -> Array:
    """Times as floats; dates as seconds since the first of the table."""
    column = frame[name]
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _column(frame, name)
    if not _is_date(column):
        if pd.to_numeric(column.dropna(), errors="coerce").notna().mean() >= 0.5:
            return _column(frame, name)  # numbers, but for typing errors
        column = dates_of(column)
    warn_about_data(f"{str(name)!r} holds dates: t is in seconds since the first of them.")
    return (column - column.min()).dt.total_seconds().to_numpy(dtype=np.float64)
