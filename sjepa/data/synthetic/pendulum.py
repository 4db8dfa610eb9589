"""The paper's pendulum data: a simulator, two experiments, four splits each.

Random numbers are drawn from one ``numpy.random.default_rng(seed)`` per data set, in this order:

1. initial states, (n, 2) uniform in the box of the split;
2. time steps, (n, 100) uniform choice from `STEPS`;
3. Experiment 1 only: observation noise, (n, 101, 32) normal.

The observation map of Experiment 1 has a generator of its own (seed 101): W (8, 2) normal,
b (8,) normal, then a (32, 32) normal matrix whose QR factor is Q. The paper does not state the
laws of W and b; standard normal is our choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sjepa.data._check import Array
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError


STEPS = (0.025, 0.04, 0.06)
TRANSITIONS = 100
SIZES = {"train": 300, "val": 80, "test": 80, "ood": 80}
NOISE = 0.003
MAP_SEED = 101


@dataclass(frozen=True)
class PendulumExperiment:
    """One row of the paper's table: drag, seeds, and half-widths of the initial (q, p) boxes."""

    drag: float
    seeds: dict[str, int]
    box: tuple[float, float]
    ood_box: tuple[float, float]


EXPERIMENTS = {
    "exp1": PendulumExperiment(
        0.0, {"train": 1001, "val": 1004, "test": 1002, "ood": 1003}, (1.8, 1.4), (2.65, 2.0)
    ),
    "exp2": PendulumExperiment(
        0.4, {"train": 2001, "val": 2004, "test": 2002, "ood": 2003}, (2.2, 2.4), (2.9, 3.0)
    ),
}


def paper_data(name: str) -> dict[str, Trajectories]:
    """The data of ``"exp1"`` or ``"exp2"``: train, val, test and ood trajectories.

    In exp1 `x` is the standardized 32-dimensional observation, in exp2 the state (q, p) itself;
    `state` is (q, p) in both. The same call always gives the same numbers.
    """
    if name not in EXPERIMENTS:
        raise DataError(f"there is no experiment {name!r}; known are {', '.join(EXPERIMENTS)}.")
    experiment = EXPERIMENTS[name]
    observe = observation_map() if name == "exp1" else None
    raw = {split: _simulate(experiment, split, observe) for split in SIZES}
    if observe is None:
        return {
            split: Trajectories(list(s), list(t), state=list(s), names=("q", "p"))
            for split, (s, t, _) in raw.items()
        }
    # Training statistics only: the other splits must not leak into what the encoder sees.
    train = raw["train"][2]
    mean, std = train.mean(axis=(0, 1)), train.std(axis=(0, 1))
    return {
        split: Trajectories(list((x - mean) / std), list(t), state=list(s))
        for split, (s, t, x) in raw.items()
    }


def pendulum_field(s: Array, drag: float = 0.0) -> Array:
    """dq/dt = p, dp/dt = -sin q - drag p|p|, for states (..., 2)."""
    q, p = s[..., 0], s[..., 1]
    return np.stack([p, -np.sin(q) - drag * p * np.abs(p)], axis=-1)


def observation_map(seed: int = MAP_SEED) -> Callable[[Array], Array]:
    """The fixed map from states (..., 2) to noiseless observations (..., 32)."""
    rng = np.random.default_rng(seed)
    w, b = rng.normal(size=(8, 2)), rng.normal(size=8)
    mix = np.linalg.qr(rng.normal(size=(32, 32)))[0]

    def observe(s: Array) -> Array:
        q, p = s[..., 0], s[..., 1]
        plain = [q, p, np.sin(q), np.cos(q), np.sin(2 * q), np.cos(2 * q), np.sin(p), np.cos(p)]
        plain += [np.tanh(q), np.tanh(p), q * p, q**2, p**2, q**3 / 6, p**3 / 6, np.ones_like(q)]
        mixed = s @ w.T + b
        psi = np.concatenate([np.stack(plain, axis=-1), np.tanh(mixed), np.sin(mixed)], axis=-1)
        return psi @ mix.T

    return observe


def _simulate(
    experiment: PendulumExperiment, split: str, observe: Callable[[Array], Array] | None
) -> tuple[Array, Array, Array]:
    """States (n, 101, 2), times (n, 101) and observations of one split, before scaling."""
    rng = np.random.default_rng(experiment.seeds[split])
    half = np.array(experiment.ood_box if split == "ood" else experiment.box)
    n = SIZES[split]
    states = [rng.uniform(-half, half, size=(n, 2))]
    dt = rng.choice(STEPS, size=(n, TRANSITIONS))
    field = partial(pendulum_field, drag=experiment.drag)
    for h in dt.T[..., None]:
        states.append(rk4(field, states[-1], h))
    s = np.stack(states, axis=1)
    t = np.concatenate([np.zeros((n, 1)), dt.cumsum(axis=1)], axis=1)
    if observe is None:
        return s, t, s
    return s, t, observe(s) + NOISE * rng.normal(size=(n, TRANSITIONS + 1, 32))


def rk4(field: Callable[[Array], Array], s: Array, h: Array | float) -> Array:
    """One step of the classical fourth-order Runge-Kutta method."""
    k1 = field(s)
    k2 = field(s + h / 2 * k1)
    k3 = field(s + h / 2 * k2)
    k4 = field(s + h * k3)
    return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
