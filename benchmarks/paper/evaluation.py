"""Every figure of the paper's Experiment 1 for one trained model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.paper.common import EVALUATION_STEPS, EVALUATION_TRAJECTORIES, Split
from benchmarks.paper.scores import lipschitz, mean_squared_error, rollout_bound
from sjepa.metrics import (
    AffineMap,
    latent_spread,
    neighbor_test,
    probe_r2,
    rollout_score,
    within_trajectory_share,
)
from sjepa.metrics.arrays import as_array
from sjepa.models import Transition
from sjepa.training.alternating import LatentModel
from sjepa.training.alternating.conditions import Component


@torch.no_grad()
def evaluate_latents(
    model: LatentModel, uses: Sequence[Component], own_targets: bool, data: dict[str, Split]
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Metrics, and the curves that the figures are drawn from.

    With `own_targets` the latent error is measured against the context encoder's embedding of
    the next observation, otherwise against the target encoder's. The affine map to physical
    states is fitted on training latents alone.
    """
    model.eval()
    transition = model.transition(tuple(uses))
    z = {key: model.encode(split.batch.x) for key, split in data.items() if key != "val"}
    align = AffineMap.fit(z["train"], data["train"].states)
    probe = probe_r2(z["train"], data["train"].states, z["test"], data["test"].states)
    spread = latent_spread(z["train"])

    test = data["test"]
    goal = z["test"] if own_targets else model.encode(test.batch.x, target=True)
    ahead = transition(z["test"][:, :-1], test.batch.dt.unsqueeze(-1))
    share = within_trajectory_share(z["train"])
    metrics = {
        "latent_mse": mean_squared_error(ahead, goal[:, 1:]),
        "state_mse": mean_squared_error(align(ahead), test.states[:, 1:]),
        "probe_r2_train": probe.train,
        "probe_r2": probe.test,
        "min_std": spread.min_std,
        "cov_trace": spread.covariance_trace,
        "effective_rank": spread.effective_rank,
        "within_share": share.mean,
        "within_share_worst": share.worst,
        "neighbor": neighbor_test(z["test"], test.batch.x),
    }
    curves: dict[str, np.ndarray] = {}
    n, k = EVALUATION_TRAJECTORIES, EVALUATION_STEPS
    for name in ("test", "ood"):
        path = transition.rollout(z[name][:n, 0], data[name].batch.dt[:n, :k])
        score = rollout_score(path[:, 1:], data[name].states[:n, 1 : k + 1], align)
        metrics |= {f"{name}_rollout": score.mse, f"{name}_divergence": score.divergence_rate}
        curves[f"{name}_per_step"] = score.per_step
    metrics |= _bound(transition, z["test"], goal, test)
    every = max(1, len(z["test"].flatten(0, 1)) // 4000)
    curves["latents"] = as_array(z["test"]).reshape(-1, z["test"].shape[-1])[::every]
    curves["q"] = test.states[..., 0].reshape(-1)[::every]
    return metrics, curves


def _bound(
    transition: Transition, z: torch.Tensor, goal: torch.Tensor, split: Split
) -> dict[str, float]:
    """The rollout proposition as a diagnostic: Lipschitz constant, and the bound after 80 steps.

    The bound uses the 99 % quantile of the local constants and the root mean square one-step
    error; it is what error growth would allow, not what happens.
    """
    states, steps = z[:, :-1].flatten(0, 1), split.batch.dt.flatten()[:, None]
    every = max(1, len(states) // 2000)
    largest, typical = lipschitz(transition, states[::every], steps[::every])
    error = (transition(states, steps) - goal[:, 1:].flatten(0, 1)).square().sum(-1).mean().sqrt()
    bound = rollout_bound(typical, float(error), EVALUATION_STEPS)
    return {
        "lipschitz": typical,
        "lipschitz_max": largest,
        "rollout_bound": float(bound[-1]),
    }
