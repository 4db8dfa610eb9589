"""The affine gauge of a polynomial encoder whose law is all quadratic terms."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from sjepa.models.polynomials import PolynomialEncoder
from sjepa.training.joint.context import SearchContext
from sjepa.training.joint.gauge import THRESHOLDS, GaugeMoves, search_gauge
from sjepa.training.joint.nonlinear_initial import Start, quadratic
from sjepa.training.joint.refinement import StructureTask
from sjepa.training.joint.structures import Structure, structure
from sjepa.training.joint.subspace import Subspace


# Points on which the size of terms is measured when a gauge is searched.
POINTS = 400


def gauged(context: SearchContext, head: PolynomialEncoder, task: StructureTask) -> list[Start]:
    """The same encoder in the gauges that make its dense law sparse, with those structures."""
    d = context.latent_dim
    library = quadratic(context.library.inputs[:d])
    law = _law(context, head, task)
    with torch.no_grad():
        z = head(context.train.x[context.train.grid.mask])
    z = z[:: max(1, len(z) // POINTS)]
    white, shift = _whitener(z)
    # The law is closed under affine maps, so it is read off again in whitened coordinates.
    features, points = library.torch(), z @ white + shift
    columns = features(points)  # of order one, so that sums do
    law = torch.linalg.solve(columns.T @ columns, columns.T @ (features(z) @ law @ white))
    space = Subspace(torch.eye(d, dtype=z.dtype), law, 0.0)
    steps = round(250 * context.budget.effort)
    gauges = search_gauge(space, points, library, restarts=32, steps=steps, seed=context.seed)
    moves = GaugeMoves(space, points, library)
    best = min((moves.improve(g) for g in gauges[:2]), key=moves.score)
    position = [context.library.terms.index(t) for t in library.terms]
    moved = _mapped(head, white @ best.matrix, shift @ best.matrix + best.offset)
    children: dict[Structure, Start] = {}
    for threshold in THRESHOLDS:
        support = best.support(threshold)
        if all(support):
            own = tuple(tuple(sorted(position[p] for p in row)) for row in support)
            found = structure(context.library, own)
            children.setdefault(found, (found, moved))
    return list(children.values())


@torch.no_grad()
def _mapped(head: PolynomialEncoder, matrix: Tensor, offset: Tensor) -> PolynomialEncoder:
    """The encoder in other coordinates z A + b."""
    moved = deepcopy(head)
    moved.linear.weight.copy_(matrix.T @ head.linear.weight)
    moved.linear.bias.copy_(head.linear.bias @ matrix + offset)
    return moved


@torch.no_grad()
def _law(context: SearchContext, head: nn.Module, task: StructureTask) -> Tensor:
    """The dense law (quadratic terms, d) in the order of the quadratic library."""
    numbers = task.risk(head, context.train, context.train).coefficients[0]  # (d, S)
    library = quadratic(context.library.inputs[: context.latent_dim])
    row = task.structure.support[0]
    order = [row.index(context.library.terms.index(t)) for t in library.terms]
    return numbers[:, order].T.contiguous()


def _whitener(z: Tensor) -> tuple[Tensor, Tensor]:
    """Matrix and shift that give rows (n, d) zero mean and unit covariance."""
    mean = z.mean(0)
    values, vectors = torch.linalg.eigh((z - mean).T @ (z - mean) / len(z))
    white = vectors / values.clamp_min(1e-12).sqrt()
    return white, -mean @ white
