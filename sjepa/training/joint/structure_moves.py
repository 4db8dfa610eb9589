"""From one structure to others in its coordinates: shorter, longer, one equation replaced."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from torch import nn

from sjepa.backend import Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.symbolic import Gram
from sjepa.training.joint.batched_encoders import join_velocities
from sjepa.training.joint.levenberg import refine_encoder
from sjepa.training.joint.objective import coarse
from sjepa.training.joint.quadrature import difference
from sjepa.training.joint.refinement import Head, StructureTask
from sjepa.training.joint.structures import Structure, structure, structures_of
from sjepa.training.joint.whitened_trajectories import Observed


# A term is worth trying without if its loss, before anything is adjusted, costs at most this.
TOLERATED = 30.0


def reductions(
    head: Head, task: StructureTask, train: Observed, iterations: int, stride: int
) -> Iterator[tuple[Head, StructureTask]]:
    """Encoders for ever shorter structures, one term less each time.

    A structure that a random start misses is often found from a longer one that contains it.
    The term that is missed least goes first; it ends when leaving out any term hurts.
    """
    while True:
        own = float(task.risk(head, train, train).risk)
        options = [replace(task, structure=s) for s in drop_one_term(task)]
        if not options:
            return
        risks = [float(o.risk(head, train, train).risk) for o in options]
        lowest = min(range(len(options)), key=lambda i: risks[i])
        if risks[lowest] > TOLERATED * own + 1e-6:
            return
        task, head = options[lowest], deepcopy(head)
        refine_encoder(head, task, train, iterations, stride)
        yield head, task


def drop_one_term(task: StructureTask) -> list[Structure]:
    """The structures with one term less that still move every coordinate."""
    support = task.structure.support
    result = []
    for j, row in enumerate(support):
        for p in row:
            rest = tuple(q for q in row if q != p)
            if any(task.library.terms[q].free_symbols for q in rest):
                shorter = (*support[:j], rest, *support[j + 1 :])
                result.append(structure(task.library, shorter))
    return result


def cheaper(task: StructureTask) -> list[Structure]:
    """The structures with one term less, or one or two terms exchanged for a simpler one."""
    library, support = task.library, task.structure.support
    result = drop_one_term(task)
    for j, row in enumerate(support):
        for gone in [*combinations(row, 1), *combinations(row, 2)]:
            rest = tuple(q for q in row if q not in gone)
            weight = sum(library.weights[p] for p in gone)
            for q, own in enumerate(library.weights):
                if own < weight and q not in row and library.terms[q].free_symbols:
                    changed = (*support[:j], tuple(sorted((*rest, q))), *support[j + 1 :])
                    result.append(structure(library, changed))
    return result


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


# Most terms of an equation that is replaced.
MAX_TERMS = 3
# A longer equation must leave less than this share; a shorter one may leave this many times more.
LONGER, SHORTER = 0.5, 10.0


def variants(
    head: nn.Module, task: StructureTask, observed: Observed, max_variants: int = 3
) -> list[Structure]:
    """Structures that differ from the present one in a single equation, shorter ones first.

    For every number of terms the best equation is found by trying all; the others stay as they
    are, so that z1' = z2 keeps its meaning while the law of z2' grows. Constants are left out: a
    shift of the coordinates takes their place.
    """
    gram = integral_gram(head, task, observed)
    library, support = task.library, task.structure.support
    usable = [p for p, t in enumerate(library.terms) if t.free_symbols]
    found: list[tuple[bool, float, Structure]] = []
    for j, own in enumerate(support):
        moment, size = gram.xy[:, j], float(gram.yy[j])
        loss = _losses(gram.xx, moment, size, np.array([own]))[0]
        for k in range(1, min(MAX_TERMS, len(usable)) + 1):
            choices = np.array(list(combinations(usable, k)))
            left = _losses(gram.xx, moment, size, choices)
            limit = (SHORTER if k < len(own) else LONGER) * loss
            if len(own) > 2 * MAX_TERMS:  # not a law: what is needed of it is asked for
                limit = np.inf
            for best in left.argsort()[: 2 if np.isinf(limit) else 1]:
                row = tuple(choices[best].tolist())
                if left[best] < limit and row != own:
                    changed = structure(library, (*support[:j], row, *support[j + 1 :]))
                    found.append((k >= len(own), float(left[best] / loss), changed))
    # Shorter ones first: an encoder that may bend can make up for a term that is small.
    found.sort(key=lambda entry: entry[:2])
    return [one for *_, one in found[:max_variants]]


def _losses(xx: np.ndarray, xy: np.ndarray, yy: float, supports: np.ndarray) -> np.ndarray:
    """Share that least squares on each support (n, k) leaves of a target."""
    scale = np.sqrt(np.diag(xx).clip(min=1e-300))
    gram = (xx / np.outer(scale, scale))[supports[:, :, None], supports[:, None, :]]
    moment = (xy / scale)[supports][..., None]
    solution = np.linalg.solve(gram + 1e-9 * np.eye(supports.shape[1]), moment)
    return np.maximum(1.0 - (moment * solution).sum((1, 2)) / yy, 1e-12)
