"""Before a fit: whether numbers and rates of the data can carry a law."""

from __future__ import annotations

import numpy as np

from sjepa.data import Trajectories
from sjepa.errors import DataError, warn_about_data


# Cubes of larger numbers leave the range of single precision, in which networks are trained.
MAX_SIZE = 1e12
# Spreads below this square to numbers that double precision rounds to nothing.
MIN_SPREAD = 1e-140
# Changes for each unit of time, in units of the spread, that suggest another unit.
SLOW, FAST = 1e-3, 1e3


def check_data(trajectories: Trajectories, states: bool) -> None:
    """Check magnitudes and rates; `states` says that every column is a coordinate of the law."""
    for i, x in enumerate(trajectories.x):
        rows = np.abs(x.reshape(len(x), -1)).max(axis=1)
        if rows.max() > MAX_SIZE:
            row = int(rows.argmax())
            raise DataError(
                f"x is {rows[row]:.3g} in trajectory {i}, row {row}: powers of such numbers "
                "overflow; rescale the data, for instance to a spread of 1."
            )
    low = np.min([x.reshape(len(x), -1).min(axis=0) for x in trajectories.x], axis=0)
    high = np.max([x.reshape(len(x), -1).max(axis=0) for x in trajectories.x], axis=0)
    spread = high - low
    if not spread.max() > MIN_SPREAD:
        raise DataError("x does not change at all: there is nothing that an equation could say.")
    if states and (flat := np.flatnonzero(spread <= 1e-12 * np.abs(high).clip(1e-300))).size:
        name = trajectories.names[flat[0]] if trajectories.names else flat[0]
        warn_about_data(f"Column {name} never changes; leave it out, its equation is 0.")
    if len(trajectories) == 1:
        warn_about_data(
            "There is one trajectory only; trajectories from other starts would make the law more "
            "certain."
        )
    _check_rates(trajectories, spread)


def _check_rates(trajectories: Trajectories, spread: np.ndarray) -> None:
    moving = spread > 0
    rates = []
    for x, steps in zip(trajectories.x, trajectories.steps, strict=True):
        change = np.abs(np.diff(x.reshape(len(x), -1)[:, moving], axis=0)) / spread[moving]
        rates.append(np.median(change.max(axis=1) / steps))
    rate = float(np.median(rates))
    if rate and not SLOW < rate < FAST:
        how = "slow" if rate < SLOW else "fast"
        unit = "milliseconds, divide by 1000" if how == "slow" else "another unit, convert it"
        warn_about_data(
            f"The data move by {rate:.1g} of their range in one unit of time, which is very {how}: "
            f"if t is in {unit}."
        )
