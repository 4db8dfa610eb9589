"""One training phase: any condition, on any data, selected on validation trajectories."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from torch import nn

from sjepa.callbacks import Step
from sjepa.data import TrajectoryBatch
from sjepa.errors import NumericalWarning, TrainingDiverged
from sjepa.metrics import latent_spread
from sjepa.models import SparseLaw
from sjepa.training.alternating import distributed
from sjepa.training.alternating.conditions import Component, Condition
from sjepa.training.alternating.config import TrainingConfig
from sjepa.training.alternating.latent_model import LatentModel
from sjepa.training.alternating.objective import Objective
from sjepa.training.alternating.sampling import (
    TrainingData,
    check_horizon,
    epoch_of,
    validation_chunks,
)
from sjepa.training.alternating.selection import Record, Shortlist


# How fast the multiplier of a constraint follows L_pred / δ, and where nothing else counts then.
ASCENT, MAX_MULTIPLIER = 0.2, 1e6


def discrete_complexity(model: LatentModel, threshold: float) -> float:
    """The ``terms`` complexity of the present law at a reporting threshold; 0 without a law."""
    law = model.symbolic
    if law is None:
        return 0.0
    if isinstance(law, SparseLaw):
        active = law.active().abs() >= threshold
        return float((law.weights[:, None] * active).sum())
    return law.law(threshold).complexity("terms", law.library)


class Phase:
    """Trains the parts that a condition names, and restores the best checkpoint.

    While the encoder is frozen every trajectory is encoded once, before the first epoch.

    Parameters
    ----------
    model : LatentModel
        Trained in place.
    condition : Condition
    train, validation : TrajectoryBatch
        On the same device as the model.
    settings : TrainingConfig
    generator : torch.Generator
        The only source of randomness; on the device of the data.
    on_step : callable, optional
        Gets a :class:`~sjepa.callbacks.Step` after every epoch.
    """

    def __init__(
        self,
        model: LatentModel,
        condition: Condition,
        train: TrajectoryBatch,
        validation: TrajectoryBatch,
        settings: TrainingConfig | None = None,
        generator: torch.Generator | None = None,
        on_step: Callable[[Step], None] | None = None,
    ) -> None:
        self.model, self.condition = model, condition
        self.settings = settings or TrainingConfig()
        self.generator = generator or torch.Generator(train.x.device).manual_seed(0)
        self.on_step = on_step
        for data in (train, validation):
            check_horizon(data, self.settings.horizon)
        self.parameters = {part: list(model.part(part).parameters()) for part in condition.trains}
        self.objective = Objective(model, condition, self.settings)
        self.optimizer = self._optimizer()
        self.train, self.validation = self._source(train), self._source(validation)
        self.shortlist = Shortlist(self.settings.tolerance)
        self.history: list[dict[str, Any]] = []
        self.epoch = 0
        self.stale = 0
        self.diverged = False  # no update of the last epoch was finite
        self.skipped = 0  # batches whose gradient was not finite

    def run(self) -> Record:
        """Train to the last epoch, restore the best checkpoint and return its record."""
        with only_trained(self.model, self.parameters):
            while self.epoch < self.condition.epochs and not self._out_of_patience():
                self.step()
                if self.diverged:
                    break
        if not self.shortlist.entries:
            self.shortlist.offer(self.validate(), self.model.snapshot())
        record, snapshot = self.shortlist.best()
        if self.diverged:
            self._report_divergence(record)
        self.model.restore(snapshot)
        return record

    def _report_divergence(self, best: Record) -> None:
        name = self.condition.name.replace("_", " ")
        what = f"The {name} diverged in epoch {self.epoch}: no rollout stayed finite"
        if not isfinite(best.risk):
            raise TrainingDiverged(
                f"{what}; train longer before it (warm_epochs), or with a shorter horizon or lower "
                "rates."
            )
        warnings.warn(f"{what}; epoch {best.epoch} is kept.", NumericalWarning, stacklevel=3)

    def step(self) -> None:
        """One epoch, and validation if it is due."""
        loss = self._train_epoch()
        self.epoch += 1
        record = None
        due = (self.condition.epochs, self.settings.first_validation)
        if self.epoch in due or self.epoch % self.settings.validate_every == 0:
            record = self.validate()
            chosen = self.shortlist.offer(record, self.model.snapshot())
            self.stale = 0 if chosen else self.stale + 1
            self.history.append({"loss": loss, **record.as_dict()})
        if self.on_step is not None:
            self.on_step(self._step(loss, record))

    def _step(self, loss: float, record: Record | None) -> Step:
        name, epochs = self.condition.name, self.condition.epochs
        text = f"{name.replace('_', ' ')}, epoch {self.epoch}: loss {loss:.3g}"
        step = Step(text, self.epoch / epochs, name, epoch=self.epoch, epochs=epochs, loss=loss)
        if record is None:
            return step
        law = None
        if "symbolic" in self.condition.uses and self.model.symbolic is not None:
            law = "; ".join(self.model.symbolic.law(self.settings.report).lines(digits=4))
        return replace(
            step, risk=record.risk, complexity=record.complexity, objective=record.objective,
            min_std=record.min_std, law=law,
        )  # fmt: skip

    def _out_of_patience(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.stale >= patience

    def _train_epoch(self) -> float:
        self.model.train()
        flat = [p for group in self.parameters.values() for p in group]
        total, count = torch.zeros(2, device=self.train.dt.device), 0
        # One rollout that leaves the range of numbers would turn every parameter into NaN; without
        # its batch, the others usually bring the law back within a few epochs.
        for chunk in epoch_of(self.train, self.settings, self.generator):
            terms = self.objective(chunk, self.generator)
            self.optimizer.zero_grad(set_to_none=True)
            terms.total.backward()
            distributed.add_up(self.parameters.get("encoder", ()))
            if not bool(nn.utils.clip_grad_norm_(flat, self.settings.clip).isfinite()):
                self.skipped += 1
                continue
            self.optimizer.step()
            if self.condition.updates_encoder and self.condition.target_follows:
                self.model.target.update(self.model.encoder)
            total += torch.stack([terms.total, terms.prediction]).detach()
            count += 1
        self.diverged = count == 0
        if not count:
            return float("nan")
        loss, prediction = (total / count).tolist()
        if (delta := self.condition.delta) is not None:
            self.objective.multiplier = _next_multiplier(
                self.objective.multiplier, prediction / delta
            )
        return loss

    @torch.no_grad()
    def validate(self) -> Record:
        """Risk, complexity and spread on a fixed choice of validation windows."""
        self.model.eval()
        device = self.validation.dt.device
        noise = torch.Generator(device).manual_seed(0)  # the same views every time
        risk = objective = weight = 0.0
        latents = []
        for chunk in validation_chunks(self.validation, self.settings):
            terms = self.objective(chunk, noise)
            z = terms.z.flatten(0, -2)
            latents.append(z if terms.valid is None else z[terms.valid.flatten()])
            share = len(latents[-1])
            risk += share * float(terms.risk(self.condition))
            objective += share * float(terms.total)
            weight += share
        spread = latent_spread(torch.cat(latents))
        collapsed = spread.collapsed(self.settings.min_std, self.settings.covariance_trace)
        return Record(
            epoch=self.epoch,
            risk=_finite(risk / weight),
            complexity=self._complexity(),
            objective=_finite(objective / weight),
            eligible=not collapsed
            or self.condition.allow_collapse
            or not self.condition.updates_encoder,
            min_std=spread.min_std,
            covariance_trace=spread.covariance_trace,
        )

    def _complexity(self) -> float:
        if "symbolic" not in self.condition.uses:
            return 0.0
        return discrete_complexity(self.model, self.settings.report)

    def _optimizer(self) -> torch.optim.Optimizer:
        s = self.settings
        rates: dict[Component, float] = {
            "encoder": s.encoder_rate * self.condition.encoder_scale,
            "neural": s.neural_rate,
            "correction": s.neural_rate,
            "symbolic": s.symbolic_rate,
        }
        groups = [{"params": p, "lr": rates[part]} for part, p in self.parameters.items() if p]
        devices = {p.device.type for group in self.parameters.values() for p in group}
        fused = devices <= {"cpu", "cuda"}
        return torch.optim.AdamW(groups, weight_decay=s.weight_decay, fused=fused)

    def _source(self, data: TrajectoryBatch) -> TrainingData:
        if self.condition.updates_encoder:
            return TrainingData.of(data)
        self.model.eval()
        context = self.model.encode(data.x)
        own = self.condition.targets != "ema"
        return TrainingData.of(data, (context, context if own else self.model.encode(data.x, True)))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume from here, random numbers included."""
        return {
            "model": self.model.snapshot(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "epoch": self.epoch,
            "stale": self.stale,
            "skipped": self.skipped,
            "multiplier": self.objective.multiplier,
            "history": list(self.history),
            "shortlist": self.shortlist.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a phase that was built from the same condition, data and settings."""
        # The structure of a law is fixed within a phase, so its numbers are all there is to set.
        self.model.load_state_dict(state["model"]["state"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.epoch, self.stale = state["epoch"], state["stale"]
        self.skipped = state.get("skipped", 0)
        self.objective.multiplier = state.get("multiplier", 1.0)
        self.history = list(state["history"])
        self.shortlist.load_state_dict(state["shortlist"])


class only_trained:
    """Gradients for the trained parts alone, so that nothing is computed for the others."""

    def __init__(self, model: LatentModel, parts: dict[Component, list[nn.Parameter]]) -> None:
        trained = {id(p) for group in parts.values() for p in group}
        self.before = {p: p.requires_grad for p in model.parameters()}
        self.wanted = {p: id(p) in trained for p in self.before}

    def __enter__(self) -> None:
        for p, flag in self.wanted.items():
            p.requires_grad_(flag)

    def __exit__(self, *error: object) -> None:
        for p, flag in self.before.items():
            p.requires_grad_(flag)


def _next_multiplier(multiplier: float, ratio: float) -> float:
    """The multiplier of L_pred <= δ after an epoch with this L_pred / δ.

    Dual ascent by what is missing; by a factor where that is the larger step, because what holds
    a strong penalty may be thousands.
    """
    by_sum = max(0.0, multiplier + ratio - 1)
    by_factor = multiplier * min(max(ratio, 1e-3), 1e3) ** ASCENT
    found = max(by_sum, by_factor) if ratio > 1 else min(by_sum, by_factor)
    return min(found, MAX_MULTIPLIER)


def _finite(value: float) -> float:
    return value if isfinite(value) else float("inf")
