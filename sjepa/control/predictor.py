"""What the control tools accept: a law, a transition, or a fitted model."""

from __future__ import annotations

from typing import Any

from torch import nn

from sjepa.data.names import numbered
from sjepa.errors import ConfigError
from sjepa.models import Transition
from sjepa.symbolic import Law


def as_transition(model: Any, integrator: str = "rk4") -> Transition:
    """The transition of a fitted model, a law's own, or the transition itself."""
    if isinstance(model, Transition):
        return model
    if isinstance(model, Law):
        return Transition(
            model.torch(trainable=False), dynamics=model.dynamics, integrator=integrator
        )
    found = getattr(model, "transition_", None)
    if isinstance(found, Transition):
        return found
    raise ConfigError(
        f"Expected a law, a transition or a fitted model, got {type(model).__name__}"
        + ("; fit it first." if hasattr(model, "fit") else ".")
    )


def law_of(transition: Transition) -> Law | None:
    """The law in a transition, None for a purely neural one."""
    module: nn.Module | None = transition.symbolic
    law = getattr(module, "law", None)
    found = law() if callable(law) else None
    return found if isinstance(found, Law) else None


def state_names(transition: Transition, dimension: int) -> tuple[str, ...]:
    """Names of the coordinates; z1, z2, ... where no law says better."""
    law = law_of(transition)
    if law is None:
        return numbered("z", dimension)
    return law.inputs[:dimension]
