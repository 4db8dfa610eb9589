"""Coordinates and law in turns: the paper's Algorithm 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sjepa.data import Trajectories, TrajectoryBatch
from sjepa.models import NeuralField
from sjepa.models.devices import resolve_device
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Grammar, Library
from sjepa.training.alternating import Alternating, LatentModel, Phase
from sjepa.training.alternating.checkpoint import AlternatingCheckpointer
from sjepa.training.options import network, training_plan
from sjepa.training.refine import refine
from sjepa.training.result import Frozen, Learned


def learn_alternating(
    trajectories: Trajectories,
    space: Library | Grammar,
    latent_dim: int,
    backend: Any,
    integrator: str,
    device: str,
    seed: int,
    journal: RunRecorder,
    options: Mapping[str, Any] | None = None,
) -> Learned:
    """A neural warm start, then dynamics and space search in turns."""
    warm, plan, settings = training_plan(options, backend)
    place = resolve_device(device)
    train, held_out = trajectories.split((0.8, 0.2), seed=seed)
    train_batch = TrajectoryBatch.make(train, device=place)
    validation = TrajectoryBatch.make(held_out, device=place)
    generator = torch.Generator(place).manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = network(options, trajectories.obs_shape, latent_dim)
        actions = 0 if trajectories.u is None else trajectories.u[0].shape[1]
        neural = NeuralField(latent_dim, actions)
        model = LatentModel(encoder, neural=neural, integrator=integrator).to(place)
    curves = AlternatingCheckpointer(journal, warm, plan)
    with curves.guarded():
        if not curves.in_cycles:
            phase = Phase(model, warm, train_batch, validation, settings, generator)
            curves.follow_warm_start(phase)
            phase.run()
        loop = Alternating(
            model, space, train_batch, validation, plan, settings, generator, None, seed,
        )  # fmt: skip
        curves.follow_cycles(loop)
        loop.run()
    assert model.symbolic is not None
    z = model.encode(train_batch.x)
    law = refine(
        model.symbolic.law(settings.report), z, train_batch.dt, integrator=integrator,
        horizon=settings.horizon, mask=train_batch.mask, u=train_batch.u,
        prune=settings.report,
    )  # fmt: skip
    notes = [f"cycle {loop.best_cycle} of {len(loop.diagnostics)} was chosen"]
    assert loop.front is not None
    return Learned(law, loop.front, Frozen(model.encoder), notes)
