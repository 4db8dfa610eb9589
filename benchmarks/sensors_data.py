"""Systems seen through curved sensors: no observed value is a copy of a state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sjepa.data import Trajectories, simulate
from sjepa.data.synthetic.systems import SYSTEMS


# Time between observations, and observations a trajectory: a few dozen samples a period.
SAMPLING = {
    "pendulum": (0.1, 120),
    "duffing": (0.06, 120),
    "van_der_pol": (0.08, 120),
    "lotka_volterra": (0.08, 120),
    "double_well": (0.1, 120),
    "lorenz": (0.02, 120),
}
NOISE = 0.005

Sensor = Callable[[np.ndarray], np.ndarray]


def tanh_network(dim: int, values: int, rng: np.random.Generator, hidden: int = 32) -> Sensor:
    """Two layers of tanh units with random weights."""
    first = rng.normal(size=(dim, hidden)) * 0.9 / np.sqrt(dim)
    bias = rng.normal(size=hidden) * 0.5
    second = rng.normal(size=(hidden, values)) * 1.6 / np.sqrt(hidden)
    return lambda s: np.tanh(np.tanh(s @ first + bias) @ second)


def polynomial(dim: int, rng: np.random.Generator) -> Sensor:
    """Random cubics, fewer than there are monomials, so that no sum of them is linear."""
    values = 6 if dim < 3 else 8
    linear = np.linalg.qr(rng.normal(size=(values, values)))[0][:, :dim]
    pairs = np.triu_indices(dim)
    square = 0.25 * rng.normal(size=(len(pairs[0]), values))
    cube = 0.08 * rng.normal(size=(dim, values))

    def observe(s: np.ndarray) -> np.ndarray:
        products = s[..., pairs[0]] * s[..., pairs[1]]
        return s @ linear.T + products @ square + s**3 @ cube

    return observe


def camera(dim: int, rng: np.random.Generator) -> Sensor:
    """Perspective images (two values each) of markers that the state moves about in a room."""
    markers = dim + 1
    place = rng.normal(size=(markers, 3)) * 0.5
    motion = rng.normal(size=(dim, markers, 3)) * 0.6

    def observe(s: np.ndarray) -> np.ndarray:
        at = place + np.tensordot(s, motion, axes=1)
        depth = 3.0 + 2.2 * np.tanh(at[..., 2:])
        return (3.0 * at[..., :2] / depth).reshape(*s.shape[:-1], -1)

    return observe


def sensor(kind: str, dim: int, seed: int) -> Sensor:
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    if kind.startswith("tanh"):
        return tanh_network(dim, int(kind[4:]), rng)
    return {"polynomial": polynomial, "camera": camera}[kind](dim, rng)


SENSORS = ("tanh6", "tanh24", "polynomial", "camera")


def observed(
    system: str, kind: str, seed: int, trajectories: int = 60, test: int = 20
) -> tuple[Trajectories, Trajectories]:
    """Training and test trajectories of noisy observations; the states come along for judging."""
    step, points = SAMPLING[system]
    row = replace(SYSTEMS[system], step=step, points=points, trajectories=trajectories + test)
    states = np.stack(simulate(row, seed=seed).x)
    rows = states[:trajectories].reshape(-1, states.shape[-1])
    x = sensor(kind, states.shape[-1], seed)((states - rows.mean(0)) / rows.std(0))
    rng = np.random.default_rng([seed, 1])
    x = x + NOISE * x.std(axis=(0, 1)) * rng.normal(size=x.shape)
    everything = Trajectories(list(x), step, state=list(states))
    return everything[:trajectories], everything[trajectories:]
