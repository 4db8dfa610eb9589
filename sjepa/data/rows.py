"""Trajectories to regression rows: what a law takes, and what it should give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sjepa.data._check import CHUNK, MAX_SIZE, Array, joined
from sjepa.data.clock import held
from sjepa.data.derivatives import Derivatives
from sjepa.data.trajectories import Trajectories
from sjepa.data.weak import WeakWindows, default_stride, weak_windows
from sjepa.errors import DataError
from sjepa.symbolic import Library


# Takes a function of inputs (T, d) to its values on the rows of a regression.
OnRows = Callable[[Callable[[Array], Array]], Array]

# Neighbors of an interval, on either side, that the integral of a test function may use.
_MARGIN = 6
# Rows of the weak form that are enough, whatever there is to overlap.
_ENOUGH_ROWS = 100_000


def inputs_of(trajectories: Trajectories) -> list[Array]:
    """States and actions side by side (T, d + m), for each trajectory."""
    if trajectories.u is None:
        return trajectories.x
    pairs = zip(trajectories.x, trajectories.u, strict=True)
    return [np.concatenate(pair, axis=1) for pair in pairs]


def derivative_rows(found: Derivatives) -> tuple[Array, Array]:
    """Smoothed states and actions, and their derivatives, where those can be trusted."""
    inputs = inputs_of(found.trajectories)
    return _trusted(inputs, found), _trusted(found.x_dot, found)


def _trusted(series: list[Array], found: Derivatives) -> Array:
    rows = joined([_where(a, good) for a, good in zip(series, found.valid, strict=True)])
    if not len(rows):
        raise DataError("Trajectories are too short for such derivatives; give longer ones.")
    return rows


def _where(rows: Array, good: Array) -> Array:
    """Rows where `good`; one contiguous segment of them is not copied."""
    inside = np.flatnonzero(good)
    if len(inside) and len(inside) == inside[-1] - inside[0] + 1:
        return rows[inside[0] : inside[-1] + 1]
    return rows[inside]


def step_rows(trajectories: Trajectories) -> tuple[Array, Array, Array]:
    """Each step: the state and action at its start, the state at its end, and its length (n,)."""
    starts = np.concatenate([a[:-1] for a in inputs_of(trajectories)])
    ends = np.concatenate([x[1:] for x in trajectories.x])
    return starts, ends, np.concatenate(trajectories.steps)


def discrete_rows(trajectories: Trajectories) -> tuple[Array, Array]:
    """State and action, and the next state; steps must be equal."""
    starts, ends, steps = step_rows(trajectories)
    check_equal_steps(steps)
    return starts, ends


def check_equal_steps(steps: Array) -> None:
    if steps.max() > steps.min() * (1 + 1e-6):
        raise DataError(
            f"A map needs equal steps, these range from {steps.min():g} to {steps.max():g}; "
            "use derivatives='smooth'."
        )


def zoh_rows(trajectories: Trajectories, at: str = "middle") -> tuple[Array, Array]:
    """One row for each step under zero-order hold: (state, action) and its mean velocity.

    A state driven by actions that are held between samples has a kink at every sample, so
    derivatives taken across samples mix two actions. Within one step nothing jumps. The state is
    that at the middle of the step, the mean of its two ends, which makes a law fitted to these
    rows right to second order in the step; with ``at="start"`` that at its start, which makes it
    the best predictor for forward Euler.
    """
    inputs, ends, steps = step_rows(trajectories)
    starts = inputs[:, : ends.shape[1]]
    if at != "start":
        following = np.concatenate([a[1:] for a in inputs_of(trajectories)])
        inputs = np.where(held(trajectories), inputs, (inputs + following) / 2)
    return inputs, (ends - starts) / steps[:, None]


def zoh_accelerations(trajectories: Trajectories) -> tuple[Array, Array]:
    """The same for second order: (position, velocity, action) and acceleration at inner samples.

    With constant accelerations a before and b after a sample, the second difference is their mean
    weighted by the lengths of the two steps; so is the action, which is exact for laws that are
    linear in it.
    """
    rows, targets = [], []
    for i, (x, step) in enumerate(zip(trajectories.x, trajectories.steps, strict=True)):
        before, after = step[:-1, None], step[1:, None]
        slope = np.diff(x, axis=0) / step[:, None]
        span = before + after
        parts = [x[1:-1], (before * slope[1:] + after * slope[:-1]) / span]
        if trajectories.u is not None:
            u, holds = trajectories.u[i], held(trajectories)[x.shape[1] :]
            parts.append(np.where(holds, (before * u[:-2] + after * u[1:-1]) / span, u[1:-1]))
        rows.append(np.concatenate(parts, axis=1))
        targets.append(2 * np.diff(slope, axis=0) / span)
    return np.concatenate(rows), np.concatenate(targets)


def weak_rows(
    trajectories: Trajectories,
    library: Library,
    points: int,
    columns: Any = slice(None),
    *,
    hold: bool = False,
) -> tuple[Array, Array]:
    """Integrals of library terms and derivatives against test functions over `points` samples.

    `columns` of states and actions are the library's inputs. With `hold` actions are constant
    during each step, otherwise as smooth as the states.
    Trajectories shorter than a test function get one over their whole length.
    """
    run, d = library.numpy(), trajectories.obs_shape[0]
    stride = _stride(trajectories, points, len(library))
    count = sum(max(n - points, 0) // stride + 1 for n in trajectories.lengths if n >= 3)
    features, targets = np.empty((count, len(library))), np.empty((count, d))
    row = 0
    for windows, inputs, x in _pieces(trajectories, points, stride, columns, hold):
        here = slice(row, row + windows.phi.shape[0])
        features[here] = windows.phi @ run(inputs)
        targets[here] = -(windows.dphi @ x)
        row = here.stop
    for name, low, high in zip(library.names, features.min(0), features.max(0), strict=True):
        if not (-MAX_SIZE <= low and high <= MAX_SIZE):
            raise DataError(
                f"The integral of {name} reaches {high:.3g}; rescale the data, or leave that term "
                "out of the library."
            )
    return features, targets


def weak_functions(
    trajectories: Trajectories, points: int, terms: int, columns: Any = slice(None),
    *, hold: bool = False, every: int = 1,
) -> OnRows:  # fmt: skip
    """The integrals of any function of the inputs, on rows that a library of `terms` has."""
    stride = _stride(trajectories, points, terms)
    kept, row = [], 0
    for windows, z, _ in _pieces(trajectories, points, stride, columns, hold):
        kept.append((windows.phi[-row % every :: every], z))
        row += windows.phi.shape[0]
    return lambda f: joined([phi @ f(z) for phi, z in kept])


def _pieces(
    trajectories: Trajectories, points: int, stride: int, columns: Any, hold: bool
) -> Iterator[tuple[WeakWindows, Array, Array]]:
    """Test functions, the inputs at their nodes, and the states, piece by piece to bound memory."""
    usable = [i for i, n in enumerate(trajectories.lengths) if n >= 3]
    if not usable:
        raise DataError("The weak form needs a trajectory of at least 3 points.")
    for i in usable:
        x, t = trajectories.x[i], trajectories.t[i]
        first = np.arange(0, max(len(t) - points, 0) + 1, stride)
        size = min(points, len(t))
        for block in np.array_split(first, -(-(first[-1] + size) // CHUNK)):
            if not len(block):
                continue
            begin = max(block[0] - _MARGIN, 0)
            part = slice(begin, block[-1] + size + _MARGIN)
            windows = weak_windows(t[part], points=size, first=block - begin, hold=hold)
            inputs = x[part]
            if trajectories.u is not None:
                inputs = np.concatenate([inputs, trajectories.u[i][part]], axis=1)
            if hold:
                ends = np.where(held(trajectories), inputs[:-1], inputs[1:])
                inputs = np.concatenate([inputs[:-1], ends])
            yield windows, inputs[:, columns], x[part]


def _stride(trajectories: Trajectories, points: int, terms: int) -> int:
    """Observations between test functions: less overlap where rows would take half the memory of
    the data."""
    total, d = int(trajectories.lengths.sum()), trajectories.obs_shape[0]
    max_rows = max(_ENOUGH_ROWS, total * d // (2 * terms))
    return max(default_stride(points), -(-total // max_rows))
