"""The data of Bayesian inference: one row for each step of each trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sjepa.data import Trajectories
from sjepa.data.rows import step_rows
from sjepa.errors import lookup
from sjepa.models.integrators import INTEGRATORS, Field, join
from sjepa.settings import choice_of


@dataclass(frozen=True, eq=False)
class Transitions:
    """D_Z: where each step starts (z_C), where it ends (z_T), how long it takes, and actions.

    Tensors in double precision: ``z`` and ``target`` (n, d), ``dt`` (n, 1), ``u`` (n, s) or
    None.
    """

    z: Tensor
    target: Tensor
    dt: Tensor
    u: Tensor | None = None

    @classmethod
    def of(cls, trajectories: Trajectories) -> Transitions:
        """Every step of every trajectory; the action is the one at the start of the step."""

        starts, ends, steps = (
            torch.as_tensor(a, dtype=torch.float64) for a in step_rows(trajectories)
        )
        d = ends.shape[1]
        actions = None if trajectories.u is None else starts[:, d:]
        return cls(starts[:, :d], ends, steps[:, None], actions)

    def __len__(self) -> int:
        return len(self.z)

    @property
    def inputs(self) -> Tensor:
        """s = (z_C, ε), what laws and corrections take: (n, d + s)."""
        return join(self.z, self.u)


@dataclass(frozen=True)
class StepModel:
    """How a law moves a state for one step, and how the noise of a step depends on its length.

    Parameters
    ----------
    kind : "continuous" or "discrete"
        F is a vector field that the integrator follows for Δt, or the next state itself.
    integrator : str
        "euler" gives the likelihood that the paper writes down.
    noise : "step", "time" or "observation"
        Σ_Δt = Σ for every step, or Σ_Δt = Δt Σ as in a diffusion; or steps without noise, and Σ
        is that of what is seen of each state.
    """

    dynamics: Literal["continuous", "discrete"] = "continuous"
    integrator: str = "rk4"
    noise: Literal["step", "time", "observation"] = "step"

    def __post_init__(self) -> None:
        lookup(INTEGRATORS, self.integrator, "integrator")
        choice_of(self.noise, "noise", ("step", "time", "observation"))

    def mean(self, field: Field, z: Tensor, dt: Tensor | float, u: Tensor | None) -> Tensor:
        """Where the law alone leads from z."""
        if self.dynamics == "discrete":
            return field(join(z, u))
        return INTEGRATORS[self.integrator](field, z, dt, u)

    def gain(self, dt: Tensor | float) -> Tensor | float:
        """What multiplies the correction g in one step: Δt for a field, 1 for a map."""
        return dt if self.dynamics == "continuous" else 1.0

    def spread(self, dt: Tensor | float) -> Tensor | float:
        """What multiplies a standard deviation of the noise in one step."""
        if self.noise != "time":
            return 1.0
        return dt.sqrt() if isinstance(dt, Tensor) else dt**0.5
