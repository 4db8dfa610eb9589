"""A pyoperon regressor as a backend: its settings, our clean-up and refit of what it finds."""

from __future__ import annotations

from typing import Any

from sjepa.errors import ConfigError
from sjepa.symbolic.operators import OPERATORS
from sjepa_backends.adapters import changed, known_operators, params, refuse
from sjepa_backends.operon import Operon


_CANNOT = {"warm_start": "give warm=front to discover, whose terms join the search"}
# Fields of ours with another name, and what is set for each run where the object leaves it open.
_FIELDS = {
    "population_size": "population", "generations": "generations", "max_length": "max_length",
    "n_threads": "threads",
}  # fmt: skip
_OPEN = ("objectives", "random_state", "max_time")
_LEAVES = ("constant", "variable")


def from_object(thing: Any) -> Operon:
    """The backend with the settings of a ``pyoperon.sklearn.SymbolicRegressor``."""
    refuse("Operon", changed(thing), _CANNOT)
    whole = params(thing)
    if "allowed_symbols" not in whole:
        raise ConfigError(f"{type(thing).__name__} is no regressor of pyoperon.", "backend")
    ours = {row.operon.lower(): row.name for row in OPERATORS.values() if row.operon}
    symbols = [s.strip() for s in whole.pop("allowed_symbols").split(",")]
    operators = [
        ours.get(s, s) if s in ours else f"Operon's {s}" for s in symbols if s not in _LEAVES
    ]
    settings = {ours_: whole.pop(theirs) for theirs, ours_ in _FIELDS.items()}
    options = {k: v for k, v in whole.items() if not (k in _OPEN and v is None)}
    return Operon(
        # A short run to measure the speed, where time is limited, and the one that was asked for.
        runs=2, cheap_runs=False, operators=known_operators("Operon", operators),
        options=options, **settings,
    )  # fmt: skip
