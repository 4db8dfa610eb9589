"""The five terms of the objective on one chunk of data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sjepa.errors import ConfigError
from sjepa.models import GaussianEncoder, SparseLaw, Transition
from sjepa.models.encoders import draw
from sjepa.training.alternating.conditions import Condition
from sjepa.training.alternating.config import TrainingConfig
from sjepa.training.alternating.distributed import encoded
from sjepa.training.alternating.latent_model import LatentModel
from sjepa.training.alternating.sampling import Chunk
from sjepa.training.alternating.sparse_rollout import applies_to, sparse_rollout
from sjepa.training.losses import (
    LatentNoise,
    RepresentationLoss,
    correction_penalty,
    one_step_loss,
    rollout_loss,
    variance_of,
)


@dataclass(frozen=True)
class Terms:
    """Unweighted terms (None where a condition leaves one out) and their weighted sum."""

    total: Tensor
    prediction: Tensor
    rollout: Tensor | None
    representation: Tensor | None
    symbolic: Tensor | None
    correction: Tensor | None
    z: Tensor  # (B, S, d): the context latents
    valid: Tensor | None  # (B, S)

    def risk(self, condition: Condition) -> Tensor:
        """R = L_pred + λ_r L_roll, by which checkpoints are compared.

        Under a constraint all that satisfy it are alike, and the simplest of them wins.
        """
        if condition.delta is not None:
            return self.prediction.clamp(min=condition.delta)
        if self.rollout is None:
            return self.prediction
        return self.prediction + condition.rollout * self.rollout


class Objective:
    """Evaluates a condition's terms for a model.

    Context latents are computed at the starts only, target latents once for every point that
    some rollout reaches; from there all rollouts run in parallel.
    """

    def __init__(self, model: LatentModel, condition: Condition, settings: TrainingConfig) -> None:
        self.model, self.condition, self.settings = model, condition, settings
        self.transition = model.transition(condition.uses)
        self.representation = RepresentationLoss(settings.representation)
        self.noise = LatentNoise(settings.latent_noise)
        if condition.representation:
            self._check_terms()
        self.multiplier = 1.0  # of the constraint, as a weight of L_pred
        # Without a rollout term one step is all that has to be predicted.
        self.steps = settings.horizon if condition.rollout else 1

    def __call__(self, chunk: Chunk, generator: torch.Generator | None = None) -> Terms:
        condition, steps = self.condition, self.steps
        starts = slice(chunk.offset, chunk.dt.shape[1] + 1 - self.settings.horizon, chunk.stride)
        z, seen, posterior = self._contexts(chunk, starts, generator)
        target = self._targets(chunk, starts, z.shape[1])  # (B, S, steps, d)
        dt = _windows(chunk.dt, starts, steps, z.shape[1])
        u = None if chunk.u is None else _windows(chunk.u, starts, steps, z.shape[1])
        valid = None
        if chunk.mask is not None:  # the last point decides, whatever the number of steps
            valid = chunk.mask[:, starts.start + self.settings.horizon :: chunk.stride]
            valid = valid[:, : z.shape[1]]

        self.noise.train(self.model.training)
        path, penalty = self._rollout(self.noise(z, generator), dt, u, valid)
        distance = self._distance(z, valid)
        prediction = one_step_loss(path[..., 1, :], target[..., 0, :], mask=valid, **distance)
        total = self._adequacy(prediction)
        rollout = representation = symbolic = None
        if condition.rollout:
            rollout = self._rollout_loss(path, target, dt, u, valid, distance)
            total = total + condition.rollout * rollout
        if condition.representation:
            others = {"predicted": path[..., 1, :], "target": target[..., 0, :], **posterior}
            if valid is not None:
                others = {name: value[valid] for name, value in others.items()}
            if seen is not None:
                for name in ("view_a", "view_b"):
                    others[name] = self._view(seen, generator)
            representation, _ = self.representation(z, mask=valid, **others)
            total = total + condition.representation * representation
        if condition.symbolic and self.model.symbolic is not None:
            symbolic = self.model.symbolic.complexity()
            total = total + condition.symbolic * symbolic
        if condition.correction and penalty is not None:
            total = total + condition.correction * penalty
        return Terms(total, prediction, rollout, representation, symbolic, penalty, z, valid)

    def _adequacy(self, prediction: Tensor) -> Tensor:
        """The weighted L_pred, or the augmented Lagrangian of L_pred <= delta in its units."""
        delta = self.condition.delta
        if delta is None:
            return self.condition.prediction * prediction
        excess = prediction / delta - 1.0
        active = (self.multiplier + excess).clamp(min=0.0)
        return 0.5 * delta * (active.square() - self.multiplier**2)

    def _rollout_loss(
        self,
        path: Tensor,
        target: Tensor,
        dt: Tensor,
        u: Tensor | None,
        valid: Tensor | None,
        distance: dict[str, Any],
    ) -> Tensor:
        """L_roll, free or partly teacher-forced."""
        mask = None if valid is None else valid.unsqueeze(-1)
        weights = self.settings.rollout_weights
        given: dict[str, Any] = {
            "weights": None if weights is None else path.new_tensor(weights),
            "mask": mask,
        }
        share, ahead = self.settings.teacher_forcing, path[..., 1:, :]
        free = rollout_loss(ahead, target, **given, **distance)
        if not share:
            return free
        actions = None if u is None else u[..., 1:, :]
        steps = self.transition(target[..., :-1, :], dt[..., 1:, None], actions)
        forced = torch.cat([ahead[..., :1, :], steps], dim=-2)
        return (1 - share) * free + share * rollout_loss(forced, target, **given, **distance)

    def _distance(self, z: Tensor, valid: Tensor | None) -> dict[str, Any]:
        """How far apart two states are, as the settings say."""
        scale = None
        if self.settings.scale_free:
            scale = variance_of(z if valid is None else z[valid])
        stop = self.condition.targets != "attached"
        return {"discrepancy": self.settings.discrepancy, "scale": scale, "stop_gradient": stop}

    def _check_terms(self) -> None:
        """Terms that need something this run does not have are refused before it starts."""
        wanted = self.representation.weights
        if "variational" in wanted and not isinstance(self.model.encoder, GaussianEncoder):
            raise ConfigError(
                "'variational' needs a stochastic encoder: make_encoder(stochastic=True)."
            )
        if "within_trajectory" in wanted and self.settings.batching == "windows":
            raise ConfigError("'within_trajectory' needs batching='trajectories'.")

    def _contexts(
        self, chunk: Chunk, starts: slice, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
        """Latents (B, S, d) at the starts, what was encoded for them, and their distribution."""
        if chunk.encoded:
            return chunk.context[:, starts], None, {}
        encoder = self.model.encoder
        if not self.model.training and self.settings.validates == "target":
            encoder = self.model.target.encoder
        seen = chunk.context[:, starts]
        if not isinstance(encoder, GaussianEncoder):
            return encoded(encoder, seen), seen, {}
        both = encoded(lambda x: torch.cat(encoder.posterior(x), dim=-1), seen)
        mean, log_var = both.chunk(2, dim=-1)
        z = draw(mean, log_var, generator) if self.model.training else mean
        return z, seen, {"posterior_mean": mean, "posterior_log_var": log_var}

    def _view(self, seen: Tensor, generator: torch.Generator | None) -> Tensor:
        augment = self.settings.augmentation
        if callable(augment):
            return encoded(self.model.encoder, augment(seen, generator))
        noise = torch.randn(seen.shape, generator=generator, dtype=seen.dtype, device=seen.device)
        return encoded(self.model.encoder, seen.add(noise, alpha=augment))

    def _targets(self, chunk: Chunk, starts: slice, count: int) -> Tensor:
        own, attached = self.condition.targets != "ema", self.condition.targets == "attached"
        points = chunk.context if own and chunk.encoded else chunk.target
        if chunk.encoded:
            return _windows(points[:, 1:], starts, self.steps, count)
        encoder = self.model.encoder if own else self.model.target
        with torch.set_grad_enabled(attached and torch.is_grad_enabled()):
            if chunk.stride > self.steps:  # windows do not touch: encode nothing in between
                return encoded(encoder, _windows(points[:, 1:], starts, self.steps, count))
            last = chunk.offset + (count - 1) * chunk.stride + self.steps
            z = encoded(encoder, points[:, chunk.offset + 1 : last + 1])
            return _windows(z, slice(0, None, chunk.stride), self.steps, count)

    def _rollout(
        self, z: Tensor, dt: Tensor, u: Tensor | None, valid: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Rollouts (B, S, steps + 1, d), and the correction penalty if there is a correction."""
        transition = self.transition
        if not self.condition.correction or transition.correction is None:
            return roll(transition, z, dt, u), None
        path, corrections = transition.rollout_with_corrections(z, dt, u)
        mask = None if valid is None else valid.unsqueeze(-1)
        parameters = transition.correction.parameters()
        tau = self.settings.correction_tau
        return path, correction_penalty(corrections, parameters, tau, mask)


def roll(transition: Transition, z: Tensor, dt: Tensor, u: Tensor | None = None) -> Tensor:
    """``transition.rollout``, by the quick way where there is one."""
    if applies_to(transition, u):
        assert isinstance(transition.symbolic, SparseLaw)
        return sparse_rollout(transition.symbolic, z, dt)
    return transition.rollout(z, dt, u)


def _windows(a: Tensor, starts: slice, size: int, count: int) -> Tensor:
    """(B, T, ...) -> (B, S, size, ...): `count` segments from the starts, as views."""
    return a[:, starts.start :].unfold(1, size, starts.step).movedim(-1, 2)[:, :count]
