"""Twelve ways in which recorded data are broken, each with words that name its cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp


Array = np.ndarray
Rng = np.random.Generator


class Broken(NamedTuple):
    """Trajectories, or a table with the columns `t` and states, and the noise of the readings."""

    x: list[Array] | None
    t: Array | None
    names: tuple[str, ...]
    table: pd.DataFrame | None = None


def paths(
    field: Callable[[float, Array], Array], starts: Array, t: Array, rng: Rng, noise: float = 0.01
) -> list[Array]:
    found = []
    for start in np.atleast_2d(starts):
        run = solve_ivp(field, (t[0], t[-1]), start, t_eval=t, rtol=1e-9, atol=1e-11)
        found.append(run.y.T)
    spread = np.concatenate(found).std(axis=0)
    return [x + noise * spread * rng.standard_normal(x.shape) for x in found]


def oscillator(rng: Rng) -> Callable[[float, Array], Array]:
    k, c = rng.uniform([1, 0.1], [4, 0.3])
    return lambda s, z: np.array([z[1], -k * z[0] - c * z[1]])


T = np.arange(400) * 0.05


def several(rng: Rng, n: int = 4, d: int = 2) -> Array:
    return rng.uniform(0.5, 1.5, (n, d)) * rng.choice([-1, 1], (n, d))


def gap(rng: Rng) -> Broken:
    x = paths(oscillator(rng), several(rng, 1), T, rng)[0]
    first = int(rng.integers(100, 250))
    kept = np.r_[0:first, first + 75 : len(T)]
    return Broken([x[kept]], T[kept], ("q", "p"))


def dates(rng: Rng) -> Broken:
    x = paths(oscillator(rng), several(rng, 1), T, rng)[0]
    days = pd.Timestamp("2024-05-17 13:00") + pd.to_timedelta(T, unit="s")
    return Broken(None, None, ("q", "p"), pd.DataFrame({"t": days, "q": x[:, 0], "p": x[:, 1]}))


def missing(rng: Rng) -> Broken:
    x = paths(oscillator(rng), several(rng, 1), T, rng)[0]
    x[rng.choice(len(x), 10, replace=False), int(rng.integers(2))] = np.nan
    return Broken([x], T, ("q", "p"))


def rounding(rng: Rng) -> Broken:
    x = paths(oscillator(rng), several(rng, 1), T, rng, 0.0)
    step = 0.04 * np.abs(x[0]).max()
    return Broken([np.round(a / step) * step for a in x], T, ("q", "p"))


def bounce(rng: Rng) -> Broken:
    """A ball on a floor, its height and velocity measured."""
    g, e, found = 9.81, rng.uniform(0.75, 0.9), []
    t = np.arange(400) * 0.01
    for height in rng.uniform(1.0, 3.0, 3):
        h, v, rows, fine = height, 0.0, [], 20
        for k in range(len(t) * fine):
            if k % fine == 0:
                rows.append((h, v))
            dt = 0.01 / fine
            h, v = h + v * dt - g * dt**2 / 2, v - g * dt
            if h < 0 and v < 0:
                h, v = -e * h, -e * v
        found.append(np.array(rows))
    spread = np.concatenate(found).std(axis=0)
    return Broken([x + 0.01 * spread * rng.standard_normal(x.shape) for x in found], t, ("h", "v"))


def switch(rng: Rng) -> Broken:
    """An oscillator on which a constant force is switched on at some time."""
    k, c, f = rng.uniform([1, 0.1, 1.0], [4, 0.3, 2.0])
    at = rng.uniform(6, 14)
    field = lambda s, z: np.array([z[1], -k * z[0] - c * z[1] + f * (s > at)])  # noqa: E731
    return Broken(paths(field, several(rng, 1), T, rng), T, ("q", "p"))


def thermostat(rng: Rng) -> Broken:
    """A room whose heating is on below one temperature and off above another."""
    loss, heat, low = rng.uniform([0.1, 2.0, 19.0], [0.2, 3.0, 20.0])
    found, t = [], np.arange(400) * 0.1
    for start in (12.0, 25.0):
        x, on, rows, fine = start, True, [], 20
        for k in range(len(t) * fine):
            if k % fine == 0:
                rows.append(x)
            on = x < low if x < low or x > low + 1.5 else on
            x += 0.1 / fine * (-loss * (x - 8.0) + heat * on)
        found.append(np.array(rows)[:, None])
    return Broken([x + 0.03 * rng.standard_normal(x.shape) for x in found], t, ("T",))


def random_walk(rng: Rng) -> Broken:
    return Broken([rng.standard_normal((400, 1)).cumsum(axis=0) for _ in range(2)], T, ("x",))


def drift(rng: Rng) -> Broken:
    """An oscillator whose stiffness falls while it is recorded."""
    k, c, share = rng.uniform([2, 0.05, 0.4], [4, 0.15, 0.7])
    field = lambda s, z: np.array(  # noqa: E731
        [z[1], -k * (1 - share * s / T[-1]) * z[0] - c * z[1]]
    )
    return Broken(paths(field, several(rng, 2), T, rng), T, ("q", "p"))


def wrapped(rng: Rng) -> Broken:
    """A pendulum that turns over, its angle recorded between -pi and pi."""
    g, c = rng.uniform([1, 0.02], [2, 0.05])
    field = lambda s, z: np.array([z[1], -g * np.sin(z[0]) - c * z[1]])  # noqa: E731
    x = paths(field, np.array([[0.0, rng.uniform(3.5, 4.5)]]), T, rng)[0]
    x[:, 0] = (x[:, 0] + np.pi) % (2 * np.pi) - np.pi
    return Broken([x], T, ("th", "w"))


def hidden(rng: Rng) -> Broken:
    """Two coupled masses of which one is measured."""
    a, b, k, c = rng.uniform([1, 2, 0.8, 0.05], [2, 4, 1.5, 0.15])
    field = lambda s, z: np.array(  # noqa: E731
        [z[1], -a * z[0] - k * (z[0] - z[2]) - c * z[1],
         z[3], -b * z[2] - k * (z[2] - z[0]) - c * z[3]]
    )  # fmt: skip
    return Broken([x[:, :2] for x in paths(field, several(rng, 4, 4), T, rng)], T, ("q", "p"))


def forcing(rng: Rng) -> Broken:
    """An oscillator driven by a sine that was not recorded."""
    k, c, f = rng.uniform([1, 0.2, 1.0], [2, 0.4, 2.0])
    w = rng.uniform(1.8, 3.0)
    field = lambda s, z: np.array(  # noqa: E731
        [z[1], -k * z[0] - c * z[1] + f * np.sin(w * s)]
    )
    return Broken(paths(field, several(rng, 2), T, rng), T, ("q", "p"))


# Each with what its message says of it.
BROKEN: dict[str, tuple[Callable[[Rng], Broken], str]] = {
    "gap": (gap, "gap"),
    "dates": (dates, "holds dates"),
    "NaN": (missing, "missing='drop'"),
    "rounding": (rounding, "rounded"),
    "bounce": (bounce, "jumps at t"),
    "switch": (switch, "switches"),
    "thermostat": (thermostat, "switches"),
    "random walk": (random_walk, "random walk"),
    "drift": (drift, "drifts"),
    "wrapped angle": (wrapped, "taken for an angle"),
    "hidden state": (hidden, "Something that varies with time"),
    "unmeasured forcing": (forcing, "periodic"),
}
