"""A planning task: a predictor, a cost, and bounds on the actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sjepa.control.predictor import Step, predictor_of
from sjepa.errors import ConfigError, DataError
from sjepa.settings import array_of, number_of, whole_of


def expected(costs: Tensor) -> Tensor:
    """Mean over the draws, which are the leading axis."""
    return costs.mean(0)


@dataclass(frozen=True)
class CVaR:
    """Conditional value at risk: the mean of the worst 1 - level share of the draws.

    Level 0 is the mean, and toward 1 only the worst draw counts. Draws at the edge of the share
    count partly, so the value moves continuously with the level.
    """

    level: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.level < 1:
            raise ConfigError(f"The level of CVaR is in [0, 1), got {self.level}.")

    def __call__(self, costs: Tensor) -> Tensor:
        count = max((1.0 - self.level) * len(costs), 1.0)
        worst = costs.sort(dim=0, descending=True).values
        weights = [min(1.0, max(0.0, count - i)) for i in range(len(costs))]
        total = costs.new_tensor(weights).reshape(-1, *[1] * (costs.ndim - 1))
        return (worst * total).sum(0) / count


StageCost = Callable[[Tensor, Tensor], Tensor]
TerminalCost = Callable[[Tensor], Tensor]

# Stands for a rollout that left the finite numbers: worse than anything, and still comparable.
DIVERGED = 1e12


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Minimize Σ_h ℓ(z_h, u_h) + ℓ_T(z_K) over action sequences inside a box.

    Make one with :meth:`of`. All functions take any leading axes; costs see whole rollouts at
    once, with time among those axes.

    Attributes
    ----------
    step : (z (..., d), u (..., m)) -> next state (..., d)
    rollout : (z (..., d), u (..., K, m)) -> states (..., K + 1, d)
    stage, terminal : (z, u) -> cost (...), and z -> cost (...)
    low, high : tensors (m,)
    horizon : steps of one plan
    hold : steps for which each planned action is kept constant; a plan has horizon / hold actions
    draws : number of coherent draws that `step` moves along its leading axis, if it has any
    risk : costs (draws, ...) -> (...); by default their mean
    memory, ahead : for actions that act late: how many of those taken have not acted to their end,
        and (z, these (..., memory, m)) -> the state from which the next one acts
    """

    step: Step
    rollout: Callable[[Tensor, Tensor], Tensor]
    stage: StageCost
    low: Tensor
    high: Tensor
    terminal: TerminalCost | None = None
    horizon: int = 30
    hold: int = 1
    draws: int | None = None
    risk: Callable[[Tensor], Tensor] = expected
    matrices: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
    memory: int = 0
    ahead: Callable[[Tensor, Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        for name in ("horizon", "hold", "draws"):
            if name != "draws" or self.draws is not None:
                whole_of(getattr(self, name), name, 1)
        if self.horizon % self.hold:
            raise ConfigError(
                f"The horizon ({self.horizon}) must be a multiple of hold ({self.hold})."
            )
        if self.low.shape != self.high.shape or not bool((self.low < self.high).all()):
            raise ConfigError(f"Needs low < high for every action, got {self.low} and {self.high}.")

    @classmethod
    def of(
        cls,
        model: Any,
        stage: StageCost,
        *,
        low: Any,
        high: Any,
        terminal: TerminalCost | None = None,
        horizon: int = 30,
        hold: int = 1,
        dt: float | None = None,
        draws: int | None = None,
        risk: Callable[[Tensor], Tensor] = expected,
        state_limits: tuple[Any, Any] | None = None,
        integrator: str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Task:
        """Plan with a fitted model, a law, a posterior, or any function (z, u) -> next z.

        Parameters
        ----------
        stage, terminal : costs as functions of tensors
        low, high : box of the actions, (m,)
        dt : float, optional
            Step of a vector field; by default the median step the model was fitted on.
        draws, risk
            Number of coherent draws of a posterior (by default 100; ``posterior.draws(n, seed)``
            may be given itself), or that a function holds along its leading axis. `risk` joins
            their costs: ``expected`` or ``CVaR(0.9)``. Draws move without transition noise.
        state_limits : (low, high), optional
            Predicted states are kept inside, where the true system is known to stay inside.
        integrator : str, optional
            Another one than the model's: "midpoint" halves the evaluations of "rk4".
        """
        low, high = (
            torch.as_tensor(np.atleast_1d(array_of(v, name)), dtype=dtype)
            for name, v in (("low", low), ("high", high))
        )
        if dt is not None:
            dt = number_of(dt, "dt")
        limits = None
        if state_limits is not None:
            if not isinstance(state_limits, Sequence) or len(state_limits) != 2:
                raise ConfigError(f"state_limits is (low, high), got {state_limits!r:.60}.")
            ends = [torch.as_tensor(array_of(v, "state_limits"), dtype=dtype) for v in state_limits]
            limits = (ends[0], ends[1])
        predictor = predictor_of(
            model, len(low), dt=dt, draws=draws, integrator=integrator, dtype=dtype
        )
        step, rollout = predictor.within(limits)
        return cls(
            step=step, rollout=rollout, stage=stage, low=low, high=high, terminal=terminal,
            horizon=horizon, hold=hold, risk=risk,
            draws=predictor.draws, matrices=predictor.matrices, memory=predictor.memory,
            ahead=predictor.ahead if predictor.memory else None,
        )  # fmt: skip

    @property
    def blocks(self) -> int:
        """Actions in a plan."""
        return self.horizon // self.hold

    @property
    def dtype(self) -> torch.dtype:
        return self.low.dtype

    def with_(self, **changes: Any) -> Task:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    def clamp(self, actions: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(actions, self.low), self.high)

    def expand(self, actions: Tensor) -> Tensor:
        """(..., blocks, m) to one action for each step, (..., horizon, m)."""
        return actions.repeat_interleave(self.hold, dim=-2) if self.hold > 1 else actions

    def states(self, z: Tensor, actions: Tensor) -> Tensor:
        """Predicted states (..., horizon + 1, d), with the draws first if there are any."""
        u = self.expand(actions)
        if self.draws is not None:
            z = z.expand(self.draws, *z.shape)
            u = u.expand(self.draws, *u.shape)
        return self.rollout(z, u)

    def cost(self, z: Tensor, actions: Tensor) -> Tensor:
        """Of starts (..., d) under plans (..., blocks, m): (...). Diverging rollouts cost most."""
        states = self.states(z, actions)
        u = self.expand(actions)
        total = self.stage(states[..., :-1, :], u.expand(*states.shape[:-2], *u.shape[-2:]))
        if total.shape != (*states.shape[:-2], self.horizon):
            raise DataError(
                f"The stage cost turned states {tuple(states[..., :-1, :].shape)} into "
                f"{tuple(total.shape)}; it must drop the last axis only."
            )
        total = total.sum(-1)
        if self.terminal is not None:
            total = total + self.terminal(states[..., -1, :])
        # A cost may be blind to the coordinate that ran away; what is lost once stays lost.
        lost = ~states[..., -1, :].isfinite().all(-1)
        total = total.nan_to_num(DIVERGED, DIVERGED, DIVERGED).clamp(max=DIVERGED)
        total = total.masked_fill(lost, DIVERGED)
        return total if self.draws is None else self.risk(total)
