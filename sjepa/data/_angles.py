"""Angles that were recorded modulo one turn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sjepa.data._check import Array
from sjepa.errors import warn_about_data


if TYPE_CHECKING:
    from sjepa.data.trajectories import Trajectories


# One turn in radians and in degrees, and what to call it.
TURNS = ((2 * math.pi, "2*pi"), (360.0, "360"))
# A wrapped angle fills its interval up to this share of a turn, and leaves it by noise alone.
SLACK = 0.02
# Steps of a wrapped angle are shorter than this share of a turn, or a turn but for that; other
# jumps, as of a relaxation oscillator, are of any size. So there are at least 1 / SHORT to a jump.
SHORT = 0.25


def unwrapped(data: Trajectories) -> Trajectories:
    """The same data without jumps by one turn in columns that wrap; warns of those."""
    if len(data.obs_shape) != 1:
        return data
    x = data.x
    for j in range(data.obs_shape[0]):
        for turn, text in TURNS:
            columns = [a[:, j] for a in x]
            if _wraps(columns, turn):
                x = x if x is not data.x else [a.copy() for a in x]
                for a in x:
                    a[:, j] = np.unwrap(a[:, j], period=turn)
                name = data.names[j] if data.names else f"column {j} of x"
                warn_about_data(f"{name} jumps by {text}: it is taken for an angle, and unwrapped.")
    return data if x is data.x else data._like(x, data.t, data.u, data.state, data.sigma)


def _wraps(columns: list[Array], turn: float) -> bool:
    """Whether a column keeps within one turn from -turn/2 or 0, and jumps from end to end."""
    low, high = min(c.min() for c in columns), max(c.max() for c in columns)
    if high - low < (1 - SHORT) * turn:
        return False
    start = 0.0 if low > -SLACK * turn else -turn / 2
    if low < start - SLACK * turn or high > start + (1 + SLACK) * turn:
        return False
    steps = np.abs(np.concatenate([np.diff(c) for c in columns])) / turn
    jumps = steps > 1 - SHORT
    rare = 0 < jumps.sum() < SHORT * len(steps)
    return bool(rare and (jumps | (steps < SHORT)).all())
