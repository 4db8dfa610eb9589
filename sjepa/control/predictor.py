"""The predictor of a task: one step of a model, a law, a posterior, or a function."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sjepa.bayes import Draws, Posterior
from sjepa.control.linearize import Linearizer
from sjepa.control.rollouts import LawRollout, Step, generic_rollout
from sjepa.errors import ConfigError
from sjepa.models import Transition
from sjepa.symbolic import Law


Limits = tuple[Tensor, Tensor]

# Coherent draws of a posterior where the caller names no number.
DRAWS = 100


@dataclass(frozen=True, eq=False)
class Predictor:
    """``step`` moves states (..., d) by actions (..., m); with draws, they are the leading axis.

    ``transition`` is what moves them, where it is one law with or without a correction.
    """

    step: Step
    draws: int | None = None
    transition: Transition | None = None
    dt: float | None = None

    @property
    def matrices(self) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None:
        """A and B of a step, analytically; None where only the step itself is known."""
        if self.transition is None:
            return None
        linearizer = Linearizer(self.transition)
        return lambda z, u: linearizer.step_matrices(z, u, self.dt)

    def within(self, limits: Limits | None) -> tuple[Step, Callable[[Tensor, Tensor], Tensor]]:
        """The step and its rollout (z, u (..., K, m)) -> states, kept inside limits."""

        def step(z: Tensor, u: Tensor) -> Tensor:
            following = self.step(z, u)
            return following if limits is None else following.clamp(*limits)

        if self.transition is not None and self.draws is None:
            if LawRollout.applies_to(self.transition):
                return step, LawRollout(self.transition, self.dt or 0.0, limits)
        return step, lambda z, u: generic_rollout(step, z, u)


def mover(
    model: Any, actions: int, *, dt: float | None, draws: int | None, integrator: str | None,
    dtype: torch.dtype,
) -> Predictor:  # fmt: skip
    if isinstance(model, Posterior):
        model = model.draws(DRAWS if draws is None else draws)
    if isinstance(model, Draws):
        return _of_draws(model, actions, dt, draws, integrator)
    known = isinstance(model, Transition | Law) or hasattr(model, "transition_")
    if callable(model) and not known:
        return Predictor(model, draws)
    dt = getattr(model, "step_", None) if dt is None else dt
    transition = deepcopy(Transition.of(model)).to(dtype).requires_grad_(False)
    if integrator is not None:
        transition = Transition(
            transition.symbolic, transition.correction, transition.dynamics, integrator,
            transition.order,
        )  # fmt: skip
    _check(transition.law(), transition.order, actions, transition.dynamics, dt)
    return Predictor(lambda z, u: transition(z, dt, u), draws, transition, dt)


def _of_draws(
    model: Draws, actions: int, dt: float | None, draws: int | None, integrator: str | None
) -> Predictor:
    """Means only: transition noise would give the same plan another cost each time."""
    if draws not in (None, len(model)):
        raise ConfigError(f"The posterior was drawn {len(model)} times, not {draws}; omit draws.")
    if integrator is not None:
        raise ConfigError("A posterior keeps the integrator of its likelihood; omit integrator.")
    _check(model.groups[0].structure.law, 1, actions, model.step.dynamics, dt)

    def step(z: Tensor, u: Tensor) -> Tensor:
        return model(z.double(), dt, u.double()).to(z.dtype)

    return Predictor(step, len(model))


def _check(law: Law | None, order: int, actions: int, dynamics: str, dt: float | None) -> None:
    if dynamics == "continuous" and dt is None:
        raise ConfigError("A vector field needs the length of a step; pass dt.")
    if law is not None and len(law.inputs) - order * len(law.outputs) != actions:
        raise ConfigError(
            f"The law takes {len(law.inputs) - order * len(law.outputs)} actions "
            f"(inputs {', '.join(law.inputs)}), but low and high have {actions}."
        )
