"""Conditions: which parts are trained and which terms of the objective are active.

The objective is that of Eq. (lagrangian) in the paper,

    L_pred + λ_r L_roll + λ_IB R_IB + λ_s Ω_train + λ_c R_corr,

and a condition is one row of its table of active terms: a weight of 0 is a dash there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from sjepa.errors import ConfigError


Component = Literal["encoder", "neural", "symbolic", "correction"]
COMPONENTS: tuple[Component, ...] = ("encoder", "neural", "symbolic", "correction")

ROLLOUT = 0.35
SYMBOLIC = 2.5e-4


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One training phase.

    Parameters
    ----------
    name : str
    uses : tuple of parts
        What the transition is made of: ``("neural",)``, ``("symbolic",)`` or
        ``("symbolic", "correction")``.
    trains : tuple of parts
        What the optimizer moves. Everything else stays bit for bit as it is, except the target
        encoder, which follows a trained encoder.
    prediction, rollout, representation, symbolic, correction : float
        Weights of L_pred, L_roll, R_IB, Ω_train and R_corr; 0 switches a term off.
    epochs : int
        Most passes over the data.
    encoder_scale : float, default=1
        Factor on the encoder's learning rate.
    targets : {"ema", "context", "attached"}
        Which encoder the prediction targets come from: the target encoder, the context encoder
        without gradient, or with it. The paper stops gradients; its proposition on collapse does
        not need that, and only without it does training reach the collapse from a spread-out start.
    target_follows : bool, default=True
        Whether the target encoder follows every update of a trained encoder.
    allow_collapse : bool, default=False
        Whether a collapsed checkpoint may be selected.
    delta : float, optional
        Largest adequate L_pred. Then that is a constraint and no term: a multiplier, raised after
        every epoch in which it is violated and lowered where there is room, takes the place of its
        weight (augmented Lagrangian).
    grammar : str, optional
        Name of the library the law is restricted to, where an experiment has several.
    """

    name: str
    uses: tuple[Component, ...]
    trains: tuple[Component, ...]
    prediction: float = 1.0
    rollout: float = 0.0
    representation: float = 0.0
    symbolic: float = 0.0
    correction: float = 0.0
    epochs: int = 100
    encoder_scale: float = 1.0
    targets: Literal["ema", "context", "attached"] = "ema"
    target_follows: bool = True
    allow_collapse: bool = False
    delta: float | None = None
    grammar: str | None = None

    def __post_init__(self) -> None:
        if unknown := [p for p in (*self.uses, *self.trains) if p not in COMPONENTS]:
            raise ConfigError(f"No part is called {unknown[0]!r}. Known: {', '.join(COMPONENTS)}.")
        if self.delta is not None and not self.delta > 0:
            raise ConfigError(f"{self.name}: delta must be positive, got {self.delta}.")
        if self.epochs < 0:
            raise ConfigError(f"epochs must not be negative, got {self.epochs}.")
        for term in ("prediction", "rollout", "representation", "symbolic", "correction"):
            if getattr(self, term) < 0:
                raise ConfigError(f"The weight of {term!r} must not be negative.")
        if self.representation and "encoder" not in self.trains:
            raise ConfigError(f"{self.name}: a representation term needs a trained encoder.")
        if self.symbolic and "symbolic" not in self.uses:
            raise ConfigError(f"{self.name}: a complexity term needs a symbolic part.")
        if self.correction and "correction" not in self.uses:
            raise ConfigError(f"{self.name}: a correction penalty needs a correction.")

    @property
    def updates_encoder(self) -> bool:
        return "encoder" in self.trains

    def hybrid(self, weight: float) -> Condition:
        """The same phase with a correction beside the law, trained with it; λ_c is `weight`."""
        return self.with_(
            uses=(*self.uses, "correction"), trains=(*self.trains, "correction"), correction=weight
        )

    def with_(self, **changes: Any) -> Condition:
        """A copy with some fields replaced."""
        return replace(self, **changes)


# The phases of Algorithm 1 with the weights of Experiment 1.
WARM_START = Condition(
    name="warm_start", uses=("neural",), trains=("encoder", "neural"),
    rollout=ROLLOUT, representation=1.0, epochs=130,
)  # fmt: skip
DYNAMICS_PHASE = Condition(
    name="dynamics_phase", uses=("symbolic",), trains=("symbolic",),
    rollout=ROLLOUT, symbolic=SYMBOLIC, epochs=65,
)  # fmt: skip
SPACE_PHASE = Condition(
    name="space_phase", uses=("symbolic",), trains=("encoder", "symbolic"),
    rollout=ROLLOUT, representation=1.0, symbolic=SYMBOLIC, epochs=85,
    encoder_scale=0.35,
)  # fmt: skip
# A permanently frozen encoder: its own embeddings are the targets, and no EMA is needed.
FROZEN = Condition(
    name="frozen", uses=("symbolic", "correction"), trains=("symbolic", "correction"),
    rollout=ROLLOUT, symbolic=SYMBOLIC, correction=2e-2, epochs=65, targets="context",
)  # fmt: skip
