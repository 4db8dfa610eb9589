"""A gplearn regressor as a backend: its evolution, our selection among the terms it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gplearn.genetic import SymbolicRegressor

from sjepa.errors import ConfigError
from sjepa.symbolic import Grammar
from sjepa_backends.adapters import changed, grammar_of, known_operators, params, refuse
from sjepa_backends.gplearn import GPLearn


_CANNOT = {"warm_start": "generations are continued until the time is spent"}
_OURS = ("population_size", "generations", "function_set", "feature_names", "warm_start")


@dataclass(frozen=True)
class GPLearnObject(GPLearn):
    """gplearn with the function set of a regressor, and no other limit than its generations."""

    operators: Sequence[str] = ()

    @property
    def limited(self) -> bool:
        return True

    def space(self, names: Sequence[str]) -> Grammar | None:
        return grammar_of(self.operators, names)


def from_object(thing: Any) -> GPLearnObject:
    """The backend with the settings of a ``gplearn.genetic.SymbolicRegressor``."""
    if not isinstance(thing, SymbolicRegressor):
        raise ConfigError(f"gplearn's {type(thing).__name__} is no regressor.", "backend")
    refuse("gplearn", changed(thing), _CANNOT)
    whole = params(thing)
    options = {k: v for k, v in whole.items() if k not in _OURS}
    if options["random_state"] is None:
        del options["random_state"]
    return GPLearnObject(
        whole["population_size"], whole["generations"], options,
        known_operators("gplearn", whole["function_set"]),
    )  # fmt: skip
