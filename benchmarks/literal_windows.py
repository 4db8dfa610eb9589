"""The paper's training written down literally, as a yardstick for speed and for correctness.

Every window of horizon + 1 observations is an example of its own: its first observation goes
through the context encoder and, twice augmented, through it again, the others through the target
encoder, and the rollout is differentiated step by step. No latents are kept between batches, so a
frozen encoder is evaluated as often as a trained one.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from sjepa.data import TrajectoryBatch
from sjepa.training.alternating import Condition, LatentModel, TrainingConfig
from sjepa.training.losses import (
    RepresentationLoss,
    correction_penalty,
    one_step_loss,
    rollout_loss,
)


def window_batches(
    data: TrajectoryBatch, settings: TrainingConfig, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Observations (256, horizon + 1, obs) and steps (256, horizon), all windows once."""
    size = settings.horizon + 1
    x = data.x.unfold(1, size, 1).movedim(-1, 2).flatten(0, 1)
    dt = data.dt.unfold(1, settings.horizon, 1).flatten(0, 1)
    for rows in torch.randperm(len(x), generator=generator).split(settings.batch):
        yield x[rows], dt[rows]


def window_loss(
    model: LatentModel,
    condition: Condition,
    settings: TrainingConfig,
    x: Tensor,
    dt: Tensor,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """The terms of the objective for windows x (B, horizon + 1, obs) with steps dt."""
    transition = model.transition(condition.uses)
    z = model.encoder(x[:, 0])
    with torch.no_grad():
        encoder = model.encoder if condition.targets == "context" else model.target
        target = encoder(x[:, 1:])
    steps = settings.horizon if condition.rollout else 1
    target = target[:, :steps]
    states, corrections = [z], []
    for h in range(steps):
        _, c = transition.parts(states[-1])
        states.append(transition(states[-1], dt[:, h, None]))
        corrections.append(c)
    path = torch.stack(states[1:], dim=1)
    terms = {"prediction": one_step_loss(path[:, 0], target[:, 0])}
    if condition.rollout:
        terms["rollout"] = rollout_loss(path, target)
    if condition.representation:
        views = []
        for _ in range(2):
            noise = torch.randn(x[:, 0].shape, generator=generator)
            views.append(model.encoder(x[:, 0] + settings.augmentation * noise))
        loss = RepresentationLoss(settings.representation)
        terms["representation"], _ = loss(z, view_a=views[0], view_b=views[1])
    if condition.symbolic:
        assert model.symbolic is not None
        terms["symbolic"] = model.symbolic.complexity()
    if condition.correction:
        assert model.correction is not None
        terms["correction"] = correction_penalty(
            torch.stack(corrections, dim=1),
            model.correction.parameters(),
            settings.correction_tau,
        )
    return terms


def literal_epoch(
    model: LatentModel,
    condition: Condition,
    data: TrajectoryBatch,
    settings: TrainingConfig,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> float:
    """One epoch of updates; the mean loss."""
    trained = [p for part in condition.trains for p in model.part(part).parameters()]
    losses = []
    for x, dt in window_batches(data, settings, generator):
        terms = window_loss(model, condition, settings, x, dt, generator)
        loss = sum(
            (getattr(condition, name) * value for name, value in terms.items()), x.new_zeros(())
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, settings.clip)
        optimizer.step()
        if condition.updates_encoder:
            model.target.update(model.encoder)
        losses.append(loss.item())
    return sum(losses) / len(losses)
