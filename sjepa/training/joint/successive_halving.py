"""Successive halving: many structures and starts, fewer of them on longer and longer horizons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from sjepa.backend import Progress
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport
from sjepa.training.joint.batched_encoders import Restarts, join_velocities
from sjepa.training.joint.structures import Structure
from sjepa.training.joint.whitened_trajectories import Observed
from sjepa.training.joint.worker_pool import Pool


@dataclass(frozen=True, kw_only=True)
class HalvingRound:
    """One round of training: optimizer steps, trajectories a step, horizons, survivors.

    `leniency` multiplies what the neighbor test may find: coordinates on their way to the state
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
    """A restart that reached the last round."""

    structure: Structure
    readout: Tensor
    risk: float
    check_report: CollapseReport


# A restart this many times worse than a structure that costs no more is given up.
HOPELESS = 20.0


def successive_halving(
    restarts: Restarts,
    observed: Observed,
    rounds: Sequence[HalvingRound],
    checks: CollapseChecks,
    generator: torch.Generator,
    progress: Progress | None = None,
    pool: Pool | None = None,
    *,
    done: int,
    save: Callable[[int, Restarts], None] | None = None,
) -> list[Survivor]:
    """Train, drop, and train the rest further; returns the survivors with their risks.

    `done` rounds are finished; `save` is called with the survivors of each round.
    """
    for number, round_ in enumerate(rounds):
        if number < done:
            continue
        risk, check_reports = climb(restarts, observed, round_, checks, generator, pool or Pool())
        check_reports = beyond_least(check_reports, round_.leniency * checks.neighbor)
        last = number == len(rounds) - 1
        chosen = promote(restarts.structures, risk, check_reports, round_.keep)
        line = f"{len(restarts)} restarts, horizon {round_.horizon}: " + (
            _leading(restarts, risk, chosen) if chosen else "fails the checks everywhere"
        )
        if not chosen:  # nothing admissible yet: promote what fits best
            chosen = sorted(range(len(restarts)), key=lambda i: risk[i])[: round_.keep]
        if save is not None and not last:
            save(number + 1, restarts.keep(chosen))
        if progress is not None:
            progress(line, (number + 1) / len(rounds))
        if last:
            return [
                Survivor(
                    restarts.structures[i], restarts.readouts.detach()[i].double(), risk[i],
                    check_reports[i],
                )
                for i in chosen
            ]  # fmt: skip
        restarts = restarts.keep(chosen)
    return []


def beyond_least(check_reports: Sequence[CollapseReport], limit: float) -> list[CollapseReport]:
    """Reports in which the neighbor test may find `limit` more than the least of all finds.

    What no coordinates of this number follow, such as a nuisance of its own, is lost by all.
    """
    other = [tuple(r for r in one.reasons if r != "neighbor") for one in check_reports]
    losses = [
        one.neighbor for one, reasons in zip(check_reports, other, strict=True) if not reasons
    ]
    limit += min(losses, default=0.0)
    return [
        replace(one, reasons=reasons if one.neighbor <= limit else (*reasons, "neighbor"))
        for one, reasons in zip(check_reports, other, strict=True)
    ]


def _leading(restarts: Restarts, risk: Sequence[float], chosen: Sequence[int]) -> str:
    """The risk that is lowest so far, and the terms that leave it."""
    best = min(chosen, key=lambda i: risk[i])
    return f"best risk {risk[best]:.2g} by {restarts.structures[best].names(restarts.library)}"


def climb(
    restarts: Restarts,
    observed: Observed,
    round_: HalvingRound,
    checks: CollapseChecks,
    generator: torch.Generator,
    pool: Pool,
) -> tuple[list[float], list[CollapseReport]]:
    """One round: train all restarts, compute their risks and run the checks.

    No restart knows of the others, so parts of them can be trained anywhere; all parts see the same
    batches.
    """
    parts = pool.parts(len(restarts))
    if len(parts) == 1:
        train(restarts, observed, round_, 1.5 * checks.within, generator)
        return evaluate(restarts, observed, round_, checks, generator)
    work = partial(_climbed, observed, round_, checks, generator.get_state())
    risk, check_reports = [0.0] * len(restarts), {}
    found = pool.map(work, [restarts.keep(part) for part in parts])
    for part, (parameters, own, reports, state) in zip(parts, found, strict=True):
        for whole, values in zip(restarts.parameters, parameters, strict=True):
            whole.data[part] = values
        for i, one, report in zip(part, own, reports, strict=True):
            risk[i], check_reports[i] = one, report
        generator.set_state(state)
    return risk, [check_reports[i] for i in range(len(restarts))]


def _climbed(
    observed: Observed,
    round_: HalvingRound,
    checks: CollapseChecks,
    state: Tensor,
    restarts: Restarts,
) -> tuple[list[Tensor], list[float], list[CollapseReport], Tensor]:
    """A part of the restarts, trained and judged, and the random numbers that come next."""
    generator = torch.Generator()
    generator.set_state(state)
    train(restarts, observed, round_, 1.5 * checks.within, generator)
    judged = evaluate(restarts, observed, round_, checks, generator)
    return [p.detach() for p in restarts.parameters], *judged, generator.get_state()


def train(
    restarts: Restarts,
    observed: Observed,
    round_: HalvingRound,
    within: float,
    generator: torch.Generator,
) -> None:
    """Adam on the integral form and the penalties; coefficients are solved for in every step."""
    optimizer = torch.optim.Adam(restarts.parameters, lr=round_.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, round_.rate, total_steps=round_.steps + 1, pct_start=0.2
    )
    horizons = ladder(round_.horizon)
    for _ in range(round_.steps):
        rows = torch.randperm(len(observed), generator=generator)[: round_.batch]
        fit, z = restarts.fit(observed, rows, horizons, round_.stride)
        loss = fit.risk + restarts.penalty(z, observed, rows, within)
        optimizer.zero_grad()
        torch.nan_to_num(loss, nan=0.0, posinf=0.0).sum().backward()
        clip_gradients(restarts.parameters)
        optimizer.step()
        schedule.step()


def clip_gradients(parameters: Sequence[Tensor]) -> None:
    """Gradients of at most unit length for each restart: none may drown the others or itself."""
    grads = [p.grad for p in parameters if p.grad is not None]
    size = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
    for grad in grads:
        grad.div_(size.clamp_min(1.0).reshape(-1, *[1] * (grad.ndim - 1))).nan_to_num_(0.0)


def ladder(horizon: int) -> list[int]:
    """A short, a middle and the full horizon."""
    return sorted({max(2, horizon // 4), max(3, horizon // 2), max(4, horizon)})


@torch.no_grad()
def evaluate(
    restarts: Restarts,
    observed: Observed,
    round_: HalvingRound,
    checks: CollapseChecks,
    generator: torch.Generator,
    trajectories: int = 40,
) -> tuple[list[float], list[CollapseReport]]:
    """Risk and checks of every restart on one common sample."""
    rows = torch.randperm(len(observed), generator=generator)[:trajectories]
    fit, z = restarts.fit(observed, rows, ladder(round_.horizon), round_.stride)
    risk = torch.nan_to_num(fit.risk, nan=float("inf")).tolist()
    raw, mask = observed.raw[rows], observed.grid.mask[rows]
    if restarts.order == 2:
        z = join_velocities(z, observed.grid.times[rows].to(z.dtype))
    check_reports = [checks.check(own, raw, mask, points=1000) for own in z]
    return risk, check_reports


def promote(
    structures: Sequence[Structure],
    risk: Sequence[float],
    check_reports: Sequence[CollapseReport],
    keep: int,
    each: int = 2,
) -> list[int]:
    """At most `keep` admissible restarts, few of each structure, the least beaten ones first.

    A restart is hopeless when a structure that costs no more already has a far lower risk.
    """
    best: dict[Structure, float] = {}
    for s, r, a in zip(structures, risk, check_reports, strict=True):
        if a.passed:
            best[s] = min(r, best.get(s, float("inf")))
    beaten = {s: _beaten_by(s, best) for s in best}
    order = sorted(
        (i for i, a in enumerate(check_reports) if a.passed),
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
