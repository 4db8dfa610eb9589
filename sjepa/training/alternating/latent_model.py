"""Everything a run learns, in one module: encoder, target, and the parts of the transition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError
from sjepa.models import EMATarget, SparseLaw, Transition, TreeLaw
from sjepa.symbolic.law import Dynamics
from sjepa.training.alternating.conditions import Component


SymbolicPart = SparseLaw | TreeLaw


class LatentModel(nn.Module):
    """A context encoder, its slowly moving target, and what moves the latent state.

    Parameters
    ----------
    encoder : nn.Module
        Observations (..., *obs) to latents (..., d).
    neural, symbolic, correction : nn.Module, optional
        The parts that conditions combine to a transition.
    integrator : str
        How a vector field is followed for one step.
    dynamics : "continuous" or "discrete"
        Whether the parts add up to a vector field or to the next state itself.
    decay : float
        Of the target encoder.
    """

    def __init__(
        self,
        encoder: nn.Module,
        *,
        neural: nn.Module | None = None,
        symbolic: SymbolicPart | None = None,
        correction: nn.Module | None = None,
        integrator: str = "euler",
        dynamics: Dynamics = "continuous",
        decay: float = 0.99,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.target = EMATarget(encoder, decay)
        self.neural = neural
        self.symbolic = symbolic
        self.correction = correction
        self.integrator = integrator
        self.dynamics: Dynamics = dynamics

    def part(self, name: Component) -> nn.Module:
        module = getattr(self, name)
        if module is None:
            raise ConfigError(f"This condition needs a {name} part, and the model has none.")
        return module

    def transition(self, uses: Sequence[Component]) -> Transition:
        """The transition made of these parts, which it shares with this model."""
        if "neural" in uses:
            if len(uses) > 1:
                raise ConfigError("A neural field stands alone; use 'correction' beside a law.")
            return Transition(None, self.part("neural"), self.dynamics, self.integrator)
        symbolic = self.part("symbolic") if "symbolic" in uses else None
        correction = self.part("correction") if "correction" in uses else None
        return Transition(symbolic, correction, self.dynamics, self.integrator)

    @torch.no_grad()
    def encode(self, x: Tensor, target: bool = False, rows: int = 65_536) -> Tensor:
        """Latents of whole trajectories (B, T, *obs), a bounded number of observations at once."""
        encoder: nn.Module = self.target if target else self.encoder
        size = max(1, rows // x.shape[1])
        return torch.cat([encoder(part) for part in x.split(size)])

    def snapshot(self) -> dict[str, Any]:
        """All numbers, and the law if its structure is not fixed by a library. Plain data."""
        law = self.symbolic.to_text() if isinstance(self.symbolic, TreeLaw) else None
        return {"law": law, "state": {k: v.clone() for k, v in self.state_dict().items()}}

    def restore(self, snapshot: dict[str, Any]) -> None:
        if snapshot["law"] is not None:
            like = next(self.parameters())
            self.symbolic = TreeLaw.from_text(snapshot["law"]).to(like.device)
        self.load_state_dict(snapshot["state"])
