"""Equilibria of a transition inside a box, and their stability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import sympy
import torch
from scipy.linalg import null_space
from torch import Tensor

from sjepa.control.exact_roots import exact_roots
from sjepa.control.linearize import ContinuousModel, DiscreteModel, LawJacobian, Linearizer
from sjepa.control.lqr import controllability
from sjepa.errors import DataError
from sjepa.models import Transition
from sjepa.settings import array_of, number_of, texts_of, whole_of
from sjepa.symbolic import Law


# Eigenvalues this close to the edge of stability say nothing about the nonlinear system.
EDGE = 1e-7


@dataclass(frozen=True)
class Equilibrium:
    """One point z with zero velocity (or z' = z) under actions u.

    ``exact`` holds the coordinates as expressions where they could be solved for, ``isolated`` is
    False where the point is one of a whole line or surface of equilibria.
    """

    z: np.ndarray
    u: np.ndarray | None
    model: ContinuousModel | DiscreteModel
    exact: tuple[sympy.Expr, ...] | None
    residual: float
    isolated: bool

    @property
    def kind(self) -> str:
        return classify(self.model)

    @property
    def rank(self) -> int | None:
        """Of the controllability matrix; None without actions."""
        return controllability(self.model).rank if self.model.B.shape[1] else None


@dataclass(frozen=True, repr=False)
class Equilibria:
    """All that were found, as a sequence and as a table."""

    points: tuple[Equilibrium, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, i: int) -> Equilibrium:
        return self.points[i]

    def __iter__(self) -> Iterator[Equilibrium]:
        return iter(self.points)

    def to_frame(self) -> pd.DataFrame:
        """One row a point. The stability column is called by its criterion."""
        rows = []
        for p in self.points:
            row: dict[str, Any] = dict(zip(self.names, p.z.tolist(), strict=True))
            row["exact"] = None if p.exact is None else ", ".join(str(e) for e in p.exact)
            row["class"] = p.kind
            if isinstance(p.model, ContinuousModel):
                row["hurwitz"] = bool(p.model.hurwitz)
            else:
                row["schur"] = bool(p.model.schur)
            row["eigenvalues"] = np.array2string(p.model.eigenvalues, precision=4)
            if p.rank is not None:
                row["controllable_rank"] = p.rank
            row["isolated"] = p.isolated
            row["residual"] = p.residual
            rows.append(row)
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        body = self.to_frame().to_string(index=False) if self.points else "no equilibrium found"
        return "\n".join([body, *(f"note: {n}" for n in self.notes)])


class _Constraints:
    """Expressions that are zero on the states, with their derivatives, compiled once."""

    def __init__(self, law: Law) -> None:
        self.law, self.values, self.normals = law, law.torch(trainable=False), LawJacobian(law)


def equilibria(
    model: Any,
    box: Sequence[tuple[float, float]],
    u: Any = None,
    *,
    constraints: Sequence[str] = (),
    starts: int = 512,
    tolerance: float = 1e-9,
    seed: int = 0,
) -> Equilibria:
    """Find the equilibria of a law, a transition or a fitted model inside a box.

    Parameters
    ----------
    model : Law, Transition or fitted SJEPA
    box : one (low, high) for each coordinate
    u : array (m,), optional
        Constant actions (control inputs); zero by default.
    constraints : expressions that are zero on the states, optional
        Such as ``["c**2 + s**2 - 1"]`` if two coordinates are a cosine and a sine. Stability
        and rank then refer to perturbations that satisfy them.
    starts : int
        Newton searches from points spread evenly over the box. They find equilibria that
        elimination cannot solve for; completeness is then likely, not proved.
    """
    transition = Transition.of(model)
    law = transition.law()
    limits = np.atleast_1d(array_of(box, "box"))
    names = transition.state_names(
        len(limits) if law is None else transition.order * len(law.outputs)
    )
    if limits.shape != (len(names), 2) or not (limits[:, 0] < limits[:, 1]).all():
        raise DataError(f"box needs (low, high) for each of {', '.join(names)}, got {box!r}.")
    starts, seed = whole_of(starts, "starts", 1), whole_of(seed, "seed")
    tolerance = number_of(tolerance, "tolerance")
    m = 0 if law is None else len(law.inputs) - len(names)
    actions = np.zeros(m) if u is None else np.atleast_1d(array_of(u, "u"))
    if law is not None and actions.shape != (m,):
        raise DataError(f"u needs {m} values for {', '.join(law.inputs[len(names) :])}, got {u!r}.")
    constant_inputs = actions if len(actions) else None
    if isinstance(constraints, str):
        constraints = [constraints]
    constraints = texts_of(constraints, "constraints", "expressions")
    labels = [f"constraint{i + 1}" for i in range(len(constraints))]
    extra = _Constraints(Law.from_string(constraints, names, labels)) if labels else None
    linearizer = Linearizer(transition)
    notes: list[str] = []

    exact: list[tuple[np.ndarray, tuple[sympy.Expr, ...]]] | None = None
    if law is not None and transition.correction is None and transition.order == 1:
        exact = _exact(law, names, actions, limits, extra)
    if exact is None:
        notes.append("not solvable in closed form: found by Newton searches from spread starts")
    roots = _search(linearizer, limits, constant_inputs, extra, starts, tolerance, seed)
    points: list[Equilibrium] = []
    kinks = 0
    for z, form in [*(exact or []), *((z, None) for z in roots)]:
        near = 1e-5 * (limits[:, 1] - limits[:, 0])
        if any((np.abs(p.z - z) <= near).all() for p in points):
            continue
        point = _describe(linearizer, z, constant_inputs, form, extra)
        kinks += point is None
        points += [] if point is None else [point]
    if kinks:
        notes.append(f"{kinks} points were left out where derivatives are not finite")
    loose = [p for p in points if not p.isolated]
    if len(loose) > 4:
        notes.append(f"{len(loose)} points of a continuum of equilibria were found; 4 are listed")
        points = [p for p in points if p.isolated] + loose[:4]
    points.sort(key=lambda p: tuple(np.round(p.z, 9)))
    return Equilibria(tuple(points), tuple(names), tuple(notes))


def classify(model: ContinuousModel | DiscreteModel) -> str:
    """Node, focus, saddle or center, by the criterion of continuous or of discrete time."""
    values = model.eigenvalues
    growth = values.real if isinstance(model, ContinuousModel) else np.abs(values) - 1.0
    turning = bool((np.abs(values.imag) > EDGE).any())
    if (np.abs(growth) <= EDGE).any():
        return "center (to first order)" if turning and (growth <= EDGE).all() else "degenerate"
    if (growth < 0).all():
        return "stable focus" if turning else "stable node"
    if (growth > 0).all():
        return "unstable focus" if turning else "unstable node"
    return "saddle"


def _exact(
    law: Law, names: Sequence[str], u: np.ndarray, limits: np.ndarray, extra: _Constraints | None
) -> list[tuple[np.ndarray, tuple[sympy.Expr, ...]]] | None:
    symbols = law.symbols[: len(names)]
    constants = dict(zip(law.symbols[len(names) :], map(sympy.Float, u.tolist()), strict=True))
    equations = [e.subs(constants) for e in law.expressions]
    if law.dynamics == "discrete":
        equations = [e - s for e, s in zip(equations, symbols, strict=True)]
    equations += [] if extra is None else list(extra.law.expressions)
    box = {s: (low, high) for s, (low, high) in zip(symbols, limits.tolist(), strict=True)}
    roots = exact_roots(equations, symbols, box)
    if roots is None:
        return None
    forms = [tuple(root[s] for s in symbols) for root in roots]
    return [(np.array([float(e.evalf(20)) for e in form]), form) for form in forms]


def _standstill(transition: Transition, z: Tensor, u: Tensor | None) -> Tensor:
    """Zero at an equilibrium: the velocity, or the change in one step of a map."""
    inputs = z if u is None else torch.cat([z, u.expand(*z.shape[:-1], -1)], dim=-1)
    if transition.dynamics == "discrete":
        return transition.field(inputs) - z
    return transition.velocity(inputs)


def _search(
    linearizer: Linearizer,
    limits: np.ndarray,
    u: np.ndarray | None,
    extra: _Constraints | None,
    starts: int,
    tolerance: float,
    seed: int,
) -> list[np.ndarray]:
    """Damped Newton steps from many points at once; the roots inside the box, best first."""
    d = len(limits)
    low, high = torch.as_tensor(limits).unbind(-1)
    spread = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed)
    z = low + (high - low) * spread.draw(starts).double()
    inputs = None if u is None else torch.as_tensor(u)
    with torch.no_grad():
        residual, jacobian = _defined(*_equations(linearizer, z, inputs, extra))
        size = residual.norm(dim=-1)
        for _ in range(60):
            residual_finite = residual.nan_to_num(0.0, 0.0, 0.0).unsqueeze(-1)
            step = -(torch.linalg.pinv(jacobian, rtol=1e-12) @ residual_finite).squeeze(-1)
            length = torch.ones(starts, 1, dtype=z.dtype)
            best, lowest = z, size
            for _ in range(6):
                trial = z + length * step
                value = _equations(linearizer, trial, inputs, extra, False)[0].norm(dim=-1)
                better = value.nan_to_num(torch.inf) < lowest
                best = torch.where(better[:, None], trial, best)
                lowest = torch.where(better, value, lowest)
                length = length / 3
            if bool((lowest >= size).all()):
                break
            z, size = best, lowest
            residual, jacobian = _defined(*_equations(linearizer, z, inputs, extra))
    finite = size[size.isfinite()]
    scale = 1.0 + float(finite.median()) if len(finite) else 1.0
    good = (size <= tolerance * scale) & (z >= low).all(-1) & (z <= high).all(-1)
    order = size[good].argsort()
    return list(z[good][order].numpy())


def _defined(residual: Tensor, jacobian: Tensor) -> tuple[Tensor, Tensor]:
    """The same, with points from which no step leads where a value or a slope is not finite."""
    usable = residual.isfinite().all(-1) & jacobian.isfinite().flatten(-2).all(-1)
    residual = torch.where(usable[:, None], residual, torch.inf)
    return residual, torch.where(usable[:, None, None], jacobian, 0.0)


def _equations(
    linearizer: Linearizer,
    z: Tensor,
    u: Tensor | None,
    extra: _Constraints | None,
    slopes: bool = True,
) -> tuple[Tensor, Tensor]:
    transition, d = linearizer.transition, z.shape[-1]
    value = _standstill(transition, z, u)
    jacobian = value
    if slopes:
        inputs = z if u is None else torch.cat([z, u.expand(*z.shape[:-1], -1)], dim=-1)
        jacobian = linearizer.jacobian(inputs)[..., :d]
        if transition.dynamics == "discrete":
            jacobian = jacobian - torch.eye(d, dtype=z.dtype)
    if extra is not None:
        value = torch.cat([value, extra.values(z)], dim=-1)
        if slopes:
            jacobian = torch.cat([jacobian, extra.normals(z)], dim=-2)
    return value, jacobian


def _along(
    model: ContinuousModel | DiscreteModel, normals: np.ndarray
) -> ContinuousModel | DiscreteModel:
    """The model for changes that keep the constraints, in an orthonormal basis of them."""
    basis = null_space(normals)
    parts = (basis.T @ model.A_symbolic @ basis, basis.T @ model.B_symbolic)
    rest = (basis.T @ model.A_correction @ basis, basis.T @ model.B_correction)
    return type(model)(*parts, *rest)


def _describe(
    linearizer: Linearizer,
    z: np.ndarray,
    u: np.ndarray | None,
    form: tuple[sympy.Expr, ...] | None,
    extra: _Constraints | None,
) -> Equilibrium | None:
    """The point with its local model; None where the derivatives are not finite."""
    inputs = None if u is None else torch.as_tensor(u)
    with torch.no_grad():
        value, jacobian = _equations(linearizer, torch.as_tensor(z), inputs, extra)
    if not bool(jacobian.isfinite().all()):
        return None
    around = linearizer.around(z, u)
    model = around.field if around.field is not None else around.step
    assert model is not None
    if extra is not None:
        model = _along(model, extra.normals(torch.as_tensor(z)).numpy())
    sizes = torch.linalg.svdvals(jacobian)
    isolated = bool(sizes[-1] > 1e-6 * sizes[0]) or form is not None
    return Equilibrium(z, u, model, form, float(value.norm()), isolated)
