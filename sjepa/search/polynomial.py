"""The search for libraries that are closed under affine maps: subspace, gauge, exact support."""

from __future__ import annotations

import torch

from sjepa.models.encoders import LinearEncoder
from sjepa.search.gauge import THRESHOLDS, Gauge, search_gauge
from sjepa.search.gauge_moves import GaugeMoves
from sjepa.search.polish import Task, linear_head, polish
from sjepa.search.setting import Setting
from sjepa.search.structures import Structure, structure
from sjepa.search.subspace import Subspace, search_subspace


# Points on which the size of terms is measured, for each term of the library.
POINTS_PER_TERM = 20


def gauged_heads(setting: Setting) -> list[tuple[LinearEncoder, Task]]:
    """Polished encoders for the sparse laws of the best subspace."""
    library, effort = setting.library, setting.budget.effort
    space = search_subspace(
        setting.train, library, setting.latent_dim, setting.horizon,
        order=setting.order, steps=round(200 * effort), seed=setting.seed,
    )[0]  # fmt: skip
    setting.tell(f"subspace: the whole library leaves {space.risk:.2g}", 0.3)
    generator = torch.Generator().manual_seed(setting.seed)
    seen = setting.train.x[setting.train.grid.mask]
    chosen = torch.randperm(len(seen), generator=generator)[: POINTS_PER_TERM * len(library)]
    points = seen[chosen]
    gauges = search_gauge(space, points, library, steps=round(400 * effort), seed=setting.seed)
    moves = GaugeMoves(space, points, library)
    best = min((moves.improve(g) for g in gauges[:3]), key=moves.score)
    setting.tell(f"gauge: {moves.score(best)[0]} terms", 0.6)
    heads: dict[Structure, tuple[LinearEncoder, Task]] = {}
    for threshold in THRESHOLDS:
        support = best.support(threshold)
        if all(support) and (found := structure(library, support)) not in heads:
            heads[found] = _head(setting, space, best, setting.task(found))
    return list(heads.values())


def _head(
    setting: Setting, space: Subspace, gauge: Gauge, task: Task
) -> tuple[LinearEncoder, Task]:
    head = linear_head(space.readout @ gauge.matrix)
    with torch.no_grad():
        head.linear.bias.copy_(gauge.offset)
    polish(head, task, setting.train, setting.budget.polish, setting.stride)
    setting.tell(f"polished {task.structure.names(setting.library)}", 0.7)
    return head, task
