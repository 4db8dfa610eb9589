"""What all phases of a run have in common. The defaults are the paper's appendix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor

from sjepa.errors import ConfigError
from sjepa.training.losses import DISCREPANCIES


PAPER_REPRESENTATION: Mapping[str, float] = {
    "invariance": 2.0,
    "variance": 3.0,
    "covariance": 0.25,
    "mean": 0.01,
}


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Optimization, validation and thresholds.

    Parameters
    ----------
    horizon : int
        Steps of the rollout in L_roll.
    batching : {"windows", "trajectories"}
        What a batch is. ``"windows"``: `batch` windows of horizon + 1 observations, drawn without
        replacement over an epoch, as in the paper. ``"trajectories"``: whole trajectories with
        rollouts from every `stride`-th time in parallel, so that each observation is encoded once
        per encoder; the same loss in expectation, and an epoch visits every observation once.
    batch : int
        Windows in a batch; with ``"trajectories"`` as many trajectories as give about as many.
    stride : int, optional
        Distance of the starts; the horizon by default, so that rollouts tile a trajectory. The
        first start is redrawn for every batch.
    passes : int
        Passes over the trajectories that count as one epoch. With as many as the stride an epoch
        has as many updates, and about as many windows, as one over single windows.
    discrepancy : {"squared", "cosine"}
        Distance between predicted and encoded states.
    scale_free : bool
        Whether squared distances are divided by the variance of the latents, so that shrinking
        them gains nothing.
    rollout_weights : tuple of float, optional
        The w_h of L_roll, one for each step; 1 / horizon by default.
    teacher_forcing : float
        Share of L_roll, from 0 to 1, that is taken from single steps along the encoded path
        instead of from the rollout.
    augmentation : float or callable
        Standard deviation of the noise that makes a second view of observations, or a function
        of them and a generator, such as :class:`sjepa.data.FrameAugmentation`.
    latent_noise : float
        Standard deviation of the noise on context latents while training.
    representation : mapping from name to weight
        Terms of R_IB, names in :data:`sjepa.training.losses.REPRESENTATION_TERMS`.
    validation_windows : int
        Most validation windows, evenly spread (sixteen batches of 256).
    first_validation : int, optional
        An epoch after which validation is due besides every `validate_every`-th.
    validates : "context" or "target"
        Which encoder gives the states that validation predicts from.
    patience : int, optional
        End a phase when this many validations in a row have not changed the chosen checkpoint.
    """

    horizon: int = 10
    batching: Literal["windows", "trajectories"] = "windows"
    batch: int = 256
    stride: int | None = None
    passes: int = 1
    encoder_rate: float = 5e-4
    neural_rate: float = 8e-4
    symbolic_rate: float = 2e-3
    weight_decay: float = 1e-5
    clip: float = 3.0
    discrepancy: Literal["squared", "cosine"] = "squared"
    scale_free: bool = False
    rollout_weights: tuple[float, ...] | None = None
    teacher_forcing: float = 0.0
    augmentation: float | Callable[..., Tensor] = 0.012
    latent_noise: float = 0.0
    representation: Mapping[str, float] = field(default_factory=lambda: dict(PAPER_REPRESENTATION))
    correction_tau: float = 1e-6
    validate_every: int = 5
    validation_windows: int = 16 * 256
    first_validation: int | None = None
    validates: Literal["context", "target"] = "context"
    patience: int | None = None
    tolerance: float = 0.02
    min_std: float = 0.20
    covariance_trace: float = 0.10
    prune: float = 0.0175
    report: float = 0.05

    def __post_init__(self) -> None:
        if not isinstance(self.batching, str) or self.batching not in ("windows", "trajectories"):
            raise ConfigError(f"batching is 'windows' or 'trajectories', got {self.batching!r}.")
        for name in ("horizon", "batch", "passes", "validate_every", "validation_windows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}.")

        if not isinstance(self.validates, str) or self.validates not in ("context", "target"):
            raise ConfigError(f"validates is 'context' or 'target', got {self.validates!r}.")
        if self.discrepancy not in DISCREPANCIES:
            known = ", ".join(DISCREPANCIES)
            raise ConfigError(f"discrepancy is one of {known}, got {self.discrepancy!r}.")
        if self.scale_free and self.discrepancy != "squared":
            raise ConfigError("scale_free applies to squared distances; cosine has no scale.")
        weights = self.rollout_weights
        if weights is not None and len(weights) != self.horizon:
            raise ConfigError(
                f"rollout_weights needs one weight for each of the {self.horizon} steps, "
                f"got {len(weights)}."
            )
        if not 0 <= self.teacher_forcing <= 1:
            raise ConfigError(f"teacher_forcing is a share, got {self.teacher_forcing}.")
        for name in ("augmentation", "latent_noise"):
            value = getattr(self, name)
            if not callable(value) and value < 0:
                raise ConfigError(f"{name} must not be negative, got {value}.")

    def with_(self, **changes: Any) -> TrainingConfig:
        """A copy with some fields replaced."""
        return replace(self, **changes)
