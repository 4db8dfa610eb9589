"""Neighbors of a structure: one equation replaced, exactly, in the coordinates found."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from torch import nn

from sjepa.training.joint.longer_structures import integral_gram
from sjepa.training.joint.observed import Observed
from sjepa.training.joint.refinement import StructureTask
from sjepa.training.joint.structures import Structure, structure


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
