"""Longer structures from a good encoder: what an exact search proposes in its coordinates."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from sjepa.backend import Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.symbolic import Gram
from sjepa.training.joint.objective import coarse
from sjepa.training.joint.observed import Observed
from sjepa.training.joint.quadrature import difference
from sjepa.training.joint.refinement import StructureTask
from sjepa.training.joint.restarts import join_velocities
from sjepa.training.joint.structures import Structure, structures_of


SECONDS = 5.0
# Rows of the integral form that are plenty for a few dozen terms.
MAX_ROWS = 20_000


def proposals(
    head: nn.Module,
    task: StructureTask,
    observed: Observed,
    max_proposals: int = 3,
    backend: str = "subset",
) -> list[Structure]:
    """Structures on a backend's front that leave much less than the present one does.

    The backend sees the integral form of the encoded trajectories with the whole library. Only
    a start is proposed: coordinates and coefficients of a structure are refined afterwards.
    """
    gram = integral_gram(head, task, observed)
    names = task.library.inputs[: len(task.structure.support)]
    problem = Problem(
        gram=gram, library=task.library, names=task.library.inputs, outputs=names,
        budget=Budget(seconds=SECONDS),
    )  # fmt: skip
    front = problem.solve(make_backend(backend))
    own = float(task.risk(head, observed, observed).risk)
    better = [c.law for c in front if c.loss < 0.5 * own]
    found = [s for s in structures_of(better, task.library) if s != task.structure]
    return found[:max_proposals]


@torch.no_grad()
def integral_gram(head: nn.Module, task: StructureTask, observed: Observed) -> Gram:
    """Sums over the rows of the integral form, for every term of the library."""
    some = observed.thinned(MAX_ROWS)
    z = head(some.x)
    wide = len(task.library.inputs) - some.grid.actions > z.shape[-1]
    inputs = join_velocities(z, some.grid.times) if wide else z
    terms = task.library.torch()
    # (P, N, T)
    columns = some.grid.integrals(lambda v: terms(v).movedim(-1, 0), inputs, task.order)
    total: Gram | None = None
    for k in coarse(task.horizons, 1, z.shape[1], task.order):
        valid = some.grid.mask[:, task.order * k :]
        design = difference(columns, some.grid.times, k, task.order)[:, valid].T.numpy()
        target = difference(z.movedim(-1, 0), some.grid.times, k, task.order)[:, valid].T.numpy()
        weight = np.full(len(target), 1.0 / max(float(target.var()), 1e-300))
        gram = Gram.from_features(design, target, weight)
        total = gram if total is None else total + gram
    assert total is not None
    return total
