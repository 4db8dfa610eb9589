"""Several successive observations as one: what a single one does not show."""

from __future__ import annotations

import re

import numpy as np

from sjepa.data.names import numbered
from sjepa.data.rows import check_equal_steps
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError


_LAG = re.compile(r"(.+)_lag(\d+)")


def with_lags(trajectories: Trajectories, k: int) -> Trajectories:
    """States, the k states before them, and the k actions before the present ones, as one state.

    ``x`` becomes x, x_lag1, ..., and ``u1`` adds u1_lag1, ...; each trajectory loses k rows. Steps
    must be equal, since a lag is one of them.
    """
    if k < 1:
        raise DataError(f"lags counts the steps back, at least 1; got {k}.")
    if (shortest := int(trajectories.lengths.min())) < k + 2:
        raise DataError(f"{k} lags do not fit into a trajectory of {shortest} observations.")
    check_equal_steps(np.concatenate(trajectories.steps))
    names = trajectories.names or numbered("x", trajectories.obs_shape[0])
    actions = trajectories.action_names or ()

    def back(a: np.ndarray, lag: int) -> np.ndarray:
        return a[k - lag : len(a) - lag]

    x = []
    for i, rows in enumerate(trajectories.x):
        parts = [back(rows, lag) for lag in range(k + 1)]
        if trajectories.u is not None:
            parts += [back(trajectories.u[i], lag) for lag in range(1, k + 1)]
        x.append(np.concatenate(parts, axis=1))
    late = [f"{n}_lag{lag}" for lag in range(1, k + 1) for n in names]
    late += [f"{n}_lag{lag}" for lag in range(1, k + 1) for n in actions]
    return Trajectories(
        x, [t[k:] for t in trajectories.t], trajectories.u and [u[k:] for u in trajectories.u],
        names=[*names, *late], action_names=trajectories.action_names, ids=trajectories.ids,
    )  # fmt: skip


def lag_of(name: str) -> int:
    """How many steps back a name reaches: 2 for x_lag2, 0 for x."""
    match = _LAG.fullmatch(name)
    return int(match[2]) if match else 0


def before(name: str) -> str:
    """What a lagged value was one step earlier: x_lag2 was x_lag1, and that was x."""
    base, _, lag = name.rpartition("_lag")
    return base if lag == "1" else f"{base}_lag{int(lag) - 1}"


def with_history(trajectories: Trajectories, k: int) -> Trajectories:
    """Observations ``(k, *obs)`` that hold the last k, oldest first; each trajectory loses k - 1.

    Two frames show a velocity. The new arrays are views of the old ones and need no memory.
    """
    if k < 1:
        raise DataError(f"a history needs at least 1 observation, got {k}.")
    if (shortest := int(trajectories.lengths.min())) < k + 1:
        raise DataError(
            f"a history of {k} does not fit into a trajectory of {shortest} observations."
        )
    x = [
        # Writeable only because torch asks for it; nothing here writes into observations.
        np.moveaxis(np.lib.stride_tricks.sliding_window_view(a, k, 0, writeable=True), -1, 1)
        for a in trajectories.x
    ]

    def late(series: list[np.ndarray] | None) -> list[np.ndarray] | None:
        return None if series is None else [a[k - 1 :] for a in series]

    return Trajectories(
        x, [a[k - 1 :] for a in trajectories.t], late(trajectories.u),
        state=late(trajectories.state), action_names=trajectories.action_names,
    )  # fmt: skip
