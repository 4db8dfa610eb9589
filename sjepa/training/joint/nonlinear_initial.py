"""Initial structures and encoders of the search with polynomial encoders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import torch
from torch import Tensor, nn

from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic import Library
from sjepa.training.joint.context import HALVING_RANK, SearchContext
from sjepa.training.joint.initial_subspaces import starting_readouts
from sjepa.training.joint.quadrature import cumulative, difference
from sjepa.training.joint.refinement import StructureTask, linear_head
from sjepa.training.joint.structure_moves import variants
from sjepa.training.joint.structures import (
    Structure,
    enumerate_structures,
    structure,
    without_constants,
)
from sjepa.training.joint.whitened_trajectories import Observed


# Cheapest structures that are tried whatever the linear search said, and encoders for all terms.
CHEAPEST, DENSE = 12, 2
# Encoders that propose neighbors of their laws, and laws that each may propose.
PARENTS, CHILDREN = 4, 3
# Linear encoders this many times worse than the best are no starting points.
HOPELESS = 5.0


# A structure, and what maps whitened observations to the coordinates it starts from.
Start = tuple[Structure, nn.Module]


def entries(
    context: SearchContext,
    linear: Sequence[tuple[LinearEncoder, StructureTask]],
    generator: torch.Generator,
) -> list[Start]:
    """What the linear search liked from where it ended, the cheapest structures, all terms."""
    library, d = context.library, context.latent_dim
    warm = _warm(context, linear)
    max_terms = context.budget.max_terms
    cheap = enumerate_structures(library, d, CHEAPEST, max_terms, actions=context.actions)
    plain = {without_constants(library, own.support) for own in [*warm, *cheap]}
    # An encoder with an offset needs no constant that a shift of coordinates makes.
    cheap = [
        own
        for own in cheap
        if own not in warm
        and (own.support in plain or without_constants(library, own.support) not in plain)
    ]
    whole = dense_structure(context)
    fresh = [(whole, start) for start in random_starts(context, DENSE, generator)] if whole else []
    begun: list[Start] = [(own, linear_head(readout)) for own, readout in [*warm.items(), *fresh]]
    return begun + restart(context, cheap, generator)


def restart(
    context: SearchContext, structures: Sequence[Structure], generator: torch.Generator
) -> list[Start]:
    """Two starts for each structure, from positions and velocities where there are two."""
    found: list[Start] = []
    for own in structures:
        readouts = (
            velocity_pairs(context.train)
            if planar(context)
            else random_starts(context, 2, generator)
        )
        found += [(own, linear_head(readout)) for readout in readouts]
    return found


def random_starts(context: SearchContext, count: int, generator: torch.Generator) -> Tensor:
    """Read-outs (count, rank, d) from the slow modes, which know the leading components only."""
    rank = min(context.whitening.rank, HALVING_RANK)
    starts = starting_readouts(context.modes, rank, context.latent_dim, count, generator)
    return torch.nn.functional.pad(starts, (0, 0, 0, context.whitening.rank - rank))


def planar(context: SearchContext) -> bool:
    """Two coordinates of the first order, whose equations may hold any term."""
    library = context.library
    two = context.latent_dim == 2 and len(library.inputs) - context.actions == 2
    return two and context.order == 1 and library.to_dict()["mask"] is None


def _warm(
    context: SearchContext, linear: Sequence[tuple[LinearEncoder, StructureTask]]
) -> dict[Structure, Tensor]:
    """Structures with read-outs: the good linear ones, then neighbors of the best of them.

    Neighbors are sought before anything nonlinear is trained, because a nonlinear encoder
    soon adapts to the law it has.
    """
    # Long laws make up for what a linear encoder cannot do: they are no guide here.
    max_terms = context.budget.max_terms
    linear = [
        pair for pair in linear if max(map(len, pair[1].structure.support)) <= max_terms
    ] or linear
    risks = [float(task.risk(head, context.train, context.train).risk) for head, task in linear]
    order = sorted(range(len(linear)), key=lambda i: risks[i])
    liked = [linear[i] for i in order if risks[i] <= HOPELESS * risks[order[0]]]
    supports = {task.structure.support for _, task in liked}
    warm: dict[Structure, Tensor] = {}
    for head, task in liked:
        # An encoder with an offset needs no constant that a shift of coordinates makes.
        support = task.structure.support
        plain = without_constants(context.library, support)
        if plain == support or plain not in supports:
            warm.setdefault(task.structure, head.linear.weight.detach().T)
    kept = dict(list(warm.items())[: context.budget.finalists])
    for head, task in [pair for pair in liked if pair[1].structure in kept][:PARENTS]:
        for near in variants(head, task, context.train, CHILDREN):
            kept.setdefault(near, head.linear.weight.detach().T)
    return kept


def dense_structure(context: SearchContext) -> Structure | None:
    """All monomials up to the second degree in every equation, if the library has them."""
    library, names = context.library, context.library.inputs[: context.latent_dim]
    if context.order != 1 or library.to_dict()["mask"] is not None or context.actions:
        return None
    wanted = [library.terms.index(t) for t in quadratic(names).terms if t in library.terms]
    if len(wanted) < len(quadratic(names)):
        return None
    return structure(library, (tuple(sorted(wanted)),) * context.latent_dim)


def quadratic(names: Sequence[str]) -> Library:
    return Library.polynomial(list(names), 2)


# Share of the mean variance of changes that keeps constants of motion from being positions.
RIDGE = 1e-3


def velocity_pairs(observed: Observed, horizon: int = 5, max_pairs: int = 2) -> Tensor:
    """Read-outs (most, rank, 2) of coordinates whose velocities are linear in the observations.

    Among all read-outs x a, those whose changes a linear model x A of the velocity misses least,
    each with its velocity x A a: of a mechanical system the positions, since velocities are
    observed but forces are not linear.
    """
    x = observed.x.movedim(-1, 0)
    k = max(1, min(horizon, observed.length - 1))
    valid = observed.grid.mask[:, k:]
    change = difference(x, observed.grid.times, k, 1)[:, valid].T
    integral = cumulative(x, observed.grid.weights)
    total = difference(integral, observed.grid.times, k, 1)[:, valid].T
    eye = torch.eye(len(x), dtype=x.dtype)
    gram = total.T @ total
    matrix = torch.linalg.solve(gram + 1e-6 * gram.trace() / len(x) * eye, total.T @ change)
    missed = change - total @ matrix
    size = (change.T @ change / len(change)).numpy()
    size = size + RIDGE * np.trace(size) / len(size) * np.eye(len(size))
    _, vectors = scipy.linalg.eigh((missed.T @ missed / len(change)).numpy(), size)
    position = torch.tensor(vectors[:, :max_pairs])
    pairs = torch.stack([position, matrix @ position], dim=-1)  # (rank, most, 2)
    pairs = pairs.movedim(1, 0)
    return pairs / pairs.norm(dim=1, keepdim=True)
