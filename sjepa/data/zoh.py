"""Actions that are held between samples, as a digital controller holds them.

A state driven by such actions has a kink at every sample, so derivatives taken across samples mix
two actions. Within one step nothing jumps: its mean velocity belongs to its own action alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sjepa.data._check import Array
from sjepa.data.trajectories import Trajectories


# Second differences over first differences, root mean square: 1.4 for steps and random walks, 1.7
# for white noise, angular frequency times step for a sine. 0.7 is a sine of nine samples.
JUMPY = 0.7


def is_piecewise_constant(actions: Sequence[Array]) -> bool:
    """Whether any action column moves in jumps, rather than along a smooth curve."""
    first = np.concatenate([np.diff(u, axis=0) for u in actions])
    second = [np.diff(u, n=2, axis=0) for u in actions if len(u) > 2]
    if not second:
        return True
    change = np.sqrt(np.mean(first**2, axis=0))
    turn = np.sqrt(np.mean(np.concatenate(second) ** 2, axis=0))
    return bool((turn > JUMPY * change).any())


def zoh_rows(trajectories: Trajectories, at: str = "middle") -> tuple[Array, Array]:
    """One row for each step: (state, action) and the mean velocity over the step.

    The state is that at the middle of the step, the mean of its two ends, which makes a law
    fitted to these rows right to second order in the step; with ``at="start"`` that at its start,
    which makes it the best predictor for forward Euler.
    """
    inputs, slopes = [], []
    for i, (x, t) in enumerate(zip(trajectories.x, trajectories.t, strict=True)):
        state = x[:-1] if at == "start" else (x[1:] + x[:-1]) / 2
        parts = [state] if trajectories.u is None else [state, trajectories.u[i][:-1]]
        inputs.append(np.concatenate(parts, axis=1))
        slopes.append(np.diff(x, axis=0) / np.diff(t)[:, None])
    return np.concatenate(inputs), np.concatenate(slopes)
