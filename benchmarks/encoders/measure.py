"""Everything that is measured on the coordinates of one encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from sjepa.data import Trajectories, second_derivatives
from sjepa.metrics import (
    AffineMap,
    CollapseChecks,
    CollapseReport,
    Diagnostic,
    RolloutScore,
    diagnose_latents,
    probe_r2,
    rollout_score,
)
from sjepa.metrics.induced import InducedComplexity
from sjepa.models import Transition, Whitening
from sjepa.symbolic import Law


# Starts of rollouts in each held-out trajectory.
STARTS = 5
# Components of an embedding that a probe may use: more than rows would fit anything.
PROBE_RANK = 64
# Components of the observations in which the neighbor test measures distances.
LOOK_RANK = 40


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What one encoder's coordinates are worth.

    Attributes
    ----------
    name, head : str
    embedding : int
        Values of the embedding, before the head.
    complexity : InducedComplexity
        C_dyn with its curve and its law.
    law : Law
        That law, or where none is adequate the one at the knee of the front.
    rollout : RolloutScore
        Held-out rollouts of the law against encoded futures, in units of their variance.
    probe : float or None
        R² of an affine map from the coordinates (with velocities, for second order) to the
        reference states, held out; None without reference states.
    probe_embedding : float or None
        The same from the whole embedding: what a head could have kept.
    admission : Admission
        What the checks against shortcuts measured.
    findings, notes : what to know, in plain words
    """

    name: str
    head: str
    embedding: int
    complexity: InducedComplexity
    law: Law
    rollout: RolloutScore
    physical: RolloutScore | None
    probe: float | None
    probe_embedding: float | None
    check_report: CollapseReport
    findings: Sequence[Diagnostic] = ()
    notes: Sequence[str] = field(default=())

    @property
    def adequate(self) -> bool:
        return self.complexity.law is not None


def states_of(encoded: Trajectories, order: int) -> list[np.ndarray]:
    """What a law moves: coordinates, or coordinates and velocities."""
    return encoded.x if order == 1 else second_derivatives(encoded).trajectories.x


def rollouts(
    law: Law, encoded: Trajectories, order: int, horizon: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Paths (N, K, d) of the law, what was encoded there, and (N, 2) trajectory and start."""
    states = states_of(encoded, order)
    edge = 2 if order == 2 else 0  # velocities at the very ends are one-sided
    begin, steps, goal, where = [], [], [], []
    d = encoded.obs_shape[0]
    for i, (s, t) in enumerate(zip(states, encoded.t, strict=True)):
        last = len(s) - 1 - horizon
        if last < edge:
            continue
        for k in sorted({int(v) for v in np.linspace(edge, last, STARTS)}):
            begin.append(s[k])
            steps.append(np.diff(t[k : k + horizon + 1]))
            goal.append(encoded.x[i][k + 1 : k + horizon + 1])
            where.append((i, k))
    transition = Transition.of(law)
    with torch.no_grad():
        path = transition.rollout(torch.tensor(np.stack(begin)), torch.tensor(np.stack(steps)))
    return path[:, 1:, :d].numpy(), np.stack(goal), np.array(where)


def score_rollouts(
    law: Law, train: Trajectories, test: Trajectories, order: int, horizon: int
) -> tuple[RolloutScore, RolloutScore | None]:
    """In units of the variance of the coordinates; and in those of the reference positions.

    For the latter an affine map from coordinates to states is fitted on the training part. With
    second order that is positions to positions: the leading half of the states.
    """
    path, goal, where = rollouts(law, test, order, horizon)
    rows = np.concatenate(train.x)
    mean, std = rows.mean(0), rows.std(0) + 1e-300
    latent = rollout_score((path - mean) / std, (goal - mean) / std)
    if train.state is None or test.state is None:
        return latent, None
    visible = _visible(train, order)
    reference = np.concatenate(train.state)[:, :visible]
    spread = reference.std(0) + 1e-300
    align = AffineMap.fit(rows, reference / spread)
    truth = np.stack([test.state[i][s + 1 : s + 1 + horizon, :visible] / spread for i, s in where])
    return latent, rollout_score(path, truth, align, latent_limit=np.inf)


def probe(train: Trajectories, test: Trajectories, order: int) -> float | None:
    """R² of the reference states from the coordinates, on held-out trajectories."""
    if train.state is None or test.state is None:
        return None
    return probe_r2(
        np.concatenate(states_of(train, order)), np.concatenate(train.state),
        np.concatenate(states_of(test, order)), np.concatenate(test.state),
    ).test  # fmt: skip


def _visible(trajectories: Trajectories, order: int) -> int:
    """How many of the reference states one observation can show: positions, for second order."""
    assert trajectories.state is not None
    k = trajectories.state[0].shape[1]
    return k // 2 if order == 2 and k % 2 == 0 else k


def probe_embedding(
    train: Sequence[np.ndarray],
    test: Sequence[np.ndarray],
    data: Trajectories,
    held_out: Trajectories,
    order: int,
) -> float | None:
    """The same from the leading components of the whole embedding.

    For second order only the positions are asked for: one frame shows no velocity.
    """
    if data.state is None or held_out.state is None:
        return None
    rows = torch.as_tensor(np.concatenate(list(train)))
    rank = min(PROBE_RANK, *rows.shape)
    if float(rows.var(0).sum()) <= 0:
        return 0.0
    lens = Whitening.fit(rows, rows.shape[1], rank=rank, max_rank=rank)
    z, y = lens(rows), lens(torch.as_tensor(np.concatenate(list(test))))
    visible = _visible(data, order)
    truth, unseen = (np.concatenate(s)[:, :visible] for s in (data.state, held_out.state))
    return probe_r2(z, truth, y, unseen).test


def shortcuts(
    encoded: Trajectories, observed: Trajectories, order: int
) -> tuple[CollapseReport, list[Diagnostic]]:
    """Collapse of any kind, measured on held-out trajectories.

    Coordinates are brought to unit variance together first: their common scale is a gauge.
    """
    rows = torch.as_tensor(np.concatenate([x.reshape(len(x), -1) for x in observed.x])).double()
    rank = min(LOOK_RANK, *rows.shape)
    lens = Whitening.fit(rows, rows.shape[1], rank=rank, max_rank=rank)
    spread = 1.0 / lens.matrix.norm(dim=0)  # components in their own units keep distances
    looks = [(lens(torch.as_tensor(x.reshape(len(x), -1)).double()) * spread).numpy()
             for x in observed.x]  # fmt: skip
    states = states_of(encoded, order)
    z = Trajectories(states, encoded.t, gaps="keep").padded()
    look = Trajectories(looks, encoded.t, gaps="keep").padded()["x"]
    checks = CollapseChecks()
    latents, mask = np.asarray(z["x"]), np.asarray(z["mask"])
    scale = np.sqrt(latents[mask].var(0).mean()) + 1e-300
    check_report = checks.check(latents / scale, look, mask)
    return check_report, diagnose_latents(latents / scale, look, mask, checks)
