"""The search for libraries that are closed under affine maps: subspace, gauge, exact support."""

from __future__ import annotations

import torch
from torch import Tensor

from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic.front import knee
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.gauge import THRESHOLDS, Gauge, search_gauge
from sjepa.training.elegant.gauge_moves import PRESENT, GaugeMoves
from sjepa.training.elegant.polish import Task, linear_head, polish
from sjepa.training.elegant.structures import Structure, structure
from sjepa.training.elegant.subspace import Subspace, search_subspace


# Points on which the size of terms is measured, for each term of the library.
POINTS_PER_TERM = 20


def gauged_heads(setting: SearchContext) -> list[tuple[LinearEncoder, Task]]:
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
    again = _regauged(setting, list(heads.values()), points)
    if again is not None and again[1].structure not in heads:
        heads[again[1].structure] = again
    return list(heads.values())


def _regauged(
    setting: SearchContext, heads: list[tuple[LinearEncoder, Task]], points: Tensor
) -> tuple[LinearEncoder, Task] | None:
    """Better coordinates for the simplest good law, which is cleaner than the dense one was."""
    if not heads:
        return None
    risks = [float(t.risk(h, setting.train, setting.validation).risk) for h, t in heads]
    limit = knee(min(risks))
    good = [pair for pair, risk in zip(heads, risks, strict=True) if risk <= limit]
    head, task = min(good, key=lambda pair: pair[1].structure.cost)
    library, d = setting.library, setting.latent_dim
    with torch.no_grad():
        seen = head(points)
        numbers = task.risk(head, setting.train, setting.train).coefficients[0]
    law = torch.zeros(len(library), d, dtype=torch.float64)
    for j, row in enumerate(task.structure.support):
        law[list(row), j] = numbers[j, : len(row)]
    eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    moves = GaugeMoves(Subspace(eye, law, 0.0), seen, library)
    best = moves.improve(moves.gauge(eye, zero))
    found = best.support(PRESENT)
    if not all(found):
        return None
    weight, bias = head.linear.weight.detach(), head.linear.bias.detach()
    space = Subspace(weight.T, law, 0.0)
    shifted = Gauge(best.matrix, bias @ best.matrix + best.offset, best.shares)
    return _head(setting, space, shifted, setting.task(structure(library, found)))


def _head(
    setting: SearchContext, space: Subspace, gauge: Gauge, task: Task
) -> tuple[LinearEncoder, Task]:
    head = linear_head(space.readout @ gauge.matrix)
    with torch.no_grad():
        head.linear.bias.copy_(gauge.offset)
    polish(head, task, setting.train, setting.budget.polish, setting.stride)
    setting.tell(f"polished {task.structure.names(setting.library)}", 0.7)
    return head, task
