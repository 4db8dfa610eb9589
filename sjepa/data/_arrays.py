"""From what the user passed to one array per trajectory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sjepa.data import _check as check
from sjepa.data._check import Array, Where
from sjepa.errors import DataError, NumericalWarning


def series(value: Any, what: str, where: Where) -> list[Array]:
    """One array per trajectory, time first."""
    several = isinstance(value, list | tuple)
    items = list(value) if several else [value]
    if not items:
        raise DataError(f"{what} is an empty list; pass at least one trajectory.")
    return [
        check.rows(check.numeric(a, what, where(i)), what, where(i)) for i, a in enumerate(items)
    ]


def columns(value: Any) -> list[str] | None:
    """The column names of a pandas table, or of several that agree."""
    tables = list(value) if isinstance(value, list | tuple) else [value]
    if not tables or not all(hasattr(one, "columns") for one in tables):
        return None
    found = [[str(c) for c in one.columns] for one in tables]
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
        warnings.warn(
            f"every trajectory has more columns than rows, e.g. {x[0].shape}: "
            "rows are times; transpose x if its rows are quantities.",
            NumericalWarning,
            stacklevel=3,
        )
