"""What is decided before a search starts: whitening, time scale, pieces of trajectories."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from torch import nn

from sjepa.callbacks import Step
from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError
from sjepa.metrics.shortcuts import CollapseChecks
from sjepa.models import Whitening
from sjepa.symbolic import Candidate, Library
from sjepa.training.joint.budget import SearchBudget
from sjepa.training.joint.initial_subspaces import (
    MOVING,
    LinearMode,
    holds_actions,
    linear_modes,
    moving_share,
)
from sjepa.training.joint.quadrature import difference
from sjepa.training.joint.refinement import StructureTask
from sjepa.training.joint.structures import Structure
from sjepa.training.joint.successive_halving import ladder
from sjepa.training.joint.whitened_trajectories import Observed, pieces
from sjepa.training.joint.worker_pool import Pool
from sjepa.training.whitening import fit_whitening


# Share of the slowest period that the longest horizon covers, and its limits in samples.
PERIOD_SHARE = 0.4
SHORTEST, LONGEST = 8, 60
# Components that successive halving works with; the others come in when encoders are refined.
HALVING_RANK = 20
# Samples that encoders are refined on; more change nothing but the time.
MAX_SAMPLES = 60_000
# Share of the floor on motion that is asked for under actions: they move what is conserved else,
# such as the place where a cart would come to rest.
DRIVEN = 1 / 3
# A single coordinate may come to rest at once wherever it starts. A constant of motion has no law
# that explains its changes, and alone it does not tell observations apart: the neighbor test does.
ALONE = 1 / 15
# Second differences are used over horizons at which noise is at most this share of them.
QUIET = 0.01


class Memory(Protocol):
    """Keeps one piece of plain data with tensors in it."""

    def get(self) -> Any:
        """What was put last; None if nothing was."""

    def put(self, data: Any) -> None:
        """Keep this."""


@dataclass(frozen=True, eq=False)
class SearchContext:
    """Everything that is decided before the search starts.

    Laws are judged over horizons from `shortest` on, on every `every`-th sample.
    `train` and `validation` are cut into pieces of a few horizons, `whole` are the uncut
    validation trajectories, and `near` the checks for pieces, in which less of the motion shows.
    """

    library: Library
    latent_dim: int
    order: int
    seed: int
    budget: SearchBudget
    checks: CollapseChecks
    whitening: Whitening
    train: Observed
    validation: Observed
    whole: Observed
    near: CollapseChecks
    modes: list[LinearMode]
    horizon: int
    tell: Callable[[Step], None] | None
    shortest: int = 0
    every: int = 1
    memory: Memory | None = None

    def report(
        self, line: str, share: float, found: Candidate | None = None, floor: float | None = None
    ) -> None:
        """Report progress; with a law, also its residual on held-out data."""
        if self.tell is None:
            return
        step = Step(line, share)
        if found is not None:
            step = replace(
                step, law="; ".join(found.law.lines(digits=6)), risk=found.loss,
                complexity=found.terms, noise_floor=floor,
            )  # fmt: skip
        self.tell(step)

    @property
    def pool(self) -> Pool:
        return Pool(self.budget.executor, self.budget.workers)

    @property
    def bare(self) -> SearchContext:
        """What travels to a worker, which reports to nobody, keeps nothing and has no workers."""
        return replace(self, tell=None, memory=None, budget=replace(self.budget, executor=None))

    @property
    def actions(self) -> int:
        return self.train.grid.actions

    @property
    def stride(self) -> int:
        """Every k-th sample starts a horizon while encoders are refined."""
        return max(1, self.horizon // 15)

    def task(self, structure: Structure) -> StructureTask:
        horizons = tuple(k for k in ladder(self.horizon) if k >= self.shortest)
        return StructureTask(self.library, structure, self.order, horizons, self.near.within)

    def losing(self, unavoidable: float) -> SearchContext:
        """The same where the neighbor test finds so much in the best coordinates, too."""
        return replace(
            self,
            checks=replace(self.checks, neighbor=self.checks.neighbor + unavoidable),
            near=replace(self.near, neighbor=self.near.neighbor + unavoidable),
        )

    def encoder(self, head: nn.Module) -> nn.Module:
        return nn.Sequential(deepcopy(self.whitening), head)


def prepare(
    trajectories: Trajectories,
    library: Library,
    latent_dim: int,
    order: int,
    seed: int,
    budget: SearchBudget,
    validation: Trajectories | None,
    checks: CollapseChecks,
    rank: int | None,
    tell: Callable[[Step], None] | None,
    reach: float = 1.0,
    noisier_copy: Trajectories | None = None,
) -> SearchContext:
    """Whiten, find the time scale, cut trajectories to pieces of a few horizons.

    `reach` multiplies the horizon: nonlinear encoders need longer ones to pin the phase.
    `noisier_copy` holds the trajectories with as much noise again, where the noise level cannot
    be estimated from their roughness.
    """
    if order not in (1, 2):
        raise ConfigError(f"order must be 1 or 2, got {order}.")
    sizes = {latent_dim} if order == 1 else {latent_dim, 2 * latent_dim}
    pushes = 0 if trajectories.u is None else trajectories.u[0].shape[1]
    if len(library.inputs) - pushes not in sizes:
        raise ConfigError(
            f"A search for {latent_dim} coordinates of order {order} needs a library of "
            f"{' or '.join(map(str, sorted(sizes)))} inputs and the actions, got "
            f"{len(library.inputs)}."
        )
    moving = MOVING
    if pushes:
        checks = replace(checks, within=DRIVEN * checks.within)
    elif latent_dim == order == 1:
        checks, moving = replace(checks, within=ALONE * checks.within), ALONE * MOVING
    noisier_copies = None
    if validation is None:
        trajectories, validation = trajectories.split((0.8, 0.2), seed=seed)
        noisier_copies = None if noisier_copy is None else noisier_copy.split((0.8, 0.2), seed=seed)
    whitening = fit_whitening(
        trajectories, rank, None if noisier_copies is None else noisier_copies[0]
    )
    if whitening.rank < latent_dim:
        raise DataError(
            f"The observations vary in {whitening.rank} directions only; "
            f"ask for latent_dim={whitening.rank} or fewer."
        )
    whole = Observed.of(trajectories, whitening)
    zoh = holds_actions(whole.leading(HALVING_RANK), order)
    whole = whole.with_zoh(zoh)
    modes = linear_modes(whole.leading(HALVING_RANK), order, moving=moving)
    step = float(np.median(np.concatenate(trajectories.steps)))
    horizon = budget.horizon or _horizon(modes, step, whole.length, order)
    horizon = int(max(horizon, min(reach * horizon, 0.6 * whole.length / order)))
    every = max(1, round(horizon / (reach * LONGEST)))
    if pushes:  # an action is held for one step only: none can be left out
        every, horizon = 1, min(horizon, round(reach * LONGEST))
    horizon = max(2, horizon // every)
    longest = max(order * horizon + 1, math.ceil(1.7 * order * horizon))
    cut = every > 1 or whole.length > 1.5 * longest
    train = Observed.of(pieces(trajectories, longest, every), whitening) if cut else whole
    rest = Observed.of(validation, whitening)
    parts = Observed.of(pieces(validation, max(longest, 4), every), whitening) if cut else rest
    if noisier_copies is not None:
        noisy = Observed.of(
            pieces(noisier_copies[1], max(longest, 4), every) if cut else noisier_copies[1],
            whitening,
        )
        parts = replace(parts, noise=noisy.x - parts.x)
    seen = moving_share(train).trace() / moving_share(whole).trace()
    near = replace(checks, within=checks.within * min(1.0, float(seen)))
    return SearchContext(
        library, latent_dim, order, seed, budget, checks, whitening,
        train.thinned(MAX_SAMPLES).with_zoh(zoh), parts.with_zoh(zoh), rest.with_zoh(zoh), near,
        modes, horizon, tell, _shortest(parts, horizon) if order == 2 else 0, every,
    )  # fmt: skip


def _shortest(observed: Observed, horizon: int) -> int:
    """The first horizon over which second differences are not noise, where noise is known."""
    if observed.noise is None:
        return 0
    for k in ladder(horizon):
        pair = (a.movedim(-1, 0) for a in (observed.x, observed.noise))
        moved, noise = (difference(a, observed.grid.times, k, 2) for a in pair)
        if float((noise.var((1, 2)) / moved.var((1, 2))).max()) < QUIET:
            return k
    return ladder(horizon)[-1]


def _horizon(modes: Sequence[LinearMode], step: float, length: int, order: int) -> int:
    slowest = modes[0].frequency if modes else 0.0
    period = 2 * math.pi / max(slowest * step, 1e-9)
    most = 0.6 * length if order == 1 else 0.4 * length
    return int(max(2, min(max(PERIOD_SHARE * period, SHORTEST), most)))
