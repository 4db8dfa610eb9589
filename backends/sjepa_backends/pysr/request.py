"""Put a problem into PySR's words: columns, operators, complexities, constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy

from sjepa.backend import Problem
from sjepa.errors import ConfigError, did_you_mean
from sjepa.symbolic.complexity import term_weight, weights_for_tree
from sjepa.symbolic.law import Law
from sjepa.symbolic.operators import operator
from sjepa.symbolic.parse import symbol
from sjepa_backends.pysr.template import PySRTemplate
from sjepa_julia import definitions


# PySR adds up whole numbers; our weights are multiples of one half.
SCALE = 2
# PySR refuses less.
MIN_MAXSIZE = 7


@dataclass(frozen=True)
class PySRTask:
    """One search: the outputs that may use the same columns and the same operators.

    Attributes
    ----------
    outputs : positions of the outputs.
    columns : what PySR's x0, x1, ... stand for: inputs, or the terms of a library.
    operators : names in the operator table.
    linear : whether only linear combinations of the columns are allowed.
    bias : whether those may have a constant term.
    """

    outputs: tuple[int, ...]
    columns: tuple[sympy.Expr, ...]
    operators: tuple[str, ...]
    linear: bool = False
    bias: bool = True
    template: PySRTemplate | None = None

    @property
    def names(self) -> list[str]:
        return [f"x{i}" for i in range(len(self.columns))]

    def meaning(self) -> dict[sympy.Symbol, sympy.Expr]:
        return {symbol(n): c for n, c in zip(self.names, self.columns, strict=True)}

    def values(self, problem: Problem) -> np.ndarray:
        """The columns on all rows (n, columns)."""
        names = [f"f{i}" for i in range(len(self.columns))]
        return Law(self.columns, problem.names, names, "discrete", canonical=False).numpy()(
            problem.rows()[0]
        )


def plan(
    problem: Problem, templates: Mapping[str, PySRTemplate]
) -> tuple[list[PySRTask], list[str]]:
    """The searches that a problem needs, and notes on what could not be passed on."""
    if unknown := sorted(templates.keys() - set(problem.outputs)):
        raise ConfigError(
            f"The template is for output {unknown[0]!r}; outputs are {', '.join(problem.outputs)}."
        )
    notes: dict[str, None] = {}
    groups: dict[PySRTask, list[int]] = {}
    for j, output in enumerate(problem.outputs):
        task = _task(problem, j, templates.get(output), notes)
        if problem.explained[j]:
            task = replace(task, columns=())
        groups.setdefault(task, []).append(j)
    tasks = [replace(task, outputs=tuple(outputs)) for task, outputs in groups.items()]
    for task in tasks:
        _check_emission(task, problem)
    return tasks, list(notes)


def _task(
    problem: Problem, j: int, template: PySRTemplate | None, notes: dict[str, None]
) -> PySRTask:
    output, grammar = problem.outputs[j], problem.grammar
    if grammar is None:
        library = problem.candidate_library
        allowed = library.mask(problem.outputs)[:, j]
        terms: Sequence[sympy.Expr] | None = [
            t for t, a in zip(library.terms, allowed, strict=True) if a
        ]
    else:
        terms = grammar.terms_for(output)
    if terms is not None:
        if template is not None:
            raise ConfigError(f"Output {output!r} has a list of terms; a template needs operators.")
        columns = tuple(t for t in terms if not t.is_number)
        task = PySRTask((), columns, ("add", "sub", "mul"), True, len(columns) < len(terms))
        finite = np.isfinite(task.values(problem)).all(axis=0) if columns else []
        if not np.all(finite):
            notes.setdefault(f"{output}: terms that are not finite on the data were left out")
        kept = tuple(c for c, ok in zip(columns, finite, strict=True) if ok)
        return replace(task, columns=kept)
    assert grammar is not None
    names = grammar.operators_for(output)
    operators = tuple(n for n in names if operator(n).pysr)
    if left_out := [n for n in names if n not in operators]:
        notes.setdefault(f"PySR does not have {', '.join(left_out)}: searched without")
    if not operators:
        raise ConfigError(f"PySR has none of the operators of {output!r}: {', '.join(names)}.")
    if template is not None:
        sample = template.check(problem.names)
        if reason := grammar.refusal(sample, output):
            raise ConfigError(f"The template {template.combine!r} is not in the grammar: {reason}.")
        # The formula names the inputs itself, so every column has to be there.
        return PySRTask((), tuple(map(symbol, problem.names)), operators, template=template)
    return PySRTask((), tuple(map(symbol, grammar.inputs_for(output))), operators)


def _check_emission(task: PySRTask, problem: Problem) -> None:
    """Every operator must reach SymPy and torch; better to know before an hour of search."""
    import torch

    samples = [*task.columns]
    for name in task.operators:
        row = operator(name)
        arguments = [symbol(problem.names[0]) + sympy.Float(a) for a in row.example]
        samples.append(row.build(*arguments[: row.arity]))
    if not samples:
        return
    try:
        law = Law(samples, problem.names, [f"f{i}" for i in range(len(samples))], "discrete")
        law.torch(trainable=False)(torch.zeros(1, len(problem.names), dtype=torch.float64))
    except Exception as error:
        raise ConfigError(f"The grammar cannot be evaluated: {error}") from error


# Settings ----------------------------------------------------------------------------------------


def search_space(task: PySRTask, problem: Problem, maxsize: float) -> dict[str, Any]:
    """The part of a request that says which expressions to search, and what they cost."""
    weights = weights_for_tree(problem.grammar.weights if problem.grammar else None)
    constant, variable = _cost(weights["constant"]), _cost(weights["variable"])
    if task.linear:
        # Coefficients and signs are free in the `terms` measure; here they cost the least.
        costs = dict.fromkeys(task.operators, 1)
        constant, variable = 1, 2
    else:
        costs = {n: _cost(weights["add" if n == "sub" else n]) for n in task.operators}
    operators = list(task.operators)
    constraints: dict[str, Any] = {}
    if task.linear or ("mul" not in operators and variable > constant):
        # Numbers may multiply anything, also where products are not allowed.
        constraints["*"] = [-1, constant]
        if "mul" not in operators:
            operators.append("mul")
            costs["mul"] = _cost(weights["mul"])
    if "pow" in operators:
        constraints["^"] = [-1, max(constant, variable)]
    leaves = _term_costs(task, problem) if task.linear else [variable]
    settings: dict[str, Any] = {
        "binary_operators": _spelled(n for n in operators if operator(n).arity == 2),
        "unary_operators": _spelled(n for n in operators if operator(n).arity == 1),
        "complexity_of_operators": {operator(n).pysr: c for n, c in costs.items()},
        "complexity_of_constants": constant,
        "maxsize": _room(maxsize, costs.values(), [constant, *leaves]),
    }
    if constraints:
        settings["constraints"] = constraints
    if nested := _nested(problem, operators):
        settings["nested_constraints"] = nested
    request: dict[str, Any] = {"settings": settings}
    if task.linear:
        request["complexity_of_variables"] = _term_costs(task, problem)
    else:
        settings["complexity_of_variables"] = variable
    request["defined"] = [operator(n).pysr for n in operators if operator(n).pysr in definitions()]
    if task.template is not None:
        request["template"] = task.template.request(problem.names)
    return request


def _spelled(names: Iterable[str]) -> list[str]:
    """As PySR knows them, or their Julia definition if they are ours."""
    known = definitions()
    return [known.get(operator(n).pysr, operator(n).pysr) for n in names]


def _cost(weight: float) -> int:
    return max(1, round(SCALE * weight))


def _term_costs(task: PySRTask, problem: Problem) -> list[int]:
    """More than a constant's, or PySR could multiply terms under the constraint on ``*``."""
    weights = problem.library.term_weights if problem.library is not None else {}
    return [max(2, _cost(weights.get(c, term_weight(c)))) for c in task.columns]


def _room(maxsize: float, operators: Iterable[int], leaves: Iterable[int]) -> int:
    """The setting, doubled, but room for three operators and four leaves.

    Populations start from trees of about that size, and a tree above the limit is never changed:
    a tighter limit, however wanted, stops the search before it began.
    """
    room = 3 * max(operators) + 4 * max(leaves)
    return max(MIN_MAXSIZE, room, round(SCALE * maxsize))


def check_operators(settings: Mapping[str, Any]) -> None:
    """Refuse options about operators that are not searched: PySR takes them without a word."""
    offered = [*settings["binary_operators"], *settings["unary_operators"]]
    names = {text.split("(")[0].strip() for text in offered}
    for option in ("constraints", "nested_constraints", "complexity_of_operators"):
        given = settings.get(option) or {}
        inner = [
            name for limits in given.values() if isinstance(limits, Mapping) for name in limits
        ]
        for name in (*given, *inner):
            if name not in names:
                hint = did_you_mean(name, names)
                raise ConfigError(
                    f"PySR's {option} names {name!r}, which is not searched.{hint} "
                    f"Operators: {', '.join(sorted(names))}."
                )


def _nested(problem: Problem, operators: Sequence[str]) -> dict[str, dict[str, int]]:
    """Julia raises for operators that are not in use. PySR counts along one branch where we count
    all of them, so what it returns is still filtered."""
    nested: dict[str, dict[str, int]] = {}
    for outer, limits in (problem.grammar.nested if problem.grammar else {}).items():
        kept = {operator(i).pysr: n for i, n in limits.items() if i in operators}
        if outer in operators and kept:
            nested[operator(outer).pysr] = kept
    return nested
