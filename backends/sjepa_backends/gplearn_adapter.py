"""A gplearn regressor as a backend: its evolution, our selection among the terms it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gplearn.genetic import SymbolicRegressor

from sjepa.backend import Problem
from sjepa.errors import ConfigError
from sjepa.symbolic import Grammar
from sjepa.symbolic.operators import operator
from sjepa_backends.adapters import changed, grammar_of, known_operators, params, refuse
from sjepa_backends.gplearn import MAX_TERMS, GPLearn, _function


_CANNOT = {"warm_start": "generations are continued until the time is spent"}
_OURS = ("population_size", "generations", "function_set", "feature_names", "warm_start")


@dataclass(frozen=True)
class GPLearnObject(GPLearn):
    """gplearn with further arguments of its regressor."""

    operators: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def limited(self) -> bool:
        return True

    def space(self, names: Sequence[str]) -> Grammar | None:
        return grammar_of(self.operators, names)

    def _programs(self, problem: Problem, j: int, names: tuple[str, ...], end: float) -> list[str]:
        """A constant, the inputs, then the last generation as text, best first."""
        settings = {"random_state": (problem.seed + j) % 2**32, **self.options}
        run = SymbolicRegressor(
            population_size=self.population, feature_names=problem.names, warm_start=True,
            function_set=[_function(n) for n in names if operator(n).arity < 3], **settings,
        )  # fmt: skip
        inputs, targets = problem.rows()
        for generation in range(1, self.generations + 1):
            run.set_params(generations=generation).fit(inputs, targets[:, j], problem.weights)
            if problem.clock() > end:
                break
        sign = -1 if run._metric.greater_is_better else 1
        best = sorted(run._programs[-1], key=lambda p: (sign * p.fitness_, str(p)))
        return list(dict.fromkeys(["1", *problem.names, *map(str, best)]))[:MAX_TERMS]


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
        whole["population_size"], whole["generations"],
        known_operators("gplearn", whole["function_set"]), options,
    )  # fmt: skip
