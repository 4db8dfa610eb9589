"""Search structures and coordinates together: the shortest adequate law and what it moves."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from sjepa.backend import Progress
from sjepa.data import Trajectories
from sjepa.models.encoders import LinearEncoder
from sjepa.search.budget import SearchBudget
from sjepa.search.conclude import conclude, found_with
from sjepa.search.gates import Gates
from sjepa.search.growth import grow, noise_floor
from sjepa.search.polish import Task, linear_head, polish, unit_scale
from sjepa.search.polynomial import gauged_heads
from sjepa.search.race import Runner, run_race
from sjepa.search.reduce import reductions
from sjepa.search.restarts import Restarts
from sjepa.search.result import Found, SearchResult
from sjepa.search.select import NOISE_MULTIPLE
from sjepa.search.setting import Setting, prepare
from sjepa.search.starts import starting_readouts
from sjepa.search.structures import Structure, enumerate_structures
from sjepa.search.subspace import closed_under_affine_maps
from sjepa.symbolic import Library


# Encoders are grown where the best linear one leaves more than this share unexplained.
GROW_ABOVE = 2e-3


def elegant_search(
    trajectories: Trajectories,
    library: Library,
    latent_dim: int,
    *,
    order: int = 1,
    seed: int = 0,
    budget: SearchBudget | None = None,
    validation: Trajectories | None = None,
    delta: float | str = "auto",
    delta_roll: float | None = None,
    gates: Gates | None = None,
    proposals: Sequence[Structure] = (),
    rank: int | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Find coordinates of observations and the simplest adequate law that moves them.

    Many structures are tried at once, each with encoders of its own, on whitened observations;
    the best are polished, those that are shortcuts are refused, and the cheapest whose validation
    risk is within `delta` is refined by rollouts. With all monomials up to some degree as library,
    the subspace is found with the whole library instead, and then the coordinates in it that
    make the law sparse.

    Parameters
    ----------
    trajectories : Trajectories
        Observations of any shape; states, if there are any, are not looked at.
    library : Library
        Terms in the names of the latent coordinates; for ``order=2`` optionally also of their
        velocities, after them.
    latent_dim : int
    order : 1 or 2
        Whether the law gives first or second time derivatives of the coordinates.
    budget : SearchBudget, optional
    validation : Trajectories, optional
        By default a fifth of the trajectories is set aside.
    delta : float or "auto"
        Largest adequate validation risk, as a share of the variance of changes.
    delta_roll : float, optional
        Largest adequate rollout loss, in units of the variance of the coordinates.
    gates : Gates, optional
        What makes coordinates admissible.
    proposals : structures to try besides the enumerated ones, for instance from a backend's front
        (:func:`sjepa.search.structures_of`)
    rank : int, optional
        Principal components to search in; by default those that are not noise.
    """
    setting = prepare(
        trajectories, library, latent_dim, order, seed, budget or SearchBudget(), validation,
        gates or Gates(), rank, progress,
    )  # fmt: skip
    if not proposals and closed_under_affine_maps(library, latent_dim):
        heads = gauged_heads(setting)
    else:
        heads = _polished(setting, _race(setting, proposals))
    return conclude(setting, _finalists(setting, heads), delta, delta_roll)


def _race(setting: Setting, proposals: Sequence[Structure]) -> list[Runner]:
    budget = setting.budget
    structures = enumerate_structures(
        setting.library, setting.latent_dim, budget.structures, budget.max_terms
    )
    structures += [s for s in proposals if s not in structures]
    generator = torch.Generator().manual_seed(setting.seed)
    entries = [s for s in structures for _ in range(budget.restarts)]
    readouts = starting_readouts(
        setting.modes, setting.whitening.rank, setting.latent_dim, len(entries), generator
    )
    restarts = Restarts(setting.library, entries, readouts.float(), setting.order)
    rounds = budget.rounds(setting.horizon, len(entries), setting.train.length)
    return run_race(
        restarts, setting.train, rounds, setting.gates, generator,
        lambda line, share: setting.tell(line, 0.5 * share),
    )  # fmt: skip


def _finalists(setting: Setting, heads: list[tuple[LinearEncoder, Task]]) -> list[Found]:
    """Shorten the best encoders' laws, grow encoders that need it, and score them all."""
    heads = heads + _shortened(setting, heads)
    risks = [float(t.risk(h, setting.train, setting.validation).risk) for h, t in heads]
    floors = [noise_floor(h, t, setting.validation) for h, t in heads]
    lacking = min(risks) > max(GROW_ABOVE, 2 * NOISE_MULTIPLE * min(floors))
    found = []
    for i, (head, task) in enumerate(heads):
        best_head: nn.Module = head
        if setting.budget.grow and lacking and risks[i] <= sorted(risks)[:4][-1]:
            setting.tell(f"growing {task.structure.names(setting.library)}", 0.8)
            best_head, _ = grow(head, task, setting.train, setting.validation, setting.seed)
        found.append(found_with(setting, task, best_head))
    return found


def _polished(setting: Setting, runners: Sequence[Runner]) -> list[tuple[LinearEncoder, Task]]:
    """The best runner of each structure, polished."""
    best: dict[Structure, Runner] = {}
    for runner in runners:
        best.setdefault(runner.structure, runner)
    chosen = list(best.values())[: setting.budget.finalists]
    heads = []
    for i, runner in enumerate(chosen):
        task, head = setting.task(runner.structure), linear_head(runner.readout)
        polish(head, task, setting.train, setting.budget.polish, setting.stride)
        unit_scale(head, task, setting.train)
        heads.append((head, task))
        share = 0.5 + 0.25 * (i + 1) / len(chosen)
        setting.tell(f"polished {runner.structure.names(setting.library)}", share)
    return heads


def _shortened(
    setting: Setting, heads: Sequence[tuple[LinearEncoder, Task]], most: int = 2
) -> list[tuple[LinearEncoder, Task]]:
    """Shorter structures from the encoders that fit best."""
    risks = [float(t.risk(h, setting.train, setting.validation).risk) for h, t in heads]
    shorter = []
    for i in sorted(range(len(heads)), key=lambda i: risks[i])[:most]:
        for head, task in reductions(
            *heads[i], setting.train, setting.budget.polish, setting.stride
        ):
            setting.tell(f"shortened to {task.structure.names(setting.library)}", 0.77)
            unit_scale(head, task, setting.train)
            shorter.append((head, task))
    return shorter
