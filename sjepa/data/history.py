"""Several successive observations as one: what a single one does not show."""

from __future__ import annotations

import math
import re

import numpy as np

from sjepa.data.names import numbered
from sjepa.data.noise import noise_level
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
    actions = trajectories.input_names or ()

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
        names=[*names, *late], input_names=trajectories.input_names, ids=trajectories.ids,
        gaps="keep",
    )  # fmt: skip


def lag_of(name: str) -> int:
    """How many steps back a name reaches: 2 for x_lag2, 0 for x."""
    match = _LAG.fullmatch(name)
    return int(match[2]) if match else 0


def before(name: str) -> str:
    """What a lagged value was one step earlier: x_lag2 was x_lag1, and that was x."""
    base, _, lag = name.rpartition("_lag")
    return base if lag == "1" else f"{base}_lag{int(lag) - 1}"


def with_history(trajectories: Trajectories, k: int, middle: bool = False) -> Trajectories:
    """Observations ``(k, *obs)`` that hold the last k, oldest first; each trajectory loses k - 1.

    Two frames determine a velocity. The new arrays are views and need no memory. With
    `middle` a window stands at the time of its middle observation, whose state it shows best.
    """
    if k < 1:
        raise DataError(f"a history needs at least 1 observation, got {k}.")
    if (shortest := int(trajectories.lengths.min())) < k + 1:
        raise DataError(
            f"a history of {k} does not fit into a trajectory of {shortest} observations."
        )
    x = [windows(a, k) for a in trajectories.x]
    first = middle_of(k) if middle else k - 1

    def late(series: list[np.ndarray] | None) -> list[np.ndarray] | None:
        return None if series is None else [a[first : len(a) - k + 1 + first] for a in series]

    return Trajectories(
        x, late(trajectories.t), late(trajectories.u), state=late(trajectories.state),
        input_names=trajectories.input_names, ids=trajectories.ids, gaps="keep",
    )  # fmt: skip


def windows(x: np.ndarray, k: int) -> np.ndarray:
    """(T, *obs) -> (T - k + 1, k, *obs), a view."""
    # Writeable only because torch asks for it; nothing here writes into observations.
    return np.moveaxis(np.lib.stride_tricks.sliding_window_view(x, k, 0, writeable=True), -1, 1)


def middle_of(k: int) -> int:
    """Which observation of a window its coordinates belong to."""
    return (k - 1) // 2


# Highest power of the polynomials that derivatives are taken from.
DEGREE = 4


def derivative_filters(k: int, order: int, step: float) -> np.ndarray:
    """Weights (order + 1, k) of a window for the value and the derivatives in its middle."""
    times = (np.arange(k) - (k - 1) / 2) * step
    powers = np.vander(times, min(DEGREE, k - 1) + 1, increasing=True)
    rows = np.linalg.pinv(powers)[: order + 1]
    return np.array([math.factorial(n) * row for n, row in enumerate(rows)])


# Windows grow by this factor until noise is at most this share of the last derivative needed.
GROWTH, QUIET = 1.2, 5e-4
# The longest window, in periods.
PERIODS = 0.25


def choose_history(trajectories: Trajectories, dimension: int) -> int:
    """How many successive observations show a state of some dimension, noise considered.

    The shortest window that shows the last derivative needed hardly changed by noise, and no longer
    than a quarter of a period. One derivative is read off the whole window, more of them off its
    halves, since a state behind them is mostly a factor and seen by comparing both.
    """
    size = int(np.prod(trajectories.obs_shape))
    order = max(1, -(-dimension // size) - 1)
    level = noise_level([x.reshape(len(x), -1) for x in trajectories.x], trajectories.t)
    least = 2 * order + 5
    longest = min(int(trajectories.lengths.min()) // 4, round(PERIODS * _period(trajectories)))
    best, lowest, k = least, np.inf, least
    while k <= max(longest, least) and lowest > QUIET:
        share = _noise_share(trajectories, (k + 1) // 2 if order > 1 else k, order, level)
        if share < lowest:
            best, lowest = k, share
        k = max(k + 2, 2 * round(GROWTH * k / 2) + 1)  # odd: there is an observation in the middle
    return best


def _noise_share(trajectories: Trajectories, k: int, order: int, level: np.ndarray) -> float:
    """Share of noise in a derivative taken from windows of k observations, where it is least."""
    weights = derivative_filters(k, order, 1.0)[-1]
    flat = [x.reshape(len(x), -1) for x in trajectories.x if len(x) >= k]
    found = np.concatenate([np.tensordot(windows(x, k), weights, (1, 0)) for x in flat])
    noise = level**2 * np.square(weights).sum()
    return float((noise / found.var(axis=0).clip(min=1e-300)).min())


def _period(trajectories: Trajectories) -> float:
    """Samples in a period of what moves fastest, from crossings of the mean."""
    counts = []
    for x in trajectories.x:
        flat = x.reshape(len(x), -1)
        above = flat > flat.mean(0)
        counts.append((above[1:] != above[:-1]).sum(0) / len(x))
    return 2.0 / max(float(np.median(np.max(counts, axis=1))), 1e-9)
