"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sjepa.errors import LawError
from sjepa.metrics.shortcuts import CollapseReport
from sjepa.models import Transition
from sjepa.symbolic import Candidate, Front, Law
from sjepa.symbolic.verdict import Verdict
from sjepa.training.joint.batched_encoders import join_velocities
from sjepa.training.joint.structures import Structure


@dataclass(frozen=True, eq=False)
class JointCandidate:
    """One candidate with the encoder whose coordinates it moves.

    `candidate.loss` is the validation risk of the integral form: the share of the variance of
    changes that the law does not explain.
    """

    candidate: Candidate
    structure: Structure
    encoder: nn.Module
    check_report: CollapseReport
    linear: bool = True

    @property
    def law(self) -> Law:
        return self.candidate.law


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The front with its encoders, and the simplest adequate candidate, refined.

    Attributes
    ----------
    front : Front
        Admissible candidates; ``found[i]`` holds the encoder of ``front[i]``.
    best : JointCandidate
        The chosen candidate after refinement.
    noise_floor : float
        The noise floor in the coordinates of the chosen law.
    verdict : Verdict
        Whether the chosen law is adequate, its alternatives and the reasons.
    training_residual : float
        Unexplained variance of the increments on training data.
    rollout, training_rollout : float
        Rollout loss of the chosen law on validation and on training data, in units of the
        variance of z.
    rivals : tuple of JointCandidate
        Other laws within the odds, each with its encoder.
    notes : tuple of str
        Reasons of a verdict that is no warning, and figures.
    """

    front: Front
    found: tuple[JointCandidate, ...]
    best: JointCandidate
    order: int
    noise_floor: float
    verdict: Verdict
    training_residual: float
    rollout: float
    training_rollout: float
    rivals: tuple[JointCandidate, ...]
    notes: tuple[str, ...]

    @property
    def law(self) -> Law:
        return self.best.law

    @property
    def residual(self) -> float:
        """Unexplained variance of the increments (1 - R²) of the chosen law."""
        return self.best.candidate.loss

    @property
    def ratio(self) -> float:
        """The residual in units of the noise floor."""
        return self.residual / max(self.noise_floor, 1e-300)

    @property
    def figures(self) -> dict[str, float]:
        """How adequate the chosen law is, on data it was not fitted to and on those it was."""
        return {
            "noise_floor": self.noise_floor,
            "residual": self.residual,
            "residual_training": self.training_residual,
            "ratio": self.ratio,
            "rollout_held_out": self.rollout,
            "rollout_training": self.training_rollout,
            "adequate": float(self.verdict.adequate is True),
            **self.verdict.figures,
        }

    @property
    def warnings(self) -> list[str]:
        """The reasons of a verdict of "not adequate"."""
        return list(self.verdict.reasons) if self.verdict.adequate is False else []

    @property
    def encoder(self) -> nn.Module:
        """Observations (..., *obs) to coordinates (..., d)."""
        return self.best.encoder

    def transition(self, integrator: str = "rk4") -> Transition:
        """The chosen law as a transition in double precision."""
        return Transition.of(self.law, integrator)

    @torch.no_grad()
    def encode(self, x: Tensor, times: Tensor | None = None) -> Tensor:
        """States of trajectories (B, T, *obs); second order also needs their times (B, T)."""
        z = self.encoder(x)
        if self.order == 1:
            return z
        if times is None:
            raise LawError("A second-order state contains velocities: give the times.")
        return join_velocities(z, times.to(z.dtype))
