"""Data from equations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.integrate import solve_ivp

from sjepa.data._check import Array
from sjepa.data.synthetic.systems import SYSTEMS, System
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError, did_you_mean


def simulate(
    system: System | str,
    *,
    seed: int,
    noise: float = 0.0,
    trajectories: int | None = None,
    points: int | None = None,
) -> Trajectories:
    """Trajectories of a system from random initial states.

    Parameters
    ----------
    system : System or str
        A row of :data:`SYSTEMS`, or its name.
    seed : int
        Everything random comes from ``default_rng(seed)``, in this order: initial states, actions,
        noise. Noise of another size therefore comes on top of the same trajectories.
    noise : float
        Gaussian, as a fraction of each variable's standard deviation. Added to `x` only; `state`
        is noise-free.
    trajectories, points : int, optional
        Instead of the system's own.
    """
    if isinstance(system, str):
        system = find_system(system)
    if not (np.isfinite(noise) and noise >= 0):
        raise DataError(f"noise must be a fraction, 0 or more, got {noise}.")
    system = replace(
        system,
        trajectories=system.trajectories if trajectories is None else trajectories,
        points=system.points if points is None else points,
    )
    if system.trajectories < 1 or system.points < 2:
        raise DataError(
            f"need at least 1 trajectory of 2 points, got {system.trajectories} of {system.points}."
        )
    rng = np.random.default_rng(seed)
    start = rng.uniform(*system.initial, size=(system.trajectories, len(system.inputs)))
    action = _actions(system, rng)
    t = system.step * np.arange(system.points)
    states = _solve(system, start, action, t)
    scale = noise * states.std(axis=(0, 1))
    x = states + scale * rng.normal(size=states.shape)
    u = np.stack([action(time) for time in t], axis=1) if system.actions else None  # (n, T, m)
    return Trajectories(
        list(x),
        t,
        None if u is None else list(u),
        state=list(states),
        names=system.inputs,
        input_names=system.actions or None,
    )


def find_system(name: str) -> System:
    if name not in SYSTEMS:
        hint = did_you_mean(name, SYSTEMS)
        raise DataError(f"No system is called {name!r}.{hint} Known: {', '.join(SYSTEMS)}.")
    return SYSTEMS[name]


def _actions(system: System, rng: np.random.Generator) -> Callable[[float], Array]:
    """A different sum of three sines for each trajectory and action, as a function of time."""
    shape = (system.trajectories, len(system.actions), 3)
    frequency = rng.uniform(0.3, 3.0, size=shape)
    phase = rng.uniform(0, 2 * np.pi, size=shape)
    mean, amplitude = system.drive
    return lambda time: mean + amplitude * np.sin(frequency * time + phase).sum(axis=-1)


def _solve(system: System, start: Array, action: Callable[[float], Array], t: Array) -> Array:
    """States (n, T, d) by an eighth-order adaptive method."""
    from sjepa.symbolic.law import Law

    names = [*system.inputs, *system.actions]
    field = Law.from_string(list(system.equations), inputs=names).numpy()

    def rhs(time: float, flat: Array) -> Array:
        states = flat.reshape(start.shape)
        return np.asarray(field(np.concatenate([states, action(time)], axis=1))).ravel()

    # One call for all trajectories: the right-hand side is vectorized, the solver is not. The
    # tolerance leaves room for the error being averaged over them.
    solution = solve_ivp(
        rhs, (t[0], t[-1]), start.ravel(), method="DOP853", t_eval=t, rtol=1e-11, atol=1e-12
    )
    if not solution.success or not np.isfinite(solution.y).all():
        raise DataError(
            f"system {system.name!r} cannot be integrated from these initial states "
            f"({solution.message}); use a smaller box or fewer points."
        )
    return solution.y.T.reshape(len(t), *start.shape).swapaxes(0, 1)
