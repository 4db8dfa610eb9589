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

    ``start`` draws one initial state, ``path`` gives the states (n, T, k) at times (T,) and
    ``centers`` the places (..., blobs, 2) of what is drawn, in a window from -1.5 to 1.5.
    """

    start: Callable[[np.random.Generator], Array]
    path: Callable[[Array, Array], Array]
    centers: Callable[[Array], Array]
    widths: tuple[float, ...] = (0.22,)


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

    =============  ========================================================  =====================
    pendulum       q'' = -sin q, swings of up to about 130 degrees           angle, rate
    spring_mass    x'' = -2 x, a mass on a line                              place, speed
    two_body       r'' = -r / ``|r|³``, two blobs opposite each other        place, speed (4)
    bouncing_ball  falls with g = 2, elastic floor and walls                 place, speed (4)
    =============  ========================================================  =====================

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
    states = system.path(start, step * np.arange(length))
    x = []
    for path in states:  # one video at a time, for the memory
        frames = draw(system.centers(path), size, tuple(width * w for w in system.widths))
        if noise:
            frames += np.float32(noise) * rng.standard_normal(frames.shape, dtype=np.float32)
        x.append(frames)
    return Trajectories(x, step, state=list(states))


def draw(centers: Array, size: int, widths: tuple[float, ...]) -> Array:
    """Frames (..., size, size) of Gaussian blobs at centers (..., blobs, 2); row 0 is the top."""
    axis = np.linspace(-1.5, 1.5, size, dtype=np.float32)
    frames = np.zeros((*centers.shape[:-2], size, size), dtype=np.float32)
    for blob, width in enumerate(widths):
        place = centers[..., blob, :].astype(np.float32)
        # A round Gaussian is a product of one in each direction.
        across = np.exp(-((axis - place[..., :1]) ** 2) / width**2)
        down = np.exp(-((-axis - place[..., 1:]) ** 2) / width**2)
        frames += down[..., :, None] * across[..., None, :]
    return frames


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


def _spring(s: Array) -> Array:
    return np.stack([s[..., 1], -2.0 * s[..., 0]], axis=-1)


def _orbit_start(rng: np.random.Generator) -> Array:
    """Near-circular orbits: radius 0.6 to 1, speed within 15 % of the circular one."""
    radius, angle, speed = rng.uniform([0.6, 0.0, 0.85], [1.0, 2 * np.pi, 1.15])
    v = speed / np.sqrt(radius)
    c, s = np.cos(angle), np.sin(angle)
    return np.array([radius * c, radius * s, -v * s, v * c])


def _orbit(s: Array) -> Array:
    r, v = s[..., :2], s[..., 2:]
    return np.concatenate([v, -r / np.linalg.norm(r, axis=-1, keepdims=True) ** 3], axis=-1)


_WALL, _FLOOR, _GRAVITY = 1.2, -1.2, 2.0


def _bounce(start: Array, times: Array) -> Array:
    """In closed form: a triangle wave sideways, parabolas between bounces."""
    x0, y0, vx, vy = (start[:, i, None] for i in range(4))
    lap = 4 * _WALL
    phase = (x0 + _WALL + vx * times) % lap
    rising = phase < lap / 2
    x = np.where(rising, phase, lap - phase) - _WALL
    top = y0 - _FLOOR + vy**2 / (2 * _GRAVITY)
    flight = 2 * np.sqrt(2 * top / _GRAVITY)
    since = (times - vy / _GRAVITY + flight / 2) % flight - flight / 2  # since the last apex
    y = _FLOOR + top - _GRAVITY / 2 * since**2
    return np.stack([x, y, np.where(rising, vx, -vx), -_GRAVITY * since], axis=-1)


RENDERINGS = {
    "pendulum": Rendering(
        _pendulum_start,
        lambda s, t: states_over(pendulum_field, s, t),
        lambda s: np.stack([np.sin(s[..., :1]), -np.cos(s[..., :1])], axis=-1),
    ),
    "spring_mass": Rendering(
        lambda rng: rng.uniform([-1.1, -0.8], [1.1, 0.8]),
        lambda s, t: states_over(_spring, s, t),
        lambda s: np.stack([s[..., :1], np.zeros_like(s[..., :1])], axis=-1),
        (0.3,),
    ),
    "two_body": Rendering(
        _orbit_start,
        lambda s, t: states_over(_orbit, s, t),
        lambda s: np.stack([s[..., :2], -s[..., :2]], axis=-2),
        (0.35, 0.22),
    ),
    "bouncing_ball": Rendering(
        lambda rng: rng.uniform([-1.0, -0.6, 0.3, -0.5], [1.0, 1.0, 0.9, 0.5]),
        _bounce,
        lambda s: s[..., None, :2],
        (0.25,),
    ),
}
