"""Coordinates and law in turns: the paper's Algorithm 1."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sjepa.data import Trajectories, TrajectoryBatch
from sjepa.models import NeuralField, Residual
from sjepa.models.devices import resolve_device
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Grammar, Library
from sjepa.training.alternating import AlternatingLoop, LatentModel, Phase
from sjepa.training.alternating.checkpoint import AlternatingCheckpointer
from sjepa.training.alternating.distributed import agreed
from sjepa.training.alternating.selection import constrained
from sjepa.training.correction import Neural
from sjepa.training.judge import judge_trained
from sjepa.training.result import FitResult, Frozen, fixed
from sjepa.training.rollout_fit import refine
from sjepa.training.searches import Alternating


def fit_alternating(
    trajectories: Trajectories,
    space: Library | Grammar,
    latent_dim: int,
    backend: Any,
    settings: Alternating,
    device: str | torch.device,
    seed: int,
    recorder: RunRecorder,
    *,
    correction: Neural | None = None,
    delta: float | None = None,
) -> FitResult:
    """A neural warm start, then dynamics and space search in turns.

    A correction beside the law is part of the transition in both phases. With `delta` the phases
    hold L_pred at it instead of weighting it.
    """
    hybrid = Neural.beside(correction)
    weight = None if hybrid is None else hybrid.lambda_c
    warm, plan = settings.plan(backend, weight, delta)
    integrator, dynamics = settings.integrator, settings.dynamics
    place, seed = resolve_device(device), agreed(seed)
    train, held_out = trajectories.split((0.8, 0.2), seed=seed)
    train_batch = TrajectoryBatch.make(train, device=place)
    validation = TrajectoryBatch.make(held_out, device=place)
    generator = torch.Generator(place).manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = settings.encoder(trajectories.obs_shape, latent_dim)
        actions = 0 if trajectories.u is None else trajectories.u[0].shape[1]
        neural: nn.Module = NeuralField(latent_dim, actions)
        model = LatentModel(
            encoder,
            neural=Residual(neural, latent_dim) if dynamics == "discrete" else neural,
            correction=None if hybrid is None else hybrid.network(latent_dim, actions),
            integrator=integrator,
            dynamics=dynamics,
        ).to(place)
    curves = AlternatingCheckpointer(recorder, warm, plan)
    with curves.guarded():
        if not curves.in_cycles:
            phase = Phase(model, warm, train_batch, validation, settings, generator)
            curves.follow_warm_start(phase)
            phase.run()
        loop = AlternatingLoop(
            model, space, train_batch, validation, plan, settings, generator, None, seed,
        )  # fmt: skip
        curves.follow_cycles(loop)
        best = loop.run()
    assert model.symbolic is not None
    law = model.symbolic.law(settings.report)
    if plan.refit and model.correction is None:
        law = refine(
            law, model.encode(train_batch.x), train_batch.dt, integrator=integrator,
            horizon=settings.horizon, mask=train_batch.mask, u=train_batch.u,
            prune=settings.report,
        )  # fmt: skip
    notes = [f"cycle {loop.best_cycle} of {len(loop.diagnostics)} was chosen"]
    skipped = sum(row["dynamics_skipped"] + row.get("skipped", 0) for row in loop.diagnostics)
    if skipped:
        notes.append(
            f"{skipped} batches were left out of training: their rollouts left the range of "
            "numbers; with lower rates or a shorter horizon they would not."
        )
    if dynamics == "discrete":
        notes.append(
            f"coefficients below {settings.report:g} were cut; the change in one step of a map "
            "may be smaller: then lower report and prune."
        )
    assert loop.front is not None
    encoder = Frozen(model.encoder)
    verdict = None
    if delta is not None:
        verdict = constrained(law, best.risk, delta)
    elif model.correction is None:
        others = [one.law for one in loop.front]
        verdict = judge_trained(law, others, encoder, train, held_out)
    return FitResult.trained(law, loop.front, encoder, verdict, notes, fixed(model.correction))
