"""From what the user passed to one array per trajectory."""

from __future__ import annotations

from typing import Any

import numpy as np

from sjepa.data import _check as check
from sjepa.data._check import Array, Where
from sjepa.errors import DataError, warn_about_data


# Lists of more than this many numbers are not the values of a state but those of a time series.
MAX_STATE = 16


def series(value: Any, what: str, where: Where) -> list[Array]:
    """One array per trajectory, time first."""
    several = isinstance(value, list | tuple)
    items = list(value) if several else [value]
    if not items:
        raise DataError(f"{what} is an empty list; pass at least one trajectory.")
    return [
        check.rows(check.numeric(a, what, where(i)), what, where(i)) for i, a in enumerate(items)
    ]


def rows_or_trajectories(x: Any, t: Any) -> tuple[Any, Any]:
    """A list of rows, as a loop collects them, is one trajectory where the times say so.

    A list means several trajectories; only where its items are as short as a state and more
    numerous can it be meant as rows, and where the times do not tell the caller has to.
    """
    if not isinstance(x, list | tuple) or len(x) < 2 or not all(map(_is_flat, x)):
        return x, t
    count, sizes = len(x), {len(row) for row in x}
    size = min(sizes)
    if len(sizes) > 1 or count <= size or size > MAX_STATE:
        return x, t
    if size == 1 or (np.ndim(t) == 1 and len(t) == count and _is_flat(t)):
        return np.stack([check.numeric(row, "x", "a row") for row in x]), np.asarray(t)
    if isinstance(t, list | tuple) or np.ndim(t):
        return x, t
    raise DataError(
        f"x is a list of {count} times {size} numbers: give np.array(x) for {count} observations "
        f"of {size} columns, or [np.reshape(a, (-1, 1)) for a in x] for {count} trajectories.",
        "x",
    )


def _is_flat(row: Any) -> bool:
    """Whether something is a sequence of plain numbers."""
    if isinstance(row, list | tuple):
        return len(row) > 0 and not any(isinstance(v, list | tuple) or np.ndim(v) for v in row)
    return getattr(row, "ndim", None) == 1 and len(row) > 0


def standard_errors(sigma: Any, x: list[Array], where: Where) -> list[Array] | None:
    """Standard errors in the shape of the observations; what is given less often is repeated."""
    if sigma is None:
        return None
    each = isinstance(sigma, list | tuple) and len(sigma) == len(x)
    found = []
    for i, xi in enumerate(x):
        value = check.numeric(sigma[i] if each else sigma, "sigma", where(i))
        if value.ndim == 1 and len(value) == len(xi) and xi.shape[1:] == (1,):
            value = value[:, None]
        try:
            value = np.broadcast_to(value, xi.shape)
        except ValueError:
            raise DataError(
                f"sigma of {where(i)} has shape {value.shape}, x {xi.shape}; give a number, one "
                "per column or one per value, or a list of these for the trajectories.",
                "sigma",
            ) from None
        if (value <= 0).any():
            raise DataError(
                f"sigma of {where(i)} is not positive; it is a standard error.", "sigma"
            )
        found.append(value)
    return found


def columns(value: Any) -> list[str] | None:
    """The column names of a pandas table, or of several that agree."""
    tables = list(value) if isinstance(value, list | tuple) else [value]
    if not tables or not all(hasattr(table, "columns") for table in tables):
        return None
    found = [[str(c) for c in table.columns] for table in tables]
    for i, names in enumerate(found):
        if names != found[0]:
            raise DataError(
                f"table {i} has the columns {', '.join(names)}, table 0 {', '.join(found[0])}; "
                "give the same columns in the same order."
            )
    return found[0]


def times(t: Any, x: list[Array], where: Where) -> list[Array]:
    """The times of each trajectory, from a step, one array or a list, as PySINDy takes them."""
    if isinstance(t, list | tuple):
        if len(t) != len(x):
            raise DataError(
                f"{len(x)} trajectories but {len(t)} time arrays; give one per trajectory, or "
                "np.array(t) for the same times everywhere."
            )
        times = [check.numeric(a, "t", where(i)) for i, a in enumerate(t)]
    else:
        shared = check.numeric(t, "t", "every trajectory")
        if shared.ndim == 0:
            if not (np.isfinite(shared) and shared > 0):
                raise DataError(f"the time step must be positive, got {float(shared)}.")
            return [float(shared) * np.arange(len(a)) for a in x]
        times = [shared] * len(x)
    for i, (ti, xi) in enumerate(zip(times, x, strict=True)):
        if ti.ndim != 1:
            raise DataError(
                f"t of {where(i)} has shape {ti.shape}; times must be one-dimensional, use "
                "t.ravel() or a list of arrays."
            )
        check.same_length(len(ti), xi, "t", where(i))
    return [np.asarray(ti, dtype=np.float64) for ti in times]


def matching(value: Any, x: list[Array], what: str, where: Where) -> list[Array] | None:
    """Arrays with one row per observation: actions and states."""
    if value is None:
        return None
    arrays = series(value, what, where)
    if len(arrays) != len(x):
        raise DataError(
            f"{len(x)} trajectories but {len(arrays)} arrays in {what}; give one for each."
        )
    for i, (a, xi) in enumerate(zip(arrays, x, strict=True)):
        check.same_length(len(a), xi, what, where(i))
        if a.ndim > 2:
            raise DataError(f"{what} of {where(i)} has shape {a.shape}; expected (T,) or (T, m).")
    same_shape(arrays, what, where)
    return arrays


def same_shape(arrays: list[Array], what: str, where: Where) -> None:
    """Refuse trajectories whose rows have different shapes."""
    for i, a in enumerate(arrays):
        if a.shape[1:] != arrays[0].shape[1:]:
            raise DataError(
                f"one row of {what} has shape {a.shape[1:]} in {where(i)} but "
                f"{arrays[0].shape[1:]} in {where(0)}; all trajectories must agree."
            )


def warn_if_transposed(t: Any, x: list[Array]) -> None:
    """With times given, a transposed x has the wrong length; with a step nothing else can tell."""
    by_step = not isinstance(t, list | tuple) and np.ndim(t) == 0
    if by_step and all(a.ndim == 2 and len(a) < a.shape[1] for a in x):
        warn_about_data(
            f"every trajectory has more columns than rows, e.g. {x[0].shape}: "
            "rows are times; transpose x if its rows are quantities."
        )
