"""The transition H = F + c: a symbolic law and a neural correction, moved through time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, DataError, lookup
from sjepa.models.integrators import INTEGRATORS, join
from sjepa.settings import choice_of
from sjepa.symbolic import Law
from sjepa.symbolic.law_methods import order_of


class Transition(nn.Module):
    """Predicts the next latent state from the present one.

    Both parts are modules that take the state joined with exogenous inputs ε (actions, time
    offset, masks), (..., d + s), and see exactly the same inputs.

    Parameters
    ----------
    symbolic : nn.Module, optional
        The law F. None gives the purely neural baseline.
    correction : nn.Module, optional
        The correction c, or the whole neural field when there is no law. None gives c ≡ 0.
    dynamics : "continuous" or "discrete"
        F + c is a vector field that is integrated for Δt, or the next state itself.
    integrator : str, default="euler"
        Name in ``INTEGRATORS``.
    order : 1 or 2
        With 2 the state is (q, dq/dt) and F + c is the acceleration, (..., d / 2).
    """

    def __init__(
        self,
        symbolic: nn.Module | None = None,
        correction: nn.Module | None = None,
        dynamics: Literal["continuous", "discrete"] = "continuous",
        integrator: str = "euler",
        order: Literal[1, 2] = 1,
    ) -> None:
        super().__init__()
        if symbolic is None and correction is None:
            raise ConfigError("A transition needs a symbolic law, a correction, or both.")
        choice_of(dynamics, "dynamics", ("continuous", "discrete"))
        if order not in (1, 2) or (order == 2 and dynamics == "discrete"):
            raise ConfigError(
                f"order must be 1, or 2 with dynamics='continuous'; got {order} with {dynamics}."
            )
        if isinstance(integrator, str) and integrator == "verlet" and order == 1:
            raise ConfigError("verlet integrates accelerations; set order=2 or use 'rk4'.")
        self.symbolic = symbolic
        self.correction = correction
        self.dynamics = dynamics
        self.order = order
        self.integrator = integrator
        self._step = lookup(INTEGRATORS, integrator, "integrator")

    @classmethod
    def of(
        cls, source: Any, integrator: str = "rk4", correction: nn.Module | None = None
    ) -> Transition:
        """The transition of a law, of a fitted model, or the transition that was given.

        A law moves its own outputs, which are its first inputs; outputs that are inputs behind as
        many others are velocities, and the law is one of second order.
        """
        if isinstance(source, Transition):
            return source
        if isinstance(fitted := getattr(source, "transition_", None), Transition):
            return fitted
        if not isinstance(source, Law):
            raise ConfigError(
                f"Expected a law, a transition or a fitted model, got {type(source).__name__}"
                + ("; fit it first." if hasattr(source, "fit") else ".")
            )
        return cls(
            source.torch(trainable=False), correction, source.dynamics, integrator, order_of(source)
        )

    def law(self) -> Law | None:
        """The law in this transition, with its present coefficients; None for a neural one."""
        read = getattr(self.symbolic, "law", None)
        law = read() if callable(read) else None
        return law if isinstance(law, Law) else None

    def state_names(self, dimension: int) -> tuple[str, ...]:
        """Names of the coordinates; z1, z2, ... where no law says better."""
        law = self.law()
        if law is None:
            return tuple(f"z{i + 1}" for i in range(dimension))
        return law.inputs[:dimension]

    def parts(self, z: Tensor, u: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(F, c) at states (..., d), before integration and before any factor Δt.

        A part that is absent is zero.
        """
        inputs = join(z, u)
        if self.symbolic is not None and self.correction is not None:
            return self.symbolic(inputs), self.correction(inputs)
        present = self._sum(inputs)
        absent = torch.zeros_like(present)
        return (absent, present) if self.symbolic is None else (present, absent)

    def field(self, z: Tensor, u: Tensor | None = None) -> Tensor:
        """The decomposed object itself, F + c: vector field, acceleration or next state."""
        return self._sum(join(z, u))

    def forward(
        self, z: Tensor, dt: Tensor | float | None = None, u: Tensor | None = None
    ) -> Tensor:
        """One step from z (..., d). dt broadcasts against z[..., :1]; a direct map ignores it."""
        if self.dynamics == "discrete":
            return self.field(z, u)
        return self._step(self.velocity, z, _checked_step(dt), u)

    def rollout(
        self,
        z0: Tensor,
        dt: Tensor | float | None = None,
        u: Tensor | None = None,
        steps: int | None = None,
    ) -> Tensor:
        """Rollout from every start in z0 (..., d) at once: (..., K + 1, d), z0 included.

        dt is (..., K) or one number for all steps, u is (..., K, m). K comes from whichever
        of them has a time axis, otherwise from ``steps``.
        """
        states = [z0]
        for dt_h, side_h in schedule(dt, u, steps):
            states.append(self(states[-1], dt_h, side_h))
        return torch.stack(states, dim=-2)

    def rollout_with_corrections(
        self,
        z0: Tensor,
        dt: Tensor | float | None = None,
        u: Tensor | None = None,
        steps: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The rollout, and the raw correction c at each state it left, (..., K, d).

        The corrections are those that R_corr penalizes along a rollout. They cost no extra
        evaluation: every integrator starts with the field at the present state.
        """
        states, corrections = [z0], []
        for dt_h, side_h in schedule(dt, u, steps):
            z = states[-1]
            law, correction = self.parts(z, side_h)
            total = law + correction
            if self.dynamics == "continuous":
                slope = self._with_velocity(z, total)
                total = self._step(self.velocity, z, _checked_step(dt_h), side_h, slope)
            states.append(total)
            corrections.append(correction)
        return torch.stack(states, dim=-2), torch.stack(corrections, dim=-2)

    def _sum(self, inputs: Tensor) -> Tensor:
        if self.symbolic is None:
            assert self.correction is not None
            return self.correction(inputs)
        law = self.symbolic(inputs)
        return law if self.correction is None else law + self.correction(inputs)

    def velocity(self, inputs: Tensor) -> Tensor:
        """dz/dt of the whole state at inputs (..., d + s), for a vector field."""
        return self._with_velocity(inputs, self._sum(inputs))

    def _with_velocity(self, inputs: Tensor, total: Tensor) -> Tensor:
        """dz/dt: for second order the velocities already in z, followed by the accelerations."""
        if self.order == 1:
            return total
        n = total.shape[-1]
        return torch.cat([inputs[..., n : 2 * n], total], dim=-1)


def _checked_step(dt: Tensor | float | None) -> Tensor | float:
    if dt is None:
        raise DataError("A vector field needs a step size; pass dt, or use dynamics='discrete'.")
    if isinstance(dt, Tensor) and dt.ndim and dt.shape[-1] != 1:
        raise DataError(
            f"dt {tuple(dt.shape)} must broadcast against z[..., :1]; pass dt[..., None]."
        )
    return dt


def schedule(
    dt: Tensor | float | None, u: Tensor | None, steps: int | None
) -> Iterator[tuple[Tensor | float | None, Tensor | None]]:
    """Step size and exogenous inputs of each step; checks that all lengths agree."""
    lengths = {
        "dt": dt.shape[-1] if isinstance(dt, Tensor) and dt.ndim else None,
        "u": u.shape[-2] if u is not None else None,
        "steps": steps,
    }
    known = {name: length for name, length in lengths.items() if length is not None}
    if len(set(known.values())) != 1:
        raise DataError(f"A rollout needs one number of steps; got {known or 'none, pass steps'}.")
    count = next(iter(known.values()))
    if count < 1:
        raise DataError(f"A rollout needs at least one step, got {count}.")
    for h in range(count):
        dt_h = dt[..., h, None] if lengths["dt"] and isinstance(dt, Tensor) else dt
        yield dt_h, None if u is None else u[..., h, :]
