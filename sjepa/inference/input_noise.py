"""Noise of measured inputs: what it does to simulations, and weights that allow for it.

A simulation is driven by the inputs as they were measured. Their noise moves it further and further
away from the measured states, however clean those are; the right law leaves that, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sjepa.data import Trajectories
from sjepa.data._check import spread
from sjepa.data.forms import NOISY
from sjepa.data.noise import noise_level
from sjepa.inference.batch_simulation import Shooter
from sjepa.inference.segments import MIN_STEPS, Segments
from sjepa.symbolic import Law


# Actions as rough as this share of their spread are no smooth or zoh signal with noise on it.
ROUGH = 0.3
# Values of a stretch that are weighed together, a matrix of so many rows for each.
SIZE = 200
# Levels of noise that are compared, as shares of the roughness of the actions.
LEVELS = np.concatenate([[0.0], np.geomspace(0.03, 1.0, 15)])
# Variance that noise of actions must add to that of the states to matter.
MATTERS = 0.1


def weighed(segments: Segments, data: Trajectories, law: Law, zoh: bool) -> Segments:
    """The segments with weights for what noise of the actions leaves under a law near the truth.

    How noisy the actions are is what makes the residuals of this law most likely, whatever its
    numbers and starts: at most as noisy as the actions are rough.
    """
    if data.u is None or segments.u is None:
        return segments
    rough, sizes = noise_level(data.u, data.t), spread(data.u)
    rough = np.where((rough > NOISY * sizes) & (rough < ROUGH * sizes), rough, 0.0)
    if not rough.any():
        return segments
    count = max(SIZE // segments.x.shape[2], MIN_STEPS)
    at = slice(None, count * segments.every + 1, segments.every)
    nodes = replace(
        segments, x=segments.x[:, at], t=segments.t[:, at], u=segments.u[:, :count], every=1,
        sigma=None if segments.sigma is None else segments.sigma[:, at],
    )  # fmt: skip
    free = law.with_free_terms()
    shooter = Shooter(free, nodes)
    if not shooter.uses_inputs:
        return segments
    path, jacobian = shooter.linearized(free.coefficients, nodes.start)
    left, away = shooter.residual(path), _response(free, nodes, path, rough, zoh)
    r, a, b = (np.moveaxis(v, 1, 0).reshape(len(nodes), left.shape[0] * left.shape[2], -1)
               for v in (left, jacobian, away))  # fmt: skip
    # What numbers and starts could make up for tells nothing about noise.
    basis = np.linalg.svd(a, full_matrices=True)[0][..., a.shape[2] :]
    across = basis.transpose(0, 2, 1)
    small = np.linalg.svd(across @ b, full_matrices=False)
    inside = (small[0].transpose(0, 2, 1) @ (across @ r))[..., 0] ** 2
    more = LEVELS[:, None, None] ** 2 * small[1] ** 2 + 1
    likely = -0.5 * (np.log(more) + inside / more).sum(axis=(1, 2))
    level = LEVELS[np.argmax(likely)]
    whole = np.linalg.svd(b, full_matrices=False)
    added = (level * whole[1]) ** 2
    if added.sum() < MATTERS * r.size:
        return segments
    shrunk = 1 - 1 / np.sqrt(1 + added)
    weights = np.eye(r.shape[1]) - (whole[0] * shrunk[:, None]) @ whole[0].transpose(0, 2, 1)
    return replace(nodes, weights=weights)


def _response(
    law: Law, nodes: Segments, path: np.ndarray, rough: np.ndarray, zoh: bool
) -> np.ndarray:
    """Change of the path (H + 1, S, d, noises), in units of noise, by that of each measurement."""
    assert nodes.u is not None
    steps, m = nodes.u.shape[1], nodes.u.shape[3]
    moved = np.zeros((steps + 1, steps, 3))
    here = np.arange(steps)
    moved[here, here] = [1.0, 1.0, 1.0] if zoh else [1.0, 0.5, 0.0]
    if not zoh:
        moved[here + 1, here] = [0.0, 0.5, 1.0]
    moved = moved[: steps + (not zoh)]
    by = 1e-4 * rough
    bumps = np.zeros((m, *moved.shape, m))
    for k in range(m):
        bumps[k, ..., k] = by[k] * moved
    bumps = bumps.reshape(-1, 1, steps, 3, m)  # copies for each stretch
    u = nodes.u + bumps
    start = np.broadcast_to(path[0], (len(u), *path[0].shape))
    runs = Shooter(law, replace(nodes, u=u)).path(law.coefficients, start)
    d = nodes.x.shape[2]
    change = (runs[..., :d] - path[:, None, :, :d]) / 1e-4
    return nodes.scaled(np.moveaxis(change, 1, -1))
