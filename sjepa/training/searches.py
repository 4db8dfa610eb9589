"""The settings of each way to a law: joint, alternating, or for given coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from torch import nn

from sjepa.backend.registry import make_backend
from sjepa.data.derivative_settings import DerivativeSettings, derivatives_of
from sjepa.errors import ConfigError, did_you_mean
from sjepa.models import INTEGRATORS, make_encoder
from sjepa.models.devices import resolve_device
from sjepa.settings import Settings, settings_of
from sjepa.symbolic.law import Dynamics
from sjepa.training.alternating import EXPERIMENT_1, Alternation, Condition, TrainingConfig
from sjepa.training.joint import SearchBudget


# Algorithm 1 as published: the backend only initializes the coefficients, by one thresholded
# ridge regression; the target encoder moves once a cycle; coefficients stay as they were trained.
AS_PUBLISHED: Mapping[str, Any] = {
    "emit": "library", "relaxed": True, "propose_every_cycle": False, "ema": "cycle",
    "refit": False,
}  # fmt: skip
# Fields of Alternating that only mean something where coordinates are trained, too.
_OF_COORDINATES = (
    "as_published", "network", "stochastic", "cycles", "propose_every_cycle", "ema", "refit",
    "warm_epochs", "space_epochs",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class Joint(Settings, SearchBudget):
    """Structures and coordinates are searched together.

    All fields of :class:`sjepa.training.joint.SearchBudget`, and these.

    Parameters
    ----------
    delta_roll : float, optional
        Largest adequate rollout error, as a share of the variance of the coordinates.
    select : "mdl", optional
        Take the law with the shortest code (minimum description length) instead of the simplest
        adequate one.
    integrator : str
        How the fitted model takes steps; it does not change the search.

    Examples
    --------
    >>> from sjepa import SJEPA, Joint
    >>> SJEPA(search=Joint(restarts=2, select="mdl")).search
    Joint(restarts=2, select='mdl')
    """

    shorthand: ClassVar[str] = "joint"
    delta_roll: float | None = None
    select: Literal["mdl"] | None = None
    integrator: str = "rk4"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice(self)

    def check_angle(self, compared: bool) -> None:
        """Refuse what a circular coordinate has no use for; comparing dimensions sets `grow`."""
        read = {"effort", "select", "integrator", *(["grow"] if compared else [])}
        try:
            self.refuse([n for n in self.changed() if n not in read], "for a circular coordinate")
        except ConfigError as error:
            error.argument = "search"
            raise


@dataclass(frozen=True, kw_only=True, repr=False)
class Alternating(Settings, TrainingConfig):
    """Coordinates and law in turns: the paper's Algorithm 1.

    All fields of :class:`sjepa.training.alternating.TrainingConfig`, and these. With a given
    encoder nothing alternates: the paper's L_frozen is minimized over the law, for coordinates of
    a scale of about 1.

    Parameters
    ----------
    cycles, warm_epochs, dynamics_epochs, space_epochs : int
        Cycles, and epochs of the warm start and of the two phases of a cycle.
    lambda_s, lambda_r : float
        Weights of Ω and L_roll in both phases.
    network : str, optional
        The encoder, as :func:`sjepa.models.make_encoder` knows it; by default "mlp", or "cnn" for
        frames.
    stochastic : bool
        Whether the encoder gives means and variances, for the variational bottleneck.
    emit, relaxed, propose_every_cycle, seconds, ema, refit : optional
        See :class:`sjepa.training.alternating.Alternation`.
    as_published : bool
        Algorithm 1 to the letter, which decides the five before; needs ``integrator="euler"``.
    integrator : str
    dynamics : "continuous" or "discrete"
        Whether the law gives velocities or the next coordinates, for equal steps.
    device : "auto", "cpu", "cuda" or "mps"

    Examples
    --------
    >>> from sjepa import SJEPA, Alternating
    >>> SJEPA(search=Alternating(cycles=2, lambda_s=1e-3)).search
    Alternating(cycles=2, lambda_s=0.001)
    """

    shorthand: ClassVar[str] = "alternating"
    cycles: int = 4
    warm_epochs: int = EXPERIMENT_1["warm_start"].epochs
    dynamics_epochs: int = EXPERIMENT_1["dynamics_phase"].epochs
    space_epochs: int = EXPERIMENT_1["space_phase"].epochs
    lambda_s: float = EXPERIMENT_1["space_phase"].symbolic
    lambda_r: float = EXPERIMENT_1["space_phase"].rollout
    network: str | None = None
    stochastic: bool = False
    emit: Literal["library", "tree"] | None = None
    relaxed: bool | None = None
    propose_every_cycle: bool | None = None
    seconds: float | None = 20.0
    ema: Literal["step", "cycle"] = "step"
    refit: bool = True
    as_published: bool = False
    integrator: str = "rk4"
    dynamics: Dynamics = "continuous"
    device: Any = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("cycles", "warm_epochs", "dynamics_epochs", "space_epochs"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("lambda_s", "lambda_r"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ConfigError(f"{name} is a weight from 0, got {getattr(self, name)}.")
        if self.network is not None and not isinstance(self.network, str):
            raise ConfigError(f"network is the name of an encoder, got {self.network!r:.60}.")
        if not isinstance(self.ema, str) or self.ema not in ("step", "cycle"):
            raise ConfigError(f"ema is 'step' or 'cycle', got {self.ema!r}.")
        if not isinstance(self.dynamics, str) or self.dynamics not in ("continuous", "discrete"):
            raise ConfigError(f"dynamics is 'continuous' or 'discrete', got {self.dynamics!r:.60}.")
        resolve_device(self.device)
        _check_choice(self)
        if self.dynamics == "discrete" and self.integrator != "rk4":
            raise ConfigError("integrator is not read by dynamics='discrete': a map has no steps.")
        if self.as_published:
            if decided := [name for name in AS_PUBLISHED if name in self.changed()]:
                raise ConfigError(
                    f"{decided[0]} is decided by as_published=True; leave one of them out."
                )
            if self.dynamics == "continuous" and self.integrator != "euler":
                raise ConfigError("Algorithm 1 as published is forward Euler: integrator='euler'.")

    def check_fixed(self) -> None:
        """Refuse what fixed coordinates have no use for."""
        self.refuse(_OF_COORDINATES, "where the coordinates are given")

    def plan(
        self, backend: Any, correction: float | None = None, delta: float | None = None
    ) -> tuple[Condition, Alternation]:
        """Warm start and cycles.

        With `correction`, a weight λ_c, both phases train a hybrid; with `delta` they hold L_pred.
        """
        warm = EXPERIMENT_1["warm_start"].with_(epochs=self.warm_epochs)
        phases = [
            EXPERIMENT_1[name].with_(
                epochs=epochs, delta=delta, symbolic=self.lambda_s, rollout=self.lambda_r
            )
            for name, epochs in (
                ("dynamics_phase", self.dynamics_epochs), ("space_phase", self.space_epochs)
            )
        ]  # fmt: skip
        if correction is not None:
            phases = [phase.hybrid(correction) for phase in phases]
        turns = {name: getattr(self, name) for name in AS_PUBLISHED}
        if self.as_published:
            turns = dict(AS_PUBLISHED)
            if make_backend(backend) == make_backend("stlsq"):
                backend = Alternation().backend
        return warm, Alternation(
            cycles=self.cycles, dynamics=phases[0], space=phases[1], backend=backend,
            seconds=self.seconds, **turns,
        )  # fmt: skip

    def encoder(self, obs_shape: tuple[int, ...], latent_dim: int) -> nn.Module:
        """The encoder that is trained."""
        name = self.network or ("mlp" if len(obs_shape) == 1 else "cnn")
        return make_encoder(name, obs_shape, latent_dim, stochastic=self.stochastic)


@dataclass(frozen=True, kw_only=True, repr=False)
class LawOnly(Settings):
    """The law alone is searched, in the coordinates of a given encoder.

    Parameters
    ----------
    derivatives : "auto", "smooth", "weak", "zoh", "discrete", or one of their classes
        See :func:`sjepa.discover`.
    delta_roll : float, optional
        Largest adequate rollout error, as a share of the variance of the coordinates.
    select : "mdl", optional
        Take the law with the shortest code (minimum description length).
    integrator : str
        How the fitted model takes steps.

    Examples
    --------
    >>> from sjepa import SJEPA, LawOnly, Weak
    >>> t = np.arange(0, 10, 0.05)
    >>> x = [a * np.stack([np.cos(t), -np.sin(t)], axis=1) for a in (0.5, 1.0, 1.5)]
    >>> search = LawOnly(derivatives=Weak(window=31))
    >>> SJEPA(encoder="identity", search=search).fit(x, t).law_.round(3)
    z1' = z2
    z2' = -z1
    """

    shorthand: ClassVar[str] = "law"
    derivatives: str | DerivativeSettings = "auto"
    delta_roll: float | None = None
    select: Literal["mdl"] | None = None
    integrator: str = "rk4"

    def __post_init__(self) -> None:
        super().__post_init__()
        form = derivatives_of(self.derivatives)
        if form.lags:
            raise ConfigError("lags are for discover; SJEPA(history=...) looks for hidden states.")
        _check_choice(self)
        if form.form == "discrete" and self.integrator != "rk4":
            raise ConfigError("integrator is not read for a map, which has no steps.")


def _check_choice(given: Any) -> None:
    """What all ways check alike: integrator, delta_roll, select."""
    if given.integrator not in INTEGRATORS:
        hint = did_you_mean(str(given.integrator), INTEGRATORS)
        raise ConfigError(
            f"integrator is one of {', '.join(map(repr, INTEGRATORS))}, "
            f"got {given.integrator!r:.60}.{hint}"
        )
    if getattr(given, "select", None) not in (None, "mdl"):
        raise ConfigError(f"select is None or 'mdl', got {given.select!r:.60}.")
    roll = getattr(given, "delta_roll", None)
    number = isinstance(roll, int | float) and not isinstance(roll, bool)
    if roll is not None and not (number and 0 < roll < np.inf):
        raise ConfigError(f"delta_roll is a positive number, got {roll!r:.60}.")


SEARCHES: Mapping[str, Any] = {kind.shorthand: kind() for kind in (Joint, Alternating, LawOnly)}


def search_of(given: Any, encoder_given: bool = False) -> Any:
    """The settings that ``search=`` stands for; "joint" is "law" where the encoder is given."""
    if encoder_given and isinstance(given, str) and given == "joint":
        return SEARCHES["law"]
    return settings_of(given, "search", SEARCHES)
