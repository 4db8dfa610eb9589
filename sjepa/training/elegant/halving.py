"""The race: many structures and starts, fewer and fewer of them on longer and longer horizons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport
from sjepa.training.elegant.observed import Observed
from sjepa.training.elegant.restarts import Restarts, degeneracy, join_velocities
from sjepa.training.elegant.structures import Structure


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One stretch of training: optimiser steps, trajectories a step, horizons, survivors.

    `leniency` multiplies what the neighbour test may find: coordinates on their way to the state
    fail it for a while.
    """

    steps: int
    batch: int
    horizon: int
    keep: int
    leniency: float = 1.0
    stride: int = 4
    rate: float = 0.03


@dataclass(frozen=True, eq=False)
class Survivor:
    """A restart that reached the end of the race."""

    structure: Structure
    readout: Tensor
    risk: float
    admission: CollapseReport


# A restart this many times worse than a structure that costs no more is given up.
HOPELESS = 20.0

# Called with a line of text and the share of the work done.
Tell = Callable[[str, float], None]


def run_race(
    restarts: Restarts,
    observed: Observed,
    rounds: Sequence[Rung],
    gates: CollapseChecks,
    generator: torch.Generator,
    tell: Tell | None = None,
) -> list[Survivor]:
    """Train, drop, and train the rest further; returns the survivors with their risks."""
    for number, spell in enumerate(rounds):
        train(restarts, observed, spell, gates, generator)
        risk, admissions = judge(restarts, observed, spell, gates, generator)
        last = number == len(rounds) - 1
        chosen = survivors(restarts.structures, risk, admissions, spell.keep)
        if tell is not None:
            line = f"{len(restarts)} restarts, horizon {spell.horizon}: best risk "
            line += f"{min(risk[i] for i in chosen):.2g}" if chosen else "inadmissible everywhere"
            tell(line, (number + 1) / len(rounds))
        if not chosen:  # nothing admissible yet: go on with what fits best
            chosen = sorted(range(len(restarts)), key=lambda i: risk[i])[: spell.keep]
        if last:
            return [
                Survivor(
                    restarts.structures[i], restarts.readouts.detach()[i].double(), risk[i],
                    admissions[i],
                )
                for i in chosen
            ]  # fmt: skip
        restarts = restarts.keep(chosen)
    return []


def train(
    restarts: Restarts,
    observed: Observed,
    spell: Rung,
    gates: CollapseChecks,
    generator: torch.Generator,
) -> None:
    """Adam on the integral form; coefficients are solved for in every step."""
    optimiser = torch.optim.Adam([restarts.readouts], lr=spell.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, spell.rate, total_steps=spell.steps + 1, pct_start=0.2
    )
    horizons = ladder(spell.horizon)
    for _ in range(spell.steps):
        rows = torch.randperm(len(observed), generator=generator)[: spell.batch]
        fit, z = restarts.fit(observed, rows, horizons, spell.stride)
        loss = fit.risk + degeneracy(z, 1.5 * gates.within)
        optimiser.zero_grad()
        torch.nan_to_num(loss, nan=0.0, posinf=0.0).sum().backward()
        grad = restarts.readouts.grad
        assert grad is not None
        # Every restart is a problem of its own: none may drown the others or itself.
        size = grad.flatten(1).norm(dim=1)
        grad.div_(size.clamp_min(1.0)[:, None, None]).nan_to_num_(0.0)
        optimiser.step()
        schedule.step()


def ladder(horizon: int) -> list[int]:
    """A short, a middle and the full horizon."""
    return sorted({max(2, horizon // 4), max(3, horizon // 2), max(4, horizon)})


@torch.no_grad()
def judge(
    restarts: Restarts,
    observed: Observed,
    spell: Rung,
    gates: CollapseChecks,
    generator: torch.Generator,
    trajectories: int = 40,
) -> tuple[list[float], list[CollapseReport]]:
    """Risk and admission of every restart on one common sample."""
    rows = torch.randperm(len(observed), generator=generator)[:trajectories]
    fit, z = restarts.fit(observed, rows, ladder(spell.horizon), spell.stride)
    risk = torch.nan_to_num(fit.risk, nan=float("inf")).tolist()
    gates = replace(gates, neighbour=spell.leniency * gates.neighbour)
    raw, mask = observed.raw[rows], observed.grid.mask[rows]
    if restarts.order == 2:
        z = join_velocities(z, observed.grid.times[rows].to(z.dtype))
    admissions = [gates.check(own, raw, mask, points=1000) for own in z]
    return risk, admissions


def survivors(
    structures: Sequence[Structure],
    risk: Sequence[float],
    admissions: Sequence[CollapseReport],
    keep: int,
    each: int = 2,
) -> list[int]:
    """At most `keep` admissible restarts, few of each structure, the least beaten ones first.

    A restart is hopeless when a structure that costs no more already has a far lower risk.
    """
    best: dict[Structure, float] = {}
    for s, r, a in zip(structures, risk, admissions, strict=True):
        if a.admitted:
            best[s] = min(r, best.get(s, float("inf")))
    beaten = {s: _beaten_by(s, best) for s in best}
    order = sorted(
        (i for i, a in enumerate(admissions) if a.admitted),
        key=lambda i: (beaten[structures[i]], risk[i]),
    )
    chosen: list[int] = []
    seen: dict[Structure, int] = {}
    for i in order:
        own = structures[i]
        cheaper = min(r for s, r in best.items() if s.cost <= own.cost)
        if seen.get(own, 0) >= each or risk[i] > HOPELESS * cheaper:
            continue
        chosen.append(i)
        seen[own] = seen.get(own, 0) + 1
        if len(chosen) == keep:
            break
    return chosen


def _beaten_by(own: Structure, best: dict[Structure, float]) -> int:
    """How many structures cost no more and have a lower risk: 0 on the Pareto front."""
    return sum(s.cost <= own.cost and r < best[own] for s, r in best.items())
