"""The predictor of a task: one step of a model, a law, a posterior, or a function, and rollouts."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sjepa.bayes import Draws, Posterior
from sjepa.control.linearize import Linearizer
from sjepa.errors import ConfigError, LawError
from sjepa.models import Transition
from sjepa.symbolic import Law
from sjepa.symbolic.delays import without_delays
from sjepa.symbolic.emit import run
from sjepa.symbolic.torch_law import TORCH, TorchLaw


Step = Callable[[Tensor, Tensor], Tensor]
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
    delay: float = 0.0

    @property
    def memory(self) -> int:
        """How many actions were taken that have not acted to their end."""
        return int(np.ceil(self.delay / (self.dt or 1.0) - 1e-6))

    def ahead(self, z: Tensor, taken: Tensor) -> Tensor:
        """The state from which the next action acts, after the last ones (..., memory, m)."""
        assert self.transition is not None and self.dt is not None
        left = self.delay - (self.memory - 1) * self.dt  # of the oldest one
        for action in taken.unbind(dim=-2):
            z = self.transition(z, left, action)
            left = self.dt
        return z

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


def predictor_of(
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
    dt, delay = getattr(model, "step_", None) if dt is None else dt, 0.0
    if isinstance(model, Law) and model.delays:
        model, delay = model.with_delays({}), _common_delay(model, actions)
    transition = deepcopy(Transition.of(model)).to(dtype).requires_grad_(False)
    if integrator is not None:
        transition = Transition(
            transition.symbolic, transition.correction, transition.dynamics, integrator,
            transition.order,
        )  # fmt: skip
    _check(transition.law(), transition.order, actions, transition.dynamics, dt)
    return Predictor(lambda z, u: transition(z, dt, u), draws, transition, dt, delay)


def _common_delay(law: Law, actions: int) -> float:
    """The dead time of all actions: plans are made for the time from which they act."""
    delays = set(law.delays.values())
    if len(law.delays) < actions or len(delays) > 1:
        raise LawError(
            "Plans need actions that act equally late, but the delays are "
            + ", ".join(f"{n}: {law.delays.get(n, 0.0):.3g}" for n in law.inputs[-actions:]) + "."
        )  # fmt: skip
    return delays.pop()


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
    without_delays(law, "A plan")
    if dynamics == "continuous" and dt is None:
        raise ConfigError("A vector field needs the length of a step; pass dt.")
    if law is not None and len(law.inputs) - order * len(law.outputs) != actions:
        raise ConfigError(
            f"The law takes {len(law.inputs) - order * len(law.outputs)} actions "
            f"(inputs {', '.join(law.inputs)}), but low and high have {actions}."
        )


def generic_rollout(step: Step, z: Tensor, u: Tensor) -> Tensor:
    """States (..., K + 1, d) from z (..., d) under u (..., K, m); leading axes broadcast."""
    shape = torch.broadcast_shapes(z.shape[:-1], u.shape[:-2])
    state = z.expand(*shape, z.shape[-1])
    states = [state]
    for k in range(u.shape[-2]):
        state = step(state, u[..., k, :].expand(*shape, u.shape[-1]))
        states.append(state)
    return torch.stack(states, dim=-2)


class LawRollout:
    """The same for a law without correction, on rows (coordinates, samples).

    A few hundred samples are so little work that the number of torch calls decides. Rows need no
    joining and splitting of inputs, and coefficients enter as plain numbers.
    """

    def __init__(self, transition: Transition, dt: float, limits: tuple[Tensor, Tensor] | None):
        law = transition.symbolic
        assert isinstance(law, TorchLaw)
        self.program = law.program
        numbers = zip(self.program.coefficients, law.coefficients.tolist(), strict=True)
        self.numbers = (*self.program.constants, *numbers)
        self.tensor_slots = law._tensor_slots
        self.dynamics, self.integrator, self.dt = transition.dynamics, transition.integrator, dt
        self.limits = limits

    @staticmethod
    def applies_to(transition: Transition) -> bool:
        return (
            isinstance(transition.symbolic, TorchLaw)
            and transition.correction is None
            and transition.order == 1
            and (transition.dynamics == "discrete" or transition.integrator in ("euler", "rk4"))
        )

    def __call__(self, z: Tensor, u: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(z.shape[:-1], u.shape[:-2])
        d, (k, m) = z.shape[-1], u.shape[-2:]
        count = shape.numel()
        state = z.expand(*shape, d).reshape(count, d).T.contiguous()
        actions = u.expand(*shape, k, m).reshape(count, k, m).permute(1, 2, 0).contiguous()
        low, high = (None, None) if self.limits is None else self.limits
        numbers = [
            (slot, state.new_tensor(value) if slot in self.tensor_slots else value)
            for slot, value in self.numbers
        ]
        states = [state]
        for action in actions:
            state = self._step(state, list(action.unbind(0)), numbers)
            if low is not None and high is not None:
                state = state.clamp(low[:, None], high[:, None])
            states.append(state)
        return torch.stack(states).permute(2, 0, 1).reshape(*shape, k + 1, d)

    def _step(self, z: Tensor, u: list[Tensor], numbers: list[tuple[int, Any]]) -> Tensor:
        dt = self.dt
        k1 = self._law(z, u, numbers)
        if self.dynamics == "discrete":
            return k1
        if self.integrator == "euler":
            return torch.add(z, k1, alpha=dt)
        k2 = self._law(torch.add(z, k1, alpha=dt / 2), u, numbers)
        k3 = self._law(torch.add(z, k2, alpha=dt / 2), u, numbers)
        k4 = self._law(torch.add(z, k3, alpha=dt), u, numbers)
        total = torch.add(k1 + k4, k2 + k3, alpha=2.0)
        return torch.add(z, total, alpha=dt / 6)

    def _law(self, z: Tensor, u: list[Tensor], numbers: list[tuple[int, Any]]) -> Tensor:
        memory: list[Any] = [None] * self.program.size
        memory[: self.program.inputs] = [*z.unbind(0), *u]
        for slot, value in numbers:
            memory[slot] = value
        reference = memory[0]
        return torch.stack(
            [
                r
                if isinstance(r, Tensor) and r.ndim
                else torch.as_tensor(r).to(reference).expand_as(reference)
                for r in run(self.program, memory, TORCH)
            ]
        )
