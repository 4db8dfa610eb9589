"""Laws for accelerations: what to search when one observation does not show how it moves.

A frame shows where things are, not how fast. The state is then (z, dz/dt) and the law gives the
second derivative; velocities come from neighbouring frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sjepa.data.derivatives import differentiate
from sjepa.data.trajectories import Trajectories
from sjepa.errors import ConfigError, DataError
from sjepa.symbolic import Grammar, Library


@dataclass(frozen=True, eq=False)
class Motion:
    """Smoothed coordinates with their velocities, and accelerations.

    ``states`` holds (T, 2 d) for each trajectory; ``inputs`` (n, 2 d) and ``targets`` (n, d) are
    the rows of all trajectories whose accelerations can be trusted.
    """

    states: list[np.ndarray]
    inputs: np.ndarray
    targets: np.ndarray
    names: tuple[str, ...]


def motion(encoded: Trajectories) -> Motion:
    """Differentiate coordinates twice."""
    first = differentiate(encoded)
    speeds = Trajectories(first.x_dot, encoded.t)
    second = differentiate(speeds)
    states = [
        np.concatenate([z, v], axis=1)
        for z, v in zip(first.trajectories.x, second.trajectories.x, strict=True)
    ]
    rows = [np.flatnonzero(a & b) for a, b in zip(first.valid, second.valid, strict=True)]
    if not sum(map(len, rows)):
        raise DataError("Trajectories are too short for second derivatives; use order=1.")
    names = encoded.names or tuple(f"z{i + 1}" for i in range(encoded.obs_shape[0]))
    return Motion(
        states,
        np.concatenate([s[r] for s, r in zip(states, rows, strict=True)]),
        np.concatenate([a[r] for a, r in zip(second.x_dot, rows, strict=True)]),
        (*names, *(f"{n}_dot" for n in names)),
    )


def state_names(source: Library | Grammar, dim: int) -> tuple[str, ...]:
    """Names of coordinates and velocities; a library may name the coordinates alone."""
    inputs = tuple(source.inputs)
    if len(inputs) == 2 * dim:
        return inputs
    if len(inputs) == dim:
        return (*inputs, *(f"{n}_dot" for n in inputs))
    raise ConfigError(
        f"A second-order law of {dim} coordinates needs a library of {dim} or {2 * dim} inputs "
        f"(coordinates, then velocities), got {len(inputs)}: {', '.join(inputs)}."
    )


def initial_state(z: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(z, dz/dt) at the first of a few successive samples z (k, d), by a parabola through them."""
    if z.ndim != 2 or len(z) < 2 or len(t) < len(z):
        raise DataError(
            f"A second-order law starts from at least two successive observations, taken at the "
            f"first times given; got coordinates {z.shape} and {len(t)} times."
        )
    since = t[: len(z)] - t[0]
    design = np.vander(since, min(3, len(z)), increasing=True)
    fitted = np.linalg.lstsq(design, z, rcond=None)[0]
    return np.concatenate([fitted[0], fitted[1]])
