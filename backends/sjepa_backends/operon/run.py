"""One output through pyoperon: numbers in, expressions of its Pareto front out."""

from __future__ import annotations

import difflib
import inspect
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from sjepa.backend import Problem
from sjepa.errors import BackendError, ConfigError, SjepaError
from sjepa.symbolic.complexity import weights_for_tree
from sjepa.symbolic.operators import operator
from sjepa.symbolic.parse import parse, symbol


# What can stand in for operators that pyoperon lacks; the grammar still filters the results.
# The names of fmin and fmax are exchanged in pyoperon 0.6, so one is never asked for alone.
STAND_INS = {
    "inv": ("div",),
    "neg": (),
    "cube": ("square", "mul"),
    "relu": ("fmin", "fmax"),
    "Max": ("fmin", "fmax"),
    "Min": ("fmin", "fmax"),
}


# Operators up to this weight are cheap: arithmetic, absolute values, but no sines.
CHEAP = 2.0


@dataclass(frozen=True)
class OutputSpace:
    """What one output may use.

    `features` are the columns that pyoperon sees: inputs, or the terms of a library.
    `symbols` are pyoperon's names of the operators, `cheap` those of them that weigh little;
    `missing` are operators of ours that it does not have.
    """

    features: tuple[sympy.Expr, ...]
    symbols: tuple[str, ...]
    cheap: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def output_space(problem: Problem, j: int) -> OutputSpace:
    """Inputs and operators of an output; a finite list of terms is searched as sums of them."""
    output = problem.outputs[j]
    if problem.library is not None:
        allowed = problem.library.mask(problem.outputs)[:, j]
        terms = [t for t, ok in zip(problem.library.terms, allowed, strict=True) if ok]
        return OutputSpace(tuple(t for t in terms if not t.is_number), ("add", "sub"))
    assert problem.grammar is not None
    finite = problem.grammar.terms_for(output)
    if finite is not None:
        return OutputSpace(tuple(t for t in finite if not t.is_number), ("add", "sub"))
    symbols: dict[str, float] = {}
    missing = []
    weights = weights_for_tree(problem.grammar.weights)
    for name in problem.grammar.operators_for(output):
        operon_name = operator(name).operon.lower()
        if name not in STAND_INS and not operon_name:
            missing.append(name)
        for s in STAND_INS.get(name, (operon_name,) if operon_name else ()):
            symbols[s] = min(weights[name], symbols.get(s, math.inf))
    inputs = tuple(symbol(n) for n in problem.grammar.inputs_for(output))
    # An empty set of functions is refused by pyoperon; the grammar filters what add brings in.
    cheap = tuple(s for s, weight in symbols.items() if weight <= CHEAP)
    return OutputSpace(inputs, tuple(symbols) or ("add",), cheap, tuple(missing))


def sample_rows(problem: Problem, rows: int) -> np.ndarray:
    """Which rows to search on, in an order that does not depend on the order they came in.

    pyoperon knows no weights: a row of weight 2 is there twice if there is room for it, and
    otherwise drawn twice as often as one of weight 1.
    """
    inputs, targets = problem.rows()
    order = np.lexsort(np.column_stack([targets, inputs]).T)
    weights = np.ones(len(inputs)) if problem.weights is None else problem.weights
    usable = order[weights[order] > 0]
    times = weights[usable]
    if np.ptp(times) == 0:
        times = np.ones(len(usable))
    if (times == np.round(times)).all() and times.sum() <= rows:
        return np.repeat(usable, times.astype(int))
    rng = np.random.default_rng(problem.seed)
    if np.ptp(times) == 0:
        chosen = rng.choice(len(usable), rows, replace=False)
    else:
        chosen = rng.choice(len(usable), min(rows, len(usable)), p=times / times.sum())
    return usable[np.sort(chosen)]


class OperonRun:
    """Runs pyoperon again and again on the same numbers, each time with another seed."""

    def __init__(
        self,
        task: OutputSpace,
        columns: np.ndarray,
        target: np.ndarray,
        options: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from pyoperon.sklearn import SymbolicRegressor

        known = inspect.signature(SymbolicRegressor).parameters
        for name in options:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise ConfigError(f"Operon has no option {name!r}.{hint}")
        self.task, self.options, self.clock = task, options, clock
        # A term that is not defined on all rows cannot be offered.
        defined = np.isfinite(columns).all(axis=0)
        self.features = [f for f, ok in zip(task.features, defined, strict=True) if ok]
        # Single precision: keep numbers near 1, by powers of two so that nothing is rounded.
        self.scale = _powers_of_two(columns[:, defined])
        self.columns = columns[:, defined] / self.scale
        self.unit = float(_powers_of_two(target[:, None])[0])
        self.target = target / self.unit
        self.per_second = math.inf

    def expressions(
        self, seed: int, generations: int, seconds: float, cheap: bool = False
    ) -> list[sympy.Expr]:
        """Expressions of the features on the final front; `seconds` is a limit, not a goal."""
        from pyoperon.sklearn import SymbolicRegressor

        if math.isfinite(seconds * self.per_second):
            generations = min(generations, max(1, int(0.8 * seconds * self.per_second)))
        timed = math.isfinite(seconds) and self.clock is time.monotonic
        symbols = self.task.cheap if cheap and self.task.cheap else self.task.symbols
        options = {
            "allowed_symbols": ",".join((*symbols, "constant", "variable")),
            "objectives": ["mse", "length"],
            "generations": generations,
            # Threads race for the last evaluation, but not for the last generation.
            "max_evaluations": 10**12,
            # Operon reads the wall clock, which says nothing about any other.
            "max_time": math.ceil(seconds) if timed else None,
            "random_state": seed % 2**63,
            **self.options,
        }
        start = self.clock()
        try:
            regressor = SymbolicRegressor(**options).fit(self.columns, self.target)
        except (ValueError, RuntimeError) as error:
            raise BackendError(f"operon: {error}") from error
        self.per_second = generations / max(self.clock() - start, 1e-3)
        texts = [regressor.get_model_string(s["tree"], 12) for s in regressor.pareto_front_]
        return [e for e in map(self.expression, dict.fromkeys(texts)) if e is not None]

    def expression(self, text: str) -> sympy.Expr | None:
        """Read one model, with the scaling undone; None if a constant in it is not finite."""
        names = [f"X{i + 1}" for i in range(len(self.features))]
        try:
            expr = parse(text, names)
        except SjepaError:
            return None
        triples = zip(names, self.features, self.scale.tolist(), strict=True)
        undo = {symbol(name): feature / sympy.Rational(s) for name, feature, s in triples}
        return sympy.Rational(self.unit) * expr.xreplace(undo)


def _powers_of_two(columns: np.ndarray) -> np.ndarray:
    size = np.sqrt(np.mean(columns**2, axis=0))
    exponent = np.log2(np.where(size > 0, size, 1.0))
    # Numbers that are of ordinary size already are left as they are.
    return np.where(np.abs(exponent) < 3, 1.0, 2.0 ** np.round(exponent))
