"""Genetic programming by gplearn: a backend in a hundred lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import sympy
from gplearn.functions import make_function
from gplearn.genetic import SymbolicRegressor

from sjepa.backend import Backend, Budget, Problem
from sjepa.errors import SjepaError
from sjepa.symbolic import Front, Law, Library, refit
from sjepa.symbolic.operators import operator
from sjepa.symbolic.parse import parse
from sjepa_backends.stlsq import STLSQ


MAX_TERMS, SEARCH, SELECTION = 40, 0.4, 0.2  # terms for each output; shares of the time


@dataclass(frozen=True)
class GPLearn(Backend):
    """gplearn proposes programs; the terms of the best ones are selected by least squares."""

    name: ClassVar[str] = "gplearn"
    trees: ClassVar[bool] = True
    plain: ClassVar[frozenset[str]] = frozenset({"population", "generations"})
    population: int = 500
    generations: int = 12
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)  # of its regressor

    def search(self, problem: Problem) -> Front:
        count, end, last = len(problem.outputs), problem.deadline(SEARCH), problem.deadline()
        pools: list[list[sympy.Expr]] = []
        for j, output in enumerate(problem.outputs):
            now = problem.clock()
            found = dict.fromkeys(self._terms(problem, j, now + (end - now) / (count - j)))
            pools.append([t for t in found if _usable(problem, j, t)][:MAX_TERMS])
            problem.report(f"{self.name}: {output} done", (j + 1) / count)
        laws = [c.law for c in problem.warm or () if c.law.outputs == problem.outputs]
        if terms := list(dict.fromkeys(t for pool in pools for t in pool)):
            costs = [problem.complexity(problem.equation(0, 1.5 * t)) for t in terms]
            mask = [[t in pool for pool in pools] for t in terms]
            library = Library(terms, problem.names, costs, mask, canonical=False)
            budget = Budget(problem.budget.seconds and SELECTION * problem.budget.seconds)
            select = problem.with_(library=library, grammar=None, progress=None, budget=budget)
            laws += [c.law for c in STLSQ().search(select)]
        rows = (*problem.rows(), problem.weights)
        laws += [refit(law, *rows).canonical() for law in laws if problem.clock() < last]
        return problem.front(laws, self.name)

    def _terms(self, problem: Problem, j: int, end: float) -> Iterator[sympy.Expr]:
        """What a sum may be made of: a finite list, or the parts of good programs."""
        grammar, output = problem.grammar, problem.outputs[j]
        if grammar is None or grammar.terms_for(output) is not None:
            yield from problem.candidate_library.terms
            return
        for text in self._programs(problem, j, grammar.operators_for(output), end):
            try:
                law = problem.equation(j, parse(text, problem.names))
            except SjepaError:  # a number that is not finite
                continue
            yield from (term for _, term in law.terms[0])

    def _programs(self, problem: Problem, j: int, names: tuple[str, ...], end: float) -> list[str]:
        """A constant, the inputs, then the last generation as text, best first."""
        settings = {"metric": "pearson", "random_state": (problem.seed + j) % 2**32, **self.options}
        run = SymbolicRegressor(
            population_size=self.population, feature_names=problem.names, warm_start=True,
            function_set=[_function(n) for n in names if operator(n).arity < 3],
            **settings,
        )  # fmt: skip
        inputs, targets = problem.rows()
        for generation in range(1, self.generations + 1):
            if generation == 1 or problem.clock() <= end:
                run.set_params(generations=generation).fit(inputs, targets[:, j], problem.weights)
        best = sorted(run._programs[-1], key=lambda p: (-run._metric.sign * p.fitness_, str(p)))
        return list(dict.fromkeys(["1", *problem.names, *map(str, best)]))[:MAX_TERMS]


def _function(name: str) -> Any:
    """An operator for gplearn, which wants numbers everywhere; the scoring tells the truth."""
    row = operator(name)
    inputs = ["x", "y"][: row.arity]
    law = Law([row.build(*sympy.symbols(inputs, real=True))], inputs, ["f"]).numpy()

    def value(*columns: np.ndarray) -> np.ndarray:
        return np.nan_to_num(law(np.stack(columns, axis=-1))[..., 0], posinf=0.0, neginf=0.0)

    by_arity = {1: lambda x: value(x), 2: lambda x, y: value(x, y)}
    return make_function(function=by_arity[row.arity], name=name, arity=row.arity, wrap=False)


def _usable(problem: Problem, j: int, term: sympy.Expr) -> bool:
    law = problem.equation(j, term, canonical=False)
    return problem.admits(law) and bool(np.isfinite(problem.losses(law)).all())
