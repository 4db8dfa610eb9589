"""Local linear models of a transition, of its field or one step, from exact Jacobians.

Continuous and discrete time are two classes. dz/dt = A z + B u is stable when every eigenvalue of
A has a negative real part (Hurwitz); z' = A z + B u when every eigenvalue lies inside the unit
circle (Schur). The same matrix can pass one test and fail the other, so neither class has a plain
"stable".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from sjepa.errors import DataError
from sjepa.models import Transition
from sjepa.models.integrators import INTEGRATORS, join
from sjepa.settings import array_of, number_of
from sjepa.symbolic import Law
from sjepa.symbolic.delays import without_delays


@dataclass(frozen=True, eq=False, repr=False)
class LocalModel(ABC):
    """A (..., d, d) and B (..., d, m), each the sum of the law's part and the correction's.

    For an integrated step the law's part is what would remain if the correction did not react
    to the state or the action along the same path; everything else is the correction's.
    """

    A_symbolic: np.ndarray
    B_symbolic: np.ndarray
    A_correction: np.ndarray
    B_correction: np.ndarray

    @property
    def A(self) -> np.ndarray:
        return self.A_symbolic + self.A_correction

    @property
    def B(self) -> np.ndarray:
        return self.B_symbolic + self.B_correction

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of A, largest real part (continuous) or largest size (discrete) first."""
        values = np.linalg.eigvals(self.A)
        order = np.argsort(-self._order(values), axis=-1, kind="stable")
        return np.take_along_axis(values, order, axis=-1)

    @abstractmethod
    def _order(self, values: np.ndarray) -> np.ndarray:
        """What eigenvalues are sorted by, largest first."""

    @property
    def action_share(self) -> dict[str, np.ndarray]:
        """How much of the action sensitivity is the law's and how much the correction's.

        |B_F| / (|B_F| + |B_c|) in Frobenius norms, and the rest; both NaN where no action acts.
        """
        law = np.linalg.norm(self.B_symbolic, axis=(-2, -1))
        rest = np.linalg.norm(self.B_correction, axis=(-2, -1))
        with np.errstate(invalid="ignore"):
            share = law / (law + rest)
        return {"symbolic": share, "correction": 1.0 - share}

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        for name in ("A", "B"):
            if getattr(self, name).size:
                lines.append(f"{name} =\n{np.array2string(getattr(self, name), precision=4)}")
        lines.append(f"eigenvalues = {np.array2string(self.eigenvalues, precision=4)}")
        if self.B.size:
            share = np.array2string(self.action_share["symbolic"], precision=3)
            lines.append(f"action sensitivity in the law: {share}")
        return "\n".join(lines)


class ContinuousModel(LocalModel):
    """dz/dt = A z + B u around a point: derivatives of the vector field itself."""

    def _order(self, values: np.ndarray) -> np.ndarray:
        return values.real

    @property
    def spectral_abscissa(self) -> np.ndarray:
        """Largest real part of the eigenvalues of A."""
        return np.linalg.eigvals(self.A).real.max(axis=-1)

    @property
    def hurwitz(self) -> np.ndarray:
        """Whether every eigenvalue has a negative real part."""
        return self.spectral_abscissa < 0


class DiscreteModel(LocalModel):
    """z' = A z + B u around a point: derivatives of a map, or of one integrated step."""

    def _order(self, values: np.ndarray) -> np.ndarray:
        return np.abs(values)

    @property
    def spectral_radius(self) -> np.ndarray:
        """Largest size of the eigenvalues of A."""
        return np.abs(np.linalg.eigvals(self.A)).max(axis=-1)

    @property
    def schur(self) -> np.ndarray:
        """Whether every eigenvalue lies inside the unit circle."""
        return self.spectral_radius < 1


class LawJacobian(nn.Module):
    """∂F/∂(z, u) of a law, from SymPy's derivatives: inputs (..., n) to (..., k, n).

    Compiled like the law itself, so it runs on any batch shape, dtype and device. Entries that
    are zero everywhere cost nothing.
    """

    def __init__(self, law: Law) -> None:
        super().__init__()
        matrix = law.jacobian()
        self.shape = (len(law.outputs), len(law.inputs))
        entries = [
            (i, j, e) for i in range(self.shape[0]) for j in range(self.shape[1])
            if (e := matrix[i, j]) != 0
        ]  # fmt: skip
        self.rows = [i for i, _, _ in entries]
        self.columns = [j for _, j, _ in entries]
        self.entries: nn.Module | None = None
        if entries:
            names = [f"e{n}" for n in range(len(entries))]
            expressions: list[sympy.Expr] = [e for *_, e in entries]
            derivative = Law(expressions, law.inputs, names, "discrete", canonical=False)
            self.entries = derivative.torch(trainable=False)

    def forward(self, inputs: Tensor) -> Tensor:
        out = inputs.new_zeros((*inputs.shape[:-1], *self.shape))
        if self.entries is not None:
            out[..., self.rows, self.columns] = self.entries(inputs)
        return out


def module_jacobian(module: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Jacobian of any module by automatic differentiation: (..., n) to (..., k, n)."""
    flat = inputs.reshape(-1, inputs.shape[-1])
    jacobian = vmap(jacrev(module))(flat)
    return jacobian.reshape(*inputs.shape[:-1], *jacobian.shape[1:]).detach()


@dataclass(frozen=True, repr=False)
class Linearization:
    """What a transition does to small changes around states z (..., d) and actions u (..., m).

    ``field`` is the vector field's own first-order model, None for a map. ``step`` is that of the
    next state: of the map itself, or of the field integrated for ``dt``, None without a dt.
    """

    z: np.ndarray
    u: np.ndarray | None
    dt: float | None
    field: ContinuousModel | None
    step: DiscreteModel | None

    def __repr__(self) -> str:
        lines = [f"around z = {self.z}" + ("" if self.u is None else f", u = {self.u}")]
        if self.field is not None:
            lines += ["vector field:", repr(self.field)]
        if self.step is not None:
            after = "" if self.field is None else f" of {self.dt:g}"
            lines += [f"one step{after}:", repr(self.step)]
        return "\n".join(lines)


def linearize(
    transition: Transition, z: Any, u: Any = None, dt: float | None = None
) -> Linearization:
    """Linearize a transition around states z (..., d) and actions u (..., m).

    The law is differentiated analytically, the correction automatically. A step is differentiated
    through its integrator exactly, stage by stage, not by a matrix exponential.
    """
    return Linearizer(transition).around(z, u, dt)


class Linearizer:
    """The same for many points: derivatives are worked out and compiled once."""

    def __init__(self, transition: Transition) -> None:
        self.transition = Transition.of(transition)
        law = self.transition.law()
        without_delays(law, "A linearization")
        self.analytic = None if law is None else LawJacobian(law)

    def around(self, z: Any, u: Any = None, dt: float | None = None) -> Linearization:
        state = torch.as_tensor(array_of(z, "z"))
        action = None if u is None else torch.as_tensor(array_of(u, "u"))
        dt = None if dt is None else number_of(dt, "dt")
        if state.ndim == 0 or (action is not None and action.ndim == 0):
            raise DataError("States and actions are arrays (..., d) and (..., m), got a number.")
        if action is not None:
            shape = torch.broadcast_shapes(state.shape[:-1], action.shape[:-1])
            state = state.expand(*shape, state.shape[-1])
            action = action.expand(*shape, action.shape[-1])
        law, size = self.transition.law(), join(state, action).shape[-1]
        if law is not None and size != len(law.inputs):
            d = len(law.outputs) * self.transition.order
            raise DataError(
                f"The law has inputs {', '.join(law.inputs)}: give z (..., {d}) and "
                f"u (..., {len(law.inputs) - d}), got {size} values."
            )
        field = step = None
        with torch.no_grad():
            if self.transition.dynamics == "continuous":
                field = ContinuousModel(*self._blocks(state, action))
            if self.transition.dynamics == "discrete":
                step = DiscreteModel(*self._blocks(state, action))
            elif dt is not None:
                whole = self.step_matrices(state, action, dt)
                law_part = whole
                if self.transition.correction is not None:
                    law_part = self.step_matrices(state, action, dt, law_only=True)
                correction_part = [a - b for a, b in zip(whole, law_part, strict=True)]
                step = DiscreteModel(*(m.numpy() for m in (*law_part, *correction_part)))
        return Linearization(
            state.numpy(), None if action is None else action.numpy(), dt, field, step
        )

    def step_matrices(
        self, z: Tensor, u: Tensor | None, dt: float | None, law_only: bool = False
    ) -> tuple[Tensor, Tensor]:
        """A (..., d, d) and B (..., d, m) of the next state, as tensors.

        Tangent vectors go through the integrator beside the state: Runge-Kutta steps of the
        variational equation are the derivatives of the Runge-Kutta step.
        """
        d, m = z.shape[-1], 0 if u is None else u.shape[-1]
        if self.transition.dynamics == "discrete":
            whole = self.jacobian(join(z, u), law_only)
            return whole[..., :d], whole[..., d:]
        unit = torch.eye(d + m, dtype=z.dtype, device=z.device)
        # (1 + d + m, ..., d): the state, then one tangent for every direction.
        tangents = unit.reshape(d + m, *[1] * (z.ndim - 1), d + m).expand(-1, *z.shape[:-1], -1)
        states = torch.cat([z.unsqueeze(0), tangents[..., :d]])
        actions = None if u is None else torch.cat([u.unsqueeze(0), tangents[..., d:]])
        if dt is None:
            raise DataError("A step of a vector field needs its length; pass dt.")
        step = INTEGRATORS[self.transition.integrator]
        derivatives = step(self._variational(law_only), states, dt, actions)[1:].movedim(0, -1)
        return derivatives[..., :d], derivatives[..., d:]

    def _variational(self, law_only: bool) -> Callable[[Tensor], Tensor]:
        transition = self.transition

        def field(stacked: Tensor) -> Tensor:
            base, tangents = stacked[0], stacked[1:]
            jacobian = self.jacobian(base, law_only)
            value = transition.velocity(base)
            change = torch.einsum("...ij,t...j->t...i", jacobian, tangents)
            return torch.cat([value.unsqueeze(0), change])

        return field

    def jacobian(self, inputs: Tensor, law_only: bool = False) -> Tensor:
        """Of the state's velocity, or of the next state for a map: (..., d, d + m).

        The law is differentiated analytically, other modules automatically.
        """
        symbolic, correction = self.transition.symbolic, self.transition.correction
        found = []
        if self.analytic is not None:
            found.append(self.analytic(inputs))
        elif symbolic is not None:
            found.append(module_jacobian(symbolic, inputs))
        if correction is not None and not law_only:
            found.append(module_jacobian(correction, inputs))
        if not found:
            size = self.transition.field(inputs).shape[-1]
            found.append(inputs.new_zeros((*inputs.shape[:-1], size, inputs.shape[-1])))
        return self._with_velocity(sum(found[1:], start=found[0]))

    def _with_velocity(self, jacobian: Tensor) -> Tensor:
        if self.transition.order == 1:
            return jacobian
        n = jacobian.shape[-2]
        top = torch.zeros_like(jacobian)
        top[..., range(n), range(n, 2 * n)] = 1.0
        return torch.cat([top, jacobian], dim=-2)

    def _blocks(self, z: Tensor, u: Tensor | None) -> list[np.ndarray]:
        """A and B of the law, then of the correction."""
        inputs, d = join(z, u), z.shape[-1]
        law = self.jacobian(inputs, law_only=True)
        rest = self.jacobian(inputs) - law
        return [m.numpy() for m in (law[..., :d], law[..., d:], rest[..., :d], rest[..., d:])]
