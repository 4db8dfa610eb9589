"""The system of Experiment 2 with noise: a pendulum with quadratic drag."""

from __future__ import annotations

import numpy as np

from sjepa.data import Trajectories, pendulum_field


STEPS = (0.025, 0.04, 0.06)
BOX = (2.2, 2.4)
TERMS = ["1", "q", "p", "sin(q)", "cos(q)", "q*abs(q)", "p*abs(p)"]
TERMS += ["q**2", "p**2", "q*p", "q**3", "p**3"]
TRUE = {"q": {"p"}, "p": {"sin(q)", "p*Abs(p)"}}


def drag_pendulum(
    seed: int, trajectories: int, steps: int, noise: float, observed: float = 0.0
) -> Trajectories:
    """States after steps of 0.025, 0.04 or 0.06, each step disturbed by normal noise.

    Drawn from ``default_rng(seed)``: initial states, time steps, noise. `observed` adds noise to
    what is seen, which the state itself does not feel.
    """
    rng = np.random.default_rng(seed)
    s = [rng.uniform(-np.array(BOX), BOX, size=(trajectories, 2))]
    dt = rng.choice(STEPS, size=(trajectories, steps))
    for h in dt.T[..., None]:
        s.append(_rk4(s[-1], h) + noise * rng.normal(size=(trajectories, 2)))
    x = np.stack(s, axis=1)
    t = np.concatenate([np.zeros((trajectories, 1)), dt.cumsum(axis=1)], axis=1)
    measured = x + observed * rng.normal(size=x.shape)
    return Trajectories(list(measured), list(t), state=list(x), names=("q", "p"))


def _rk4(s: np.ndarray, h: np.ndarray) -> np.ndarray:
    def f(z: np.ndarray) -> np.ndarray:
        return pendulum_field(z, drag=0.4)

    k1 = f(s)
    k2 = f(s + h / 2 * k1)
    k3 = f(s + h / 2 * k2)
    k4 = f(s + h * k3)
    return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def is_true(law: object) -> bool:
    """Whether a law has exactly the terms of the true one."""
    pairs = zip(law.outputs, law.terms, strict=True)  # type: ignore[attr-defined]
    return all({str(term) for _, term in terms} == TRUE[name] for name, terms in pairs)
