"""Law, coordinates and a correction refined together, after a law has been chosen."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from sjepa.data import Trajectories, TrajectoryBatch, windows
from sjepa.errors import ConfigError
from sjepa.models import Transition
from sjepa.models.devices import one_thread
from sjepa.symbolic.law_methods import order_of
from sjepa.training.correction import Neural
from sjepa.training.joint.batched_encoders import join_velocities
from sjepa.training.joint.refinement import minimize
from sjepa.training.result import FitResult, fixed


HORIZON = 10
# Rollouts that a loss is averaged over, and quasi-Newton iterations.
MAX_WINDOWS = 4000
ITERATIONS = 100


@one_thread()
def refine_hybrid(
    trajectories: Trajectories, learned: FitResult, settings: Neural, seed: int
) -> FitResult:
    """Move the encoder's last part, the coefficients and a correction together, by rollouts.

    The rollout error is a share of the variance of z, to which λ_c times the mean of c² / Var z
    along them is added: R_corr in the paper's units for coordinates of unit variance. A fifth of
    the trajectories is held out; where it is not predicted better, everything stays as it was
    found.
    """
    if not isinstance(learned.encoder, nn.Sequential):
        raise ConfigError(
            "correction: joint='coordinates' is not for a circular coordinate, whose encoder "
            "cannot move; leave joint out.",
            "correction",
        )
    *first, last = learned.encoder
    before, head = nn.Sequential(*first), deepcopy(last).requires_grad_(True)
    parts = trajectories.split((0.8, 0.2), seed=seed)
    order = order_of(learned.law)
    train, held_out = (_Rollouts(part, before, order) for part in parts)
    sizes = len(learned.law.outputs), 0 if train.u is None else train.u.shape[-1], order
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = settings.network(*sizes).double()
    symbolic = learned.law.torch("terms").double()
    start = held_out.missed(head, symbolic, None)
    trained = [*head.parameters(), *symbolic.parameters(), *network.parameters()]

    def loss() -> Tensor:
        error, energy = train(head, symbolic, network)
        return error + settings.lambda_c * energy

    minimize(loss, trained, ITERATIONS)
    end = held_out.missed(head, symbolic, network)
    if not end < start:
        note = "moving coordinates with the correction did not help; it is zero"
        zero = fixed(settings.network(*sizes))
        return replace(learned, notes=[*learned.notes, note], correction=zero)
    note = (
        f"coordinates, coefficients and correction were refined together: held-out rollouts of "
        f"{held_out.horizon} steps miss {end:.2g} of the variance, {start:.2g} "
        "before; the other figures are those of the law before"
    )
    encoder = nn.Sequential(*first, head.requires_grad_(False)).eval()
    law = symbolic.law()
    return replace(
        learned, law=law, encoder=encoder, notes=[*learned.notes, note], correction=fixed(network)
    )


class _Rollouts:
    """Rollout error and energy of the correction, as shares of the variance of z."""

    def __init__(self, trajectories: Trajectories, before: nn.Module, order: Literal[1, 2]) -> None:
        with torch.no_grad():
            seen = trajectories.map(lambda x: before(torch.as_tensor(x).double()).numpy())
        data = TrajectoryBatch.make(seen, dtype=torch.float64)
        # Velocities are central differences: one observation more on either side.
        self.order, sides = order, 2 * (order == 2)
        self.horizon = min(HORIZON, int(data.mask.sum(1).max()) - 1 - sides)
        cut = windows(data.x, data.dt, self.horizon + sides, mask=data.mask, u=data.u)
        every = max(1, int(cut.valid.sum()) // MAX_WINDOWS)
        self.x, self.dt = cut.z[cut.valid][::every], cut.dt[cut.valid][::every]
        self.u = None if cut.u is None else cut.u[cut.valid][::every, :-1]

    def __call__(
        self, head: nn.Module, law: nn.Module, correction: nn.Module | None
    ) -> tuple[Tensor, Tensor]:
        z, dt, u = head(self.x), self.dt, self.u
        start = z[:, 0]
        if self.order == 2:
            times = nn.functional.pad(dt.cumsum(1), (1, 0))
            start = join_velocities(z, times)[:, 1]
            z, dt, u = z[:, 1:-1], dt[:, 1:-1], None if u is None else u[:, 1:-1]
        move = Transition(law, correction, integrator="rk4", order=self.order)
        path, c = move.rollout_with_corrections(start, dt, u)
        variance = z.flatten(0, 1).var(0)
        ahead = path[:, 1:, : z.shape[-1]]
        # As in the refinement of a law: one that leaves the room must not decide alone.
        error = ((ahead - z[:, 1:]) ** 2 / variance).clamp(max=25.0).mean()
        return error, (c**2 / variance).mean()

    @torch.no_grad()
    def missed(self, head: nn.Module, law: nn.Module, correction: nn.Module | None) -> float:
        return float(self(head, law, correction)[0])
