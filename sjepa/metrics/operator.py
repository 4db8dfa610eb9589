"""The paper's Γ and C_dyn: what law and correction cost, and the least that is adequate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from sjepa.backend import Problem
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.data.rows import step_rows
from sjepa.errors import ConfigError, DataError
from sjepa.metrics.induced import Certificate, Encoder, encode
from sjepa.models import Transition
from sjepa.symbolic import Law, Library
from sjepa.symbolic.law import Dynamics


# Rows and stretches that are enough to measure two means.
MAX_ROWS, MAX_STRETCHES = 20_000, 500
# Structures that are tried, the simplest first.
MAX_STRUCTURES = 400


@dataclass(frozen=True)
class OperatorComplexity:
    """Γ = Ω + λ_c R_corr of one transition, and its two parts."""

    omega: float
    r_corr: float
    lambda_c: float

    @property
    def value(self) -> float:
        return self.omega + self.lambda_c * self.r_corr

    def __repr__(self) -> str:
        return (
            f"<Γ = {self.value:.4g}: Ω {self.omega:g} + λ_c {self.lambda_c:g} x R_corr "
            f"{self.r_corr:.4g}>"
        )


def operator_complexity(
    transition: Any,
    states: Any,
    *,
    u: Any = None,
    library: Library | None = None,
    lambda_c: float = 2e-2,
    tau: float = 1e-6,
) -> OperatorComplexity:
    """The paper's Γ of a law, a fitted model or a transition, over states (n, d).

    R_corr = E|c|² + τ|φ|² with the Euclidean norm of the raw correction; the training losses are
    means over the d coordinates, so their R_corr is 1/d of this one.

    Examples
    --------
    >>> operator_complexity(Law.from_string(["z2", "-sin(z1)"], ["z1", "z2"]), np.eye(2)).value
    3.0
    """
    moved = Transition.of(transition)
    law, z = moved.law(), torch.as_tensor(np.asarray(states, dtype=float))
    energy = 0.0
    if moved.correction is not None:
        side = None if u is None else torch.as_tensor(np.asarray(u, dtype=float))
        with torch.no_grad():
            _, c = moved.parts(z, side)
        size = sum(float(p.detach().square().sum()) for p in moved.correction.parameters())
        energy = float(c.square().sum(-1).mean()) + tau * size
    omega = 0.0 if law is None else law.complexity("terms", library)
    return OperatorComplexity(omega, energy, lambda_c)


@dataclass(frozen=True, eq=False)
class DynamicsComplexity:
    """C_dyn of an encoder pair, relative to data, library, correction class and tolerances.

    Attributes
    ----------
    value : float
        The smallest Γ found with L_pred <= delta, and L_roll <= delta_roll where it is asked for;
        infinity if there is none.
    gamma : OperatorComplexity or None
    transition : Transition or None
        That attains it.
    l_pred, l_roll : float
        Its risks (squared Euclidean distance); L_roll is NaN if it was not asked for.
    certificate : "exact" or "upper bound"
        Exact where every structure that was not tried costs more by its law alone.
    table : DataFrame
        For each structure that was tried its Ω, the least R_corr that makes single steps adequate,
        its Γ, and `break_even`: the λ_c from which on it beats having no law at all.
    """

    value: float
    gamma: OperatorComplexity | None
    transition: Transition | None
    l_pred: float
    l_roll: float
    certificate: Certificate
    table: pd.DataFrame

    @property
    def law(self) -> Law | None:
        return None if self.transition is None else self.transition.law()

    def __repr__(self) -> str:
        return f"<C_dyn = {self.value:.4g} ({self.certificate}): {self.gamma}>"


def dynamics_complexity(
    encoder: Encoder | tuple[Encoder, Encoder],
    data: Trajectories,
    library: Library,
    delta: float,
    *,
    delta_roll: float | None = None,
    horizon: int = 10,
    lambda_c: float = 2e-2,
    tau: float = 1e-6,
    width: int = 48,
    dynamics: Dynamics = "continuous",
    backend: Any = "subset",
    seed: int = 0,
) -> DynamicsComplexity:
    """The paper's C_dyn: the least Γ = Ω + λ_c R_corr of an adequate law plus correction.

    Adequate means a one-step risk L_pred = E|H(z) - z̄|² of at most `delta`, from the context
    encoder's z to the target encoder's next z̄, by forward Euler or as a map; and, with
    `delta_roll`, a mean squared error along free rollouts of at most that. Corrections are linear
    in `width` fixed random features tanh(a·z + b), so that for each structure the least R_corr is
    a convex problem and solved. Structures are those on the front of `backend`, and none at all.

    **The infimum is nearly degenerate.** With a correction that can express the dynamics, having no
    law at all costs only λ_c E|ż|²: 0.02 for the paper's pendulum and weight, against Ω = 3 for its
    law. C_dyn then says nothing about the coordinates; `table` does: the energy each structure
    leaves to its correction, and from which λ_c on it would win. :func:`induced_complexity` is the
    variant without a correction.

    Parameters
    ----------
    encoder : encoder, or a pair of them
        Context and target encoder; one serves as both. None takes the observations themselves.

    Examples
    --------
    No law at all is cheapest, and the two terms of a rotation leave nothing to the correction:

    >>> t = np.arange(0, 3, 0.01)
    >>> data = Trajectories(np.stack([np.cos(2 * t), np.sin(2 * t)], axis=1), t)
    >>> library = Library.from_terms(["a", "b"], inputs=["a", "b"])
    >>> found = dynamics_complexity(None, data, library, delta=1e-6)
    >>> found.gamma.omega, found.value < 0.1
    (0.0, True)
    >>> float(found.table["omega"][found.table["r_corr"] == 0].min())
    2.0
    """
    if not delta > 0 or (delta_roll is not None and not delta_roll > 0):
        raise ConfigError("delta and delta_roll must be positive.")
    if not isinstance(library, Library):
        raise ConfigError("C_dyn with a correction is searched in a library, not in a grammar.")
    if data.u is not None:
        raise DataError("C_dyn with a correction is for data without actions.")
    context, target = encoder if isinstance(encoder, tuple) else (encoder, encoder)
    pair = _Pair(
        encode(context, data, library.inputs), encode(target, data, library.inputs), dynamics
    )
    fit = _Fit(pair, library, tau, width, seed)
    tried = []
    for support in _structures(pair, library, backend, seed):
        found = fit.least(support, delta)
        omega = float((library.weights[:, None] * support).sum())
        energy = math.inf if found is None else found.energy
        tried.append((OperatorComplexity(omega, energy, lambda_c), support, found))
    nothing = tried[0][0].r_corr  # no law at all comes first
    tried.sort(key=lambda one: one[0].value)
    rows = [(g.omega, g.r_corr, g.value, fit.text(s)) for g, s, _ in tried]
    table = pd.DataFrame(rows, columns=["omega", "r_corr", "gamma", "terms"])
    spared = (nothing - table["r_corr"]).where(table["r_corr"] < nothing)
    table["break_even"] = table["omega"] / spared
    best: tuple[OperatorComplexity, _Found] | None = None
    for gamma, support, found in tried:
        if found is None or (best is not None and gamma.value >= best[0].value):
            break
        if delta_roll is not None:
            found = fit.least_rolling(support, found, delta_roll, horizon)
            if found is None:
                continue
            gamma = OperatorComplexity(gamma.omega, found.energy, lambda_c)
        if best is None or gamma.value < best[0].value:
            best = (gamma, found)
    if best is None:
        return DynamicsComplexity(math.inf, None, None, math.nan, math.nan, "upper bound", table)
    gamma, found = best
    certificate: Certificate = (
        "exact" if gamma.value <= float(library.weights.min()) else "upper bound"
    )
    transition = fit.transition(found)
    roll = math.nan if delta_roll is None else pair.rollout(transition, horizon)
    return DynamicsComplexity(gamma.value, gamma, transition, found.risk, roll, certificate, table)


class _Pair:
    """Latents of both encoders as rows: states, what follows, and the weight of an error."""

    def __init__(self, context: Trajectories, target: Trajectories, dynamics: Dynamics) -> None:
        self.context, self.target, self.dynamics = context, target, dynamics
        z, _, dt = step_rows(context)
        goal = np.concatenate([x[1:] for x in target.x])
        every = -(-len(z) // MAX_ROWS)
        self.z, goal, dt = z[::every], goal[::every], dt[::every, None]
        moves = dynamics == "continuous"
        self.slopes = (goal - self.z) / dt if moves else goal
        self.weight = dt[:, 0] ** 2 if moves else np.ones(len(dt))

    def rollout(self, transition: Transition, horizon: int) -> float:
        """L_roll: mean over steps of the squared distance, from starts spread over the data."""
        starts, steps, goals = [], [], []
        for z, ahead, step in zip(self.context.x, self.target.x, self.context.steps, strict=True):
            for i in range(0, len(step) - horizon + 1, horizon):
                starts.append(z[i])
                steps.append(step[i : i + horizon])
                goals.append(ahead[i + 1 : i + horizon + 1])
        if not starts:
            raise DataError(f"No trajectory has {horizon} steps; lower horizon.", "horizon")
        every = -(-len(starts) // MAX_STRETCHES)
        z0, dt, goal = (torch.as_tensor(np.stack(a[::every])) for a in (starts, steps, goals))
        with torch.no_grad():
            path = transition.rollout(z0, dt)[:, 1:]
        value = float((path - goal).square().sum(-1).mean())
        return value if math.isfinite(value) else math.inf


def _structures(pair: _Pair, library: Library, backend: Any, seed: int) -> list[np.ndarray]:
    """Supports (terms, d), the cheapest first; none at all comes before everything."""
    solver = make_backend(backend)
    d = pair.slopes.shape[1]
    outputs = tuple(library.inputs[:d])
    allowed = library.mask(outputs)
    columns: list[list[np.ndarray]] = []
    for j in range(d):
        own = library.with_mask(allowed[:, [j]])
        problem = Problem(
            pair.z, pair.slopes[:, [j]], library.inputs, [outputs[j]], library=own, seed=seed,
            weights=pair.weight / pair.weight.mean(), dynamics=pair.dynamics,
        )  # fmt: skip
        laws = [c.law for c in problem.solve(solver)]
        found = {tuple(own.coefficients(law)[:, 0] != 0) for law in laws if own.covers(law)}
        columns.append([np.array(s) for s in found | {(False,) * len(library)}])
    supports = [np.stack(one, axis=1) for one in product(*columns)]
    supports.sort(key=lambda s: float((library.weights[:, None] * s).sum()))
    return supports[:MAX_STRUCTURES]


@dataclass(frozen=True)
class _Found:
    alpha: np.ndarray  # (terms, d)
    phi: np.ndarray  # (width, d)
    risk: float
    energy: float


class _Fit:
    """The least correction that makes a structure adequate: coefficients and φ together."""

    def __init__(self, pair: _Pair, library: Library, tau: float, width: int, seed: int) -> None:
        self.pair, self.library = pair, library
        d = pair.z.shape[1]
        rng = np.random.default_rng(seed)
        mean, spread = pair.z.mean(0), np.maximum(pair.z.std(0), 1e-12)
        self.slope = rng.normal(size=(d, width)) / spread[:, None]
        self.shift = rng.uniform(-2, 2, width) - mean @ self.slope
        self.theta = library.numpy()(pair.z)
        self.features = np.tanh(pair.z @ self.slope + self.shift)
        self.price = self.features.T @ self.features / len(pair.z) + tau * np.eye(width)
        columns = np.concatenate([self.theta, self.features], axis=1)
        weighted = columns.T * (pair.weight / len(pair.z))
        self.gram, self.right = weighted @ columns, weighted @ pair.slopes

    def least_rolling(
        self, support: np.ndarray, found: _Found, delta_roll: float, horizon: int
    ) -> _Found | None:
        """Where rollouts ask for more than single steps, the one-step tolerance is tightened until
        they are content: an upper bound of the least energy."""
        tighter: _Found | None = found
        for _ in range(12):
            if tighter is None:
                return None
            if self.pair.rollout(self.transition(tighter), horizon) <= delta_roll:
                return tighter
            tighter = self.least(support, tighter.risk / 2)
        return None

    def least(self, support: np.ndarray, delta: float) -> _Found | None:
        """None where no correction of the class is enough."""
        alone = self._at(support, None)
        if alone.risk <= delta:
            return alone
        low, high = -12.0, 14.0  # log10 of the multiplier of the constraint
        if self._at(support, 10.0**high).risk > delta:
            return None
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (middle, high) if self._at(support, 10.0**middle).risk > delta else (
                low, middle,
            )  # fmt: skip
        return self._at(support, 10.0**high)

    def _at(self, support: np.ndarray, multiplier: float | None) -> _Found:
        """Least R_corr + multiplier · L_pred; without a multiplier, no correction at all."""
        terms, d = support.shape
        alpha, phi = np.zeros((terms, d)), np.zeros((len(self.price), d))
        risk = energy = 0.0
        for j in range(d):
            used = np.flatnonzero(support[:, j])
            if multiplier is not None:
                used = np.concatenate([used, np.arange(terms, len(self.gram))])
            if len(used):
                normal, right = self.gram[np.ix_(used, used)], self.right[used, j]
                if multiplier is not None:
                    price = np.zeros((len(used), len(used)))
                    price[-len(phi) :, -len(phi) :] = self.price / multiplier
                    normal = normal + price
                scale = np.sqrt(np.maximum(normal.diagonal(), 1e-300))
                x = np.linalg.lstsq(normal / np.outer(scale, scale), right / scale, rcond=1e-14)[0]
                both = np.zeros(len(self.gram))
                both[used] = x / scale
                alpha[:, j], phi[:, j] = both[:terms], both[terms:]
            left = self.pair.slopes[:, j] - self.theta @ alpha[:, j] - self.features @ phi[:, j]
            risk += float((self.pair.weight * left**2).mean())
            energy += float(phi[:, j] @ self.price @ phi[:, j])
        return _Found(alpha, phi, risk, energy)

    def transition(self, found: _Found) -> Transition:
        d = found.alpha.shape[1]
        law = self.library.law(found.alpha, self.library.inputs[:d], self.pair.dynamics)
        correction = None
        if found.phi.any():
            width = len(found.phi)
            hidden = nn.Linear(d, width, dtype=torch.float64)
            out = nn.Linear(width, d, bias=False, dtype=torch.float64)
            for target, value in (
                (hidden.weight, self.slope.T), (hidden.bias, self.shift), (out.weight, found.phi.T),
            ):  # fmt: skip
                target.data.copy_(torch.as_tensor(value))
            correction = nn.Sequential(hidden, nn.Tanh(), out).requires_grad_(False)
        moved = Transition.of(law, "euler", correction)
        return moved.double()

    def text(self, support: np.ndarray) -> str:
        names = self.library.names
        parts = [", ".join(names[k] for k in np.flatnonzero(column)) for column in support.T]
        return "; ".join(parts) if support.any() else "no law"
