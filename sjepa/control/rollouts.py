"""Rollouts for planning: many action sequences through a predictor at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sjepa.models import Transition
from sjepa.symbolic.emit import run
from sjepa.symbolic.torch_law import TORCH, TorchLaw


Step = Callable[[Tensor, Tensor], Tensor]


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
        like = memory[0]
        return torch.stack(
            [
                r
                if isinstance(r, Tensor) and r.ndim
                else torch.as_tensor(r).to(like).expand_as(like)
                for r in run(self.program, memory, TORCH)
            ]
        )
