"""Small videos of simple mechanical systems, from a seed, with the true states for evaluation.

Random numbers come from one ``numpy.random.default_rng(seed)``: first the initial conditions, then
the noise of the frames, so that noise does not change the motion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sjepa.data._check import Array
from sjepa.data.synthetic.pendulum import pendulum_field, rk4
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError, did_you_mean


@dataclass(frozen=True)
class Rendering:
    """How to start, move and draw one mechanical system.

    ``start`` draws one initial state, ``field`` is its velocity, and ``center`` the place (..., 2)
    of the blob that is drawn, in a window from -1.5 to 1.5.
    """

    start: Callable[[np.random.Generator], Array]
    field: Callable[[Array], Array]
    center: Callable[[Array], Array]
    width: float


def rendered(
    name: str,
    seed: int = 0,
    *,
    trajectories: int = 40,
    length: int = 100,
    step: float = 0.05,
    size: int = 32,
    width: float = 1.0,
    noise: float = 0.0,
) -> Trajectories:
    """Frames (size, size) from 0 to 1 of a mechanical system; `state` holds what moves it.

    ===========  ====================================================  ===============
    pendulum     q'' = -sin q, swings of up to about 130 degrees       angle, rate
    spring_mass  x'' = -2 x, a mass on a line                          place, speed
    ===========  ====================================================  ===============

    Parameters
    ----------
    trajectories, length : int
        How many videos, and their frames.
    step : float
        Time between frames.
    size : int
        Pixels of a side.
    width : float
        Of the blobs, as a multiple of the usual one. Narrow blobs need many principal components.
    noise : float
        Standard deviation of white noise added to every pixel.
    """
    if name not in RENDERINGS:
        raise DataError(
            f"there is no video of {name!r}; known are {', '.join(RENDERINGS)}."
            f"{did_you_mean(name, RENDERINGS)}"
        )
    if min(trajectories, size) < 1 or length < 2 or min(step, width) <= 0 or noise < 0:
        raise DataError(
            "a video needs at least 1 trajectory of 2 frames of 1 pixel, a positive step and width "
            f"and no negative noise; got {trajectories}, {length}, {size}, {step:g}, {width:g} and "
            f"{noise:g}."
        )
    system = RENDERINGS[name]
    rng = np.random.default_rng(seed)
    start = np.stack([system.start(rng) for _ in range(trajectories)])
    states = states_over(system.field, start, step * np.arange(length))
    x = []
    for path in states:  # one video at a time, for the memory
        frames = draw(system.center(path), size, width * system.width)
        if noise:
            frames += np.float32(noise) * rng.standard_normal(frames.shape, dtype=np.float32)
        x.append(frames)
    return Trajectories(x, step, state=list(states))


def draw(center: Array, size: int, width: float) -> Array:
    """Frames (..., size, size) of a Gaussian blob at centers (..., 2); row 0 is the top."""
    axis = np.linspace(-1.5, 1.5, size, dtype=np.float32)
    place = center.astype(np.float32)
    # A round Gaussian is a product of one in each direction.
    across = np.exp(-((axis - place[..., :1]) ** 2) / width**2)
    down = np.exp(-((-axis - place[..., 1:]) ** 2) / width**2)
    return down[..., :, None] * across[..., None, :]


def states_over(
    field: Callable[[Array], Array], start: Array, times: Array, inner: int = 8
) -> Array:
    """States (n, T, k) by Runge-Kutta steps of an eighth of a frame."""
    path, s = [start], start
    for h in np.diff(times) / inner:
        for _ in range(inner):
            s = rk4(field, s, h)
        path.append(s)
    return np.stack(path, axis=1)


def _pendulum_start(rng: np.random.Generator) -> Array:
    while True:
        q, p = rng.uniform([-2.2, -1.6], [2.2, 1.6])
        if abs(p**2 / 2 - np.cos(q)) <= 0.65:
            return np.array([q, p])


RENDERINGS = {
    "pendulum": Rendering(
        _pendulum_start,
        pendulum_field,
        lambda s: np.stack([np.sin(s[..., 0]), -np.cos(s[..., 0])], axis=-1),
        0.22,
    ),
    "spring_mass": Rendering(
        lambda rng: rng.uniform([-1.1, -0.8], [1.1, 0.8]),
        lambda s: np.stack([s[..., 1], -2.0 * s[..., 0]], axis=-1),
        lambda s: np.stack([s[..., 0], np.zeros_like(s[..., 0])], axis=-1),
        0.3,
    ),
}
