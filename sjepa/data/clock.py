"""Time as an input of a law: one more column beside the control inputs, known everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sjepa.data._check import Array
from sjepa.errors import DataError
from sjepa.symbolic.law import TIME


if TYPE_CHECKING:
    from sjepa.data.trajectories import Trajectories


def with_time(data: Trajectories, at: int | None = None) -> Trajectories:
    """The data with their times as the last of the inputs, or the one at a position."""
    names = data.input_names or ()
    if TIME in names:
        return data
    if TIME in (data.names or ()):
        raise DataError("'t' is a column of x, so it cannot be the time of a law; rename it.")
    at = len(names) if at is None else at
    u = data.u or [np.zeros((len(t), 0)) for t in data.t]
    timed = [np.insert(rows, at, t, axis=1) for rows, t in zip(u, data.t, strict=True)]
    new = data._like(data.x, data.t, timed, data.state, data.sigma)
    new.input_names = (*names[:at], TIME, *names[at:])
    return new


def middles(data: Trajectories) -> Trajectories:
    """The data with the time in the middle of each step, where it is held as other inputs are."""
    if data.u is None or TIME not in (data.input_names or ()):
        return data
    place, u = list(data.input_names or ()).index(TIME), [rows.copy() for rows in data.u]
    for rows, t in zip(u, data.t, strict=True):
        rows[:-1, place] = (t[1:] + t[:-1]) / 2
    return data._like(data.x, data.t, u, data.state, data.sigma)


def held(data: Trajectories) -> Array:
    """Which columns of states and inputs (d + m,) zero-order hold holds: all inputs but time."""
    inputs = [name != TIME for name in data.input_names or ()]
    return np.array([False] * data.obs_shape[0] + inputs)
