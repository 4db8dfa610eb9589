"""Control inputs as they act: the values of some time ago."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sjepa.data._check import Array
from sjepa.errors import DataError, warn_about_data
from sjepa.symbolic.law import TIME


if TYPE_CHECKING:
    from sjepa.data.trajectories import Trajectories


def delayed(
    data: Trajectories, delays: Mapping[str, float], cut: float | None = None
) -> Trajectories:
    """See :meth:`Trajectories.delayed`."""
    names = data.input_names or ()
    for name, delay in delays.items():
        if name not in names or name == TIME:
            given = ", ".join(n for n in names if n != TIME) or "none"
            raise DataError(f"{name!r:.40} is not a control input; the inputs are {given}.")
        if not 0 <= delay < np.inf:
            raise DataError(f"The delay of {name} is a time of at least 0, got {delay!r:.40}.")
    first = max(delays.values(), default=0.0) if cut is None else cut
    if data.u is None or not (first or any(delays.values())):
        return data
    starts = [int(np.searchsorted(t, t[0] + first)) for t in data.t]
    long = [i for i, t in enumerate(data.t) if len(t) - starts[i] >= 2]
    if not long:
        raise DataError(f"No trajectory is longer than the dead time of {first:g}; allow less.")
    if len(long) < len(data):
        warn_about_data(
            f"{len(data) - len(long)} of {len(data)} trajectories are left out: they are shorter "
            f"than the dead time of {first:g}."
        )
    u = late_rows(data, delays)
    moved = data._like(data.x, data.t, u, data.state, data.sigma)
    return moved._cut([(i, slice(starts[i], None)) for i in long])


def late_rows(data: Trajectories, delays: Mapping[str, float]) -> list[Array]:
    """The inputs (T, m) of each trajectory as they act; before the first row they are that row."""
    assert data.u is not None
    by = [delays.get(name, 0.0) for name in data.input_names or ()]
    return [late(t, rows, by) for t, rows in zip(data.t, data.u, strict=True)]


def late(t: Array, rows: Array | None, delays: Sequence[float]) -> Array:
    """Rows (T, m) at times t (T,), each column that much later."""
    assert rows is not None
    columns = [
        np.interp(t - delay, t, column) if delay else column
        for delay, column in zip(delays, rows.T, strict=True)
    ]
    return np.stack(columns, axis=1)
