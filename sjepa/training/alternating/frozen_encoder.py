"""The paper's frozen-encoder search: law and correction minimize L_frozen, nothing alternates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories, TrajectoryBatch
from sjepa.models import make_encoder
from sjepa.models.devices import resolve_device
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Grammar, Library
from sjepa.training.alternating import FROZEN, LatentModel, Phase, as_part, latent_rows, propose
from sjepa.training.alternating.checkpoint import AlternatingCheckpointer
from sjepa.training.alternating.selection import constrained
from sjepa.training.correction import Neural
from sjepa.training.judge import judge_trained
from sjepa.training.result import FitResult, fixed, identity
from sjepa.training.searches import Alternating


def fit_fixed(
    encoded: Trajectories,
    space: Library | Grammar | None,
    backend: Any,
    settings: Alternating,
    seed: int,
    recorder: RunRecorder,
    correction: Neural | None = None,
    delta: float | None = None,
) -> FitResult:
    """Minimize L_pred + λ_r L_roll + λ_s Ω + λ_c R_corr over the law, and the correction if any.

    A backend's law is where it starts. Coefficients stay as this objective leaves them: shrunk by
    its penalty, and without a last fit.
    """
    settings.check_fixed()
    hybrid = Neural.beside(correction)
    _, plan = settings.plan(backend)
    integrator, dynamics = settings.integrator, settings.dynamics
    condition = FROZEN.with_(
        uses=("symbolic",), trains=("symbolic",), correction=0.0, epochs=plan.dynamics.epochs,
        delta=delta, symbolic=plan.dynamics.symbolic, rollout=plan.dynamics.rollout,
    )  # fmt: skip
    if hybrid is not None:
        condition = condition.hybrid(hybrid.lambda_c)
    place, d = resolve_device(settings.device), encoded.obs_shape[0]
    actions = 0 if encoded.u is None else encoded.u[0].shape[1]
    names = list(encoded.names or ())
    space = space if space is not None else Library.paper(names, encoded.input_names or ())
    parts = encoded.split((0.8, 0.2), seed=seed)
    train, validation = (TrajectoryBatch.make(part, device=place) for part in parts)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LatentModel(
            make_encoder("identity", d, d), integrator=integrator, dynamics=dynamics,
            correction=None if hybrid is None else hybrid.network(d, actions),
        ).to(place)  # fmt: skip
    mask = None if bool(train.mask.all()) else train.mask
    rows = latent_rows(train.x, train.dt, mask, integrator, train.u, dynamics)
    solver = make_backend(plan.backend)
    solver.prepare()
    proposal = propose(
        solver, *rows, space, seed=seed, seconds=plan.seconds, tolerance=settings.tolerance,
        dynamics=dynamics,
    )  # fmt: skip
    model.symbolic = as_part(proposal.law, space, plan.policy).to(place)
    generator = torch.Generator(place).manual_seed(seed)
    phase = Phase(model, condition, train, validation, settings, generator)
    curves = AlternatingCheckpointer(recorder, condition, replace(plan, cycles=0))
    curves.follow_warm_start(phase)
    with curves.guarded():
        best = phase.run()
    model.symbolic.threshold_(settings.prune)
    law = model.symbolic.law(settings.report)
    notes = [f"epoch {best.epoch} of {condition.epochs} was chosen; its risk is {best.risk:.3g}"]
    verdict = None
    if delta is not None:
        verdict = constrained(law, best.risk, delta)
    elif model.correction is None:
        others = [one.law for one in proposal.front]
        verdict = judge_trained(law, others, identity, parts[0], parts[1])
    return FitResult.trained(law, proposal.front, identity, verdict, notes, fixed(model.correction))
