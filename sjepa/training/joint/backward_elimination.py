"""Backward elimination: drop terms that a refined law does not need."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import combinations

from sjepa.training.joint.levenberg import improve
from sjepa.training.joint.observed import Observed
from sjepa.training.joint.refinement import Head, StructureTask
from sjepa.training.joint.structures import Structure, structure


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
        improve(head, task, train, iterations, stride)
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
