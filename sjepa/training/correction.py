"""A neural correction beside a law, or a neural predictor alone, on fixed coordinates.

The paper's condition for frozen encoders: one-step and rollout prediction, and a penalty on the
energy of the correction, with the encoder's own coordinates as targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.data import Trajectories, TrajectoryBatch, windows
from sjepa.data.derivatives import differentiate
from sjepa.data.rows import inputs_of
from sjepa.errors import ConfigError
from sjepa.metrics import correction_ratio, diagnose_law
from sjepa.models import Correction, NeuralField, Residual, Scaled, Transition
from sjepa.settings import Settings, settings_of
from sjepa.symbolic import Law
from sjepa.symbolic.law_methods import order_of
from sjepa.training.alternating.conditions import FROZEN
from sjepa.training.losses import correction_penalty, one_step_loss, rollout_loss


_OF_A_FIT = ("joint", "energy", "rollout", "horizon", "updates", "batch", "rate")


@dataclass(frozen=True, kw_only=True, repr=False)
class Neural(Settings):
    """A correction, which learns the residual of the law: how it looks and is trained.

    Parameters
    ----------
    alone : bool
        No law at all: the neural predictor that a law is compared with.
    joint : bool or "coordinates"
        Whether the law's coefficients move too. By default the law stays as it was found. With
        "coordinates", after the joint search, the encoder moves as well, and the correction is
        weighed by lambda_c.
    module : nn.Module, optional
        Takes the place of the built-in network: states joined with actions (..., d + m) to
        (..., d), or with ``order=2`` (..., 2 d + m) to the accelerations (..., d). A copy of it is
        trained.
    width, bound : int, float, optional
        Of the network. The bound is in units of the typical size of what is predicted, velocities
        or changes in a step; by default 1 beside a law and 1.5 times the largest alone.
    lambda_c : float
        Weight of R_corr where coordinates are learnt with it, in the paper's units: R_corr is the
        mean of |c|² / d over the states that rollouts visit, for the raw correction c of the vector
        field (no factor Δt), or of the next state of a map; L_pred is the mean of |ẑ - z|² / d. So
        the weight has the unit of Δt² beside a vector field and none beside a map.
    energy, rollout : float
        Weights of R_corr and L_roll on fixed coordinates, where both are in units of the typical
        change in a step: a weight λ leaves 1 / (1 + λ) of the correction, whatever Δt is (with
        ``order=2``, where half of what is predicted are positions, 1 / (1 + 2 λ)).
    horizon : int
        Steps of the rollouts; shorter where trajectories are.
    updates, batch, rate
        Steps of AdamW, windows in each, and the learning rate they start with.

    Examples
    --------
    >>> from sjepa import SJEPA, Neural
    >>> SJEPA(encoder="identity", correction=Neural(width=16)).correction
    Neural(width=16)
    """

    shorthand: ClassVar[str] = "neural"
    alone: bool = False
    joint: bool | Literal["coordinates"] = False
    module: nn.Module | None = None
    width: int | None = None
    bound: float | None = None
    lambda_c: float = FROZEN.correction
    energy: float = FROZEN.correction
    rollout: float = FROZEN.rollout
    horizon: int = 5
    updates: int = 1500
    batch: int = 256
    rate: float = 3e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("horizon", "updates", "batch", "rate"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)!r:.60}.")
        if self.joint not in (False, True, "coordinates"):
            raise ConfigError(f"joint is True, False or 'coordinates', got {self.joint!r:.60}.")
        for name in ("lambda_c", "energy", "rollout"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ConfigError(f"{name} is a weight from 0, got {getattr(self, name)!r:.60}.")

    def network(self, latent_dim: int, actions: int, order: int = 1) -> nn.Module:
        """The network of a joint search, whose coordinates have unit scale; zero at first."""
        if self.module is not None:
            return deepcopy(self.module)
        state = order * latent_dim
        return Correction(state, actions, self.width, self.bound, True, latent_dim)

    def check_joint(self, where: str = "by search='alternating', whose phases train it") -> None:
        """Refuse what only a fit on fixed coordinates reads."""
        self.refuse(_OF_A_FIT, f"{where}; see lambda_c, width and bound")

    @classmethod
    def of(cls, given: Any) -> Neural | None:
        """Read the estimator's argument: None, a name, a module, or these settings."""
        if given is None:
            return None
        return cls(module=given) if isinstance(given, nn.Module) else correction_of(given)

    @classmethod
    def beside(cls, given: Any) -> Neural | None:
        """What is learnt together with a law; a network that stands alone is not."""
        settings = cls.of(given)
        return None if settings is None or settings.alone else settings


CORRECTIONS: Mapping[str, Neural] = {"neural": Neural(), "neural_only": Neural(alone=True)}


def correction_of(given: Any) -> Neural:
    return settings_of(given, "correction", CORRECTIONS)


def correction_figures(
    transition: Transition, encoded: Trajectories
) -> tuple[dict[str, float], list[str]]:
    """How much of a hybrid's prediction is its correction: ρ_corr over all states, and warnings."""
    if transition.symbolic is None or transition.correction is None:
        return {}, []
    moved = with_velocities(encoded) if transition.order == 2 else encoded
    rows = torch.as_tensor(np.concatenate(inputs_of(moved)))
    d = moved.obs_shape[0]
    with torch.no_grad():
        law, correction = transition.parts(rows[:, :d], rows[:, d:])
    ratio = correction_ratio(correction, law + correction)
    limit = float("inf")
    return {"rho_corr": ratio}, [f.sentence for f in diagnose_law(0.0, limit, 0.0, ratio)]


def learn_correction(
    encoded: Trajectories, law: Law, settings: Neural, integrator: str, seed: int
) -> tuple[Law, Transition]:
    """Train the estimator's correction on fixed coordinates; the law only moves if asked to."""
    transition = fit_correction(
        encoded, None if settings.alone else law, settings,
        dynamics=law.dynamics, integrator=integrator, order=order_of(law), seed=seed,
    )  # fmt: skip
    return (transition.law() or law) if settings.joint else law, transition


def fit_correction(
    trajectories: Trajectories,
    law: Law | None,
    settings: Neural | None = None,
    *,
    dynamics: Literal["continuous", "discrete"] = "continuous",
    integrator: str = "rk4",
    order: Literal[1, 2] = 1,
    seed: int = 0,
) -> Transition:
    """Train c (or a whole neural predictor, for ``law=None``) on trajectories of coordinates.

    With ``order=2`` coordinates are smoothed and get velocities, and c adds to the accelerations.
    A fifth of the trajectories is held out, and the weights that predict it best are kept; a
    correction that helps nowhere stays zero. Works in double precision.
    """
    settings = settings or Neural(alone=law is None)
    if order == 2:
        trajectories = with_velocities(trajectories)
    train, held_out = trajectories.split((0.8, 0.2), seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = deepcopy(settings.module) or _network(train, law, settings, dynamics, order)
        symbolic = None if law is None else law.torch("terms" if settings.joint else False)
        transition = Transition(
            symbolic, network, dynamics=dynamics, integrator=integrator, order=order
        ).double()
        shortest = int(min(train.lengths.max(), held_out.lengths.max())) - 1
        horizon = min(settings.horizon, shortest)
        _train(transition, _Windows.of(train, horizon), _Windows.of(held_out, horizon), settings)
    return transition.eval().requires_grad_(False)


def with_velocities(trajectories: Trajectories) -> Trajectories:
    """Smooth coordinates and their derivatives, without the ends where those are noisy."""
    found = differentiate(trajectories)
    smooth, kept = found.trajectories, [np.flatnonzero(valid) for valid in found.valid]
    inner = [slice(rows[0], rows[-1] + 1) if len(rows) > 1 else slice(None) for rows in kept]
    states = (np.concatenate(pair, axis=1) for pair in zip(smooth.x, found.x_dot, strict=True))
    return Trajectories(
        [x[own] for x, own in zip(states, inner, strict=True)],
        [t[own] for t, own in zip(smooth.t, inner, strict=True)],
        None if smooth.u is None else [u[own] for u, own in zip(smooth.u, inner, strict=True)],
        gaps="keep",
    )


def _changes(trajectories: Trajectories, dynamics: str) -> np.ndarray:
    """What is predicted: velocities of a field, changes in one step of a map."""
    steps = zip(trajectories.x, trajectories.t, strict=True)
    return np.concatenate(
        [
            np.diff(x, axis=0) / (np.diff(t)[:, None] if dynamics == "continuous" else 1.0)
            for x, t in steps
        ]
    )


def _network(
    trajectories: Trajectories,
    law: Law | None,
    settings: Neural,
    dynamics: str,
    order: int,
) -> nn.Module:
    rows = [
        x if trajectories.u is None else np.concatenate([x, trajectories.u[i]], axis=1)
        for i, x in enumerate(trajectories.x)
    ]
    inputs = torch.as_tensor(np.concatenate(rows), dtype=torch.float64)
    state = trajectories.obs_shape[0]
    d, u = state // order, inputs.shape[1] - state
    # Of a state (q, dq/dt) only the accelerations are predicted.
    changes = torch.as_tensor(_changes(trajectories, dynamics)[:, state - d :], dtype=torch.float64)
    size = changes.square().mean(0).sqrt().clamp(min=1e-12)
    spread = inputs.std(0).clamp(min=1e-12)
    net: nn.Module
    if law is not None:
        net = Correction(state, u, settings.width, settings.bound, True, d)
        return Scaled(net, inputs.mean(0), spread, size)
    largest = float((changes.abs() / size).max())
    bound = settings.bound or 1.5 * largest
    net = NeuralField(state, u, settings.width, bound, output_dim=d)
    scaled = Scaled(net, inputs.mean(0), spread, size)
    return Residual(scaled, d) if dynamics == "discrete" else scaled


@dataclass(frozen=True)
class _Windows:
    """All segments of some steps: states z (n, K + 1, d), dt (n, K), u (n, K, m) or None."""

    z: Tensor
    dt: Tensor
    u: Tensor | None

    @classmethod
    def of(cls, trajectories: Trajectories, horizon: int) -> _Windows:
        data = TrajectoryBatch.make(trajectories, dtype=torch.float64)
        cut = windows(data.x, data.dt, horizon, mask=data.mask, u=data.u)
        u = None if cut.u is None else cut.u[cut.valid][:, :-1]
        return cls(cut.z[cut.valid], cut.dt[cut.valid], u)

    def __getitem__(self, rows: Tensor) -> _Windows:
        u = None if self.u is None else self.u[rows]
        return _Windows(self.z[rows], self.dt[rows], u)


def _train(transition: Transition, train: _Windows, held_out: _Windows, settings: Neural) -> None:
    """AdamW with a cosine schedule; ends with the weights that were best on the held-out part."""
    # In units of what changes in a step: predicting no change at all has a loss of 1.
    scale = (train.z[:, 1:] - train.z[:, :-1]).square().mean((0, 1)).clamp(min=1e-24)
    parameters = [p for p in transition.parameters() if p.requires_grad]
    size = transition.correction.size if isinstance(transition.correction, Scaled) else 1.0

    def terms(part: _Windows) -> tuple[Tensor, Tensor]:
        path, corrections = transition.rollout_with_corrections(part.z[:, 0], part.dt, part.u)
        risk = one_step_loss(path[:, 1], part.z[:, 1], scale=scale)
        if part.dt.shape[1] > 1 and settings.rollout:
            far = rollout_loss(path[:, 1:], part.z[:, 1:], scale=scale)
            risk = risk + settings.rollout * far
        return risk, correction_penalty(corrections / size)

    def validate() -> float:
        with torch.no_grad():
            return float(terms(held_out)[0].nan_to_num(torch.inf))

    best, weights = validate(), {k: v.clone() for k, v in transition.state_dict().items()}
    optimizer = torch.optim.AdamW(parameters, lr=settings.rate, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.updates)
    every = max(1, settings.updates // 40)
    for update in range(settings.updates):
        rows = torch.randint(len(train.z), (min(settings.batch, len(train.z)),))
        risk, energy = terms(train[rows])
        loss = risk + (settings.energy * energy if transition.symbolic is not None else 0.0)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(parameters, 3.0)
        if bool(norm.isfinite()):
            optimizer.step()
        schedule.step()
        if (update + 1) % every == 0 and (found := validate()) < best:
            best, weights = found, {k: v.clone() for k, v in transition.state_dict().items()}
    transition.load_state_dict(weights)
