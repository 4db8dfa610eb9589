"""One structure after seeing the data: its evidence, and draws from its posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from sjepa.bayes.joint import JointDensity
from sjepa.bayes.laplace import PosteriorMode, find_mode
from sjepa.bayes.parametric import ParametricLaw
from sjepa.symbolic import Law


if TYPE_CHECKING:
    from sjepa.bayes.function_draws import Paths


@dataclass(frozen=True, eq=False)
class Group:
    """Draws that share a structure: coefficients (n, K), Cholesky factors (n, d, d), functions."""

    structure: ParametricLaw
    coefficients: Tensor
    root: Tensor
    paths: Paths | None = None

    def __len__(self) -> int:
        return len(self.coefficients)


class StructureFit(Protocol):
    """What the posterior needs of each structure."""

    @property
    def structure(self) -> ParametricLaw: ...

    @property
    def method(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def log_evidence(self) -> float: ...

    @property
    def log_density(self) -> float:
        """log p(D, α̂, Σ̂ | E) at the mode, with α in its own units."""
        ...

    @property
    def law(self) -> Law: ...

    def draw(self, n: int, generator: torch.Generator) -> list[Group]: ...


@dataclass(frozen=True, eq=False)
class SymbolicFit:
    """A structure without a correction."""

    joint: JointDensity
    mode: PosteriorMode
    method: str = "laplace"

    @property
    def structure(self) -> ParametricLaw:
        return self.joint.structure

    @property
    def status(self) -> str:
        return self.mode.status()

    @property
    def log_evidence(self) -> float:
        return self.mode.log_evidence

    @property
    def log_density(self) -> float:
        return self.mode.log_joint - float(self.joint.scales.log().sum())

    @property
    def law(self) -> Law:
        return self.structure.law_at(self.joint.split(self.mode.theta)[0])

    def draw(self, n: int, generator: torch.Generator) -> list[Group]:
        return [Group(self.structure, *self.joint.split(self.mode.sample(n, generator)))]


@dataclass(frozen=True, eq=False)
class FailedFit:
    """A structure for which no mode was found; it gets no weight and is listed with the reason."""

    structure: ParametricLaw
    status: str
    method: str
    log_evidence: float = -math.inf
    log_density: float = -math.inf

    @property
    def law(self) -> Law:
        return self.structure.law

    def draw(self, n: int, generator: torch.Generator) -> list[Group]:
        raise AssertionError("a structure without weight is never drawn")


def fit(joint: JointDensity) -> StructureFit:
    """Evidence by Laplace's approximation."""
    mode = find_mode(joint, joint.start())
    if mode is None:
        return FailedFit(joint.structure, "no finite posterior mode", "laplace")
    return SymbolicFit(joint, mode)
