"""The last refinement: follow the law for many steps and compare with the encoded future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.data.names import state_names
from sjepa.models import Transition
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.symbolic import Law, Library
from sjepa.training.joint.batched_encoders import join_velocities
from sjepa.training.joint.refinement import minimize
from sjepa.training.joint.structures import Support
from sjepa.training.joint.whitened_trajectories import Observed


# A rollout that leaves the room must not decide alone where the others go: its squared error
# counts as so many variances. One beyond the range of numbers is somewhere far outside.
CAP, OUTSIDE = 25.0, 1e100


def law_of(
    library: Library, support: Support, coefficients: Tensor, order: int, actions: int = 0
) -> Law:
    """The law with coefficients (d, S).

    A second-order law takes positions and velocities, and gives the derivatives of the latter.
    """
    values = np.zeros((len(library), len(support)))
    for j, row in enumerate(support):
        for s, p in enumerate(row):
            values[p, j] = float(coefficients[j, s])
    d, inputs = len(support), library.inputs
    if order == 1:
        return library.law(values, inputs[:d])
    pushes = inputs[len(inputs) - actions :]
    names = state_names(inputs, d, pushes)
    law = library.law(values, names[d:])
    return Law(law.expressions, (*names, *pushes), law.outputs, canonical=False)


def coefficients_of(law: Law, library: Library, support: Support) -> Tensor:
    """The coefficients (d, S) of a law with this support: the inverse of :func:`law_of`."""
    result = torch.zeros(len(support), max(map(len, support)), dtype=torch.float64)
    for j, row in enumerate(support):
        own = {term: coefficient for coefficient, term in law.terms[j]}
        for s, p in enumerate(row):
            result[j, s] = float(own.get(library.terms[p], 0.0))
    return result


def states(z: Tensor, times: Tensor, order: int) -> Tensor:
    """What the transition moves: z, or z and its velocity."""
    return z if order == 1 else join_velocities(z, times)


def starts(length: int, horizon: int, order: int, max_starts: int = 3) -> list[int]:
    """Where rollouts begin: spread over the trajectories, away from one-sided velocities."""
    first = 1 if order == 2 else 0
    last = max(first, length - 1 - horizon)
    return sorted({int(s) for s in np.linspace(first, last, max_starts)})


class RolloutLoss:
    """Mean squared error of rollouts in units of the variance of z, for one encoder and law."""

    def __init__(self, observed: Observed, horizon: int, order: int, max_starts: int = 3) -> None:
        self.order = order
        edge = 1 if order == 2 else 0
        lengths = observed.grid.mask.sum(1)
        # Trajectories too short for the horizon are left out, unless most of them are.
        self.horizon = max(1, min(horizon, int(lengths.median()) - 1 - edge))
        self.observed = observed.pick(torch.nonzero(lengths > self.horizon + edge)[:, 0])
        shortest = int(self.observed.grid.mask.sum(1).min())
        self.starts = starts(shortest, self.horizon, order, max_starts)

    def __call__(self, head: nn.Module, law: nn.Module) -> Tensor:
        z = head(self.observed.x)
        times = self.observed.grid.times.to(z.dtype)
        full = states(z, times, self.order)
        h = self.horizon
        begin = torch.cat([full[:, s] for s in self.starts])
        dt = torch.cat([times[:, s : s + h + 1].diff(dim=1) for s in self.starts])
        goal = torch.cat([z[:, s + 1 : s + h + 1] for s in self.starts])
        transition = Transition(law, integrator="rk4", order=2 if self.order == 2 else 1)
        path = followed(transition, begin, dt, self._inputs(h))[:, 1:, : z.shape[-1]]
        variance = z[self.observed.grid.mask].var(0)
        error = ((path - goal) ** 2 / variance).clamp(max=CAP).nan_to_num(nan=CAP)
        return error.mean()

    def _inputs(self, h: int) -> Tensor | None:
        """One action for each step; of a smooth one its mean."""
        grid = self.observed.grid
        if grid.u is None:
            return None
        u = grid.u if grid.zoh else (grid.u + torch.roll(grid.u, -1, 1)) / 2
        return torch.cat([u[:, s : s + h] for s in self.starts])


def followed(transition: Transition, begin: Tensor, dt: Tensor, u: Tensor | None) -> Tensor:
    """Rollouts (n, K + 1, d) of finite numbers; those that leave their range have no gradient."""
    path = transition.rollout(begin, dt, u)
    kept = path.isfinite().flatten(1).all(1)
    if kept.all():
        return path
    tamed = path.detach().nan_to_num(OUTSIDE, OUTSIDE, -OUTSIDE)
    if path.requires_grad and kept.any():  # again without the lost ones, whose slopes are NaN
        tamed[kept] = transition.rollout(begin[kept], dt[kept], None if u is None else u[kept])
    return tamed


def refine_by_rollouts(
    head: nn.Module, law: Law, observed: Observed, horizon: int, order: int, steps: int = 25
) -> tuple[Law, float]:
    """Move encoder and coefficients together; changes `head`, returns the law and its loss."""
    module = law.torch().double()
    trained, last = [*head.parameters(), *module.parameters()], head
    if isinstance(head, PolynomialEncoder):  # its monomials stay the same
        with torch.no_grad():
            observed, last = replace(observed, x=head.features(observed.x)), head.linear
    loss = RolloutLoss(observed, horizon, order)
    value = minimize(lambda: loss(last, module), trained, steps)
    return module.law(), value
