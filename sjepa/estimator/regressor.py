"""``y = f(X)`` by any backend, in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import sympy
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from sjepa.backend import Backend, Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.data.forms import Rows
from sjepa.data.names import numbered
from sjepa.errors import ConfigError, LawError, NumericalWarning, warn_caller
from sjepa.estimator.checks import check_is_fitted, check_sample_weight, validate_data
from sjepa.estimator.fitted import Equations
from sjepa.estimator.parameter_types import draw_seed
from sjepa.search.ladder import Ladder
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.symbolic.verdict import Verdict


if TYPE_CHECKING:
    from sjepa.symbolic.torch_law import TorchLaw


# A default library has at most this many terms, so that it can be searched exactly, and only as
# many as this share of the rows, so that they can be told apart.
MAX_TERMS = 60
TERMS_PER_ROW = 0.5


class SymbolicRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Fit formulas to a table, with the backend of your choice.

    Parameters
    ----------
    backend : name, mapping with a "name", class, instance, or list of them, default="stlsq"
        Backends that write expression trees search `grammar`, the others combine the terms of
        `library`. Several share the time, and each is started from what those before it found.
    library : Library or list of str, optional
        Terms in the names of the columns, for instance ``["x1", "x1*x2", "exp(-x1)"]``. By default
        monomials, sines, cosines, exponentials and, of columns that are positive, logarithms,
        roots and inverses; fewer kinds for many columns or few rows.
    grammar : Grammar, optional
        By default sums, products, quotients, sines, cosines, exponentials and, where a column is
        positive, logarithms and roots, where one is negative, absolute values.
    budget : float or Budget, optional
        Seconds for the search.
    delta : float, optional
        Take the simplest formula that leaves at most this share of the variance of y; by default
        the one at the knee of the front. A search of a list of backends ends soon after it.
    random_state : int, numpy RandomState or Generator, optional
        None draws a new seed for every fit; `seed_` tells which.
    feature_names : list of str, optional
        By default the columns of a DataFrame, or x1, x2, ...

    Attributes
    ----------
    front_ : Front
    law_ : Law
        The chosen formula.
    verdict_ : Verdict
        Whether it is adequate, what else the data allow, and why.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(200, 2))
    >>> model = SymbolicRegressor("subset").fit(X, 2 * X[:, 0] * X[:, 1] - np.sin(X[:, 1]))
    >>> model.law_.round(3)
    y = 2*x1*x2 - sin(x2)
    """

    law_: Law
    front_: Front
    verdict_: Verdict | None
    seed_: int

    def __init__(
        self,
        backend: str | Mapping[str, Any] | type[Backend] | Backend | Sequence[Any] = "stlsq",
        *,
        library: Library | Sequence[str] | None = None,
        grammar: Grammar | None = None,
        budget: Budget | float | None = None,
        delta: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.backend = backend
        self.library = library
        self.grammar = grammar
        self.budget = budget
        self.delta = delta
        self.random_state = random_state
        self.feature_names = feature_names

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SymbolicRegressor:
        """Search formulas for y (n,) or (n, k) in the columns of X (n, d)."""
        backend = make_backend(self.backend)
        backend.prepare()
        columns, name = getattr(y, "columns", None), getattr(y, "name", None)
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, X, ensure_non_negative=True)
        self.seed_ = draw_seed(self.random_state)
        self._single = y.ndim == 1
        inputs = self._input_names()
        outputs = _output_names([name] if columns is None else list(columns), y, inputs)
        space = self._space(backend, inputs, X)
        problem = Problem(
            X, y, inputs, outputs, weights=weights, dynamics="discrete", seed=self.seed_,
            budget=self.budget if isinstance(self.budget, Budget) else Budget(self.budget),
            library=space if isinstance(space, Library) else None,
            grammar=space if isinstance(space, Grammar) else None, adequate=self.delta,
        )  # fmt: skip
        rows = Rows("discrete", np.asarray(problem.targets), X, noisy=False)
        ladder = Ladder(
            backend, rows, None, tuple(inputs), end=problem.deadline(), refit=False, ordered=False
        )
        extend = self.library is None and self.grammar is None and not backend.trees
        self.front_ = ladder.climb(problem, None, extend and self.delta is None).front
        self.law_ = self.front_.best()
        if self.delta is not None:
            try:
                self.law_ = self.front_.select(self.delta)
            except LawError as error:
                warn_caller(NumericalWarning(f"{error} The best law is taken."))
        self.verdict_ = self.front_.verdict
        if self.verdict_ is not None and self.verdict_.adequate is False:
            warn_caller(NumericalWarning(self.verdict_.reasons[0]))
        return self

    def predict(self, X: Any, index: int | None = None) -> np.ndarray:
        """Values (n,) or (n, k) of the chosen formula, or of row `index` of ``equations_``."""
        law = self._law(index)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        values = law.numpy()(X)
        return values[:, 0] if self._single else values

    @property
    def equations_(self) -> Equations:
        """The Pareto front as a table; ``chosen`` marks the row of `law_`."""
        check_is_fitted(self)
        return Equations.of(self.front_, self.law_)

    def get_best(self) -> pd.Series:
        """The row of ``equations_`` that was chosen."""
        table = self.equations_
        return table[table["chosen"]].iloc[0]

    def sympy(self, index: int | None = None) -> sympy.Expr | list[sympy.Expr]:
        """The formula as a SymPy expression, or a list of them for several outputs."""
        expressions = self._law(index).sympy()
        return expressions[0] if self._single else expressions

    def latex(self, index: int | None = None, digits: int = 4) -> str:
        return self._law(index).latex(digits)

    def torch(self, index: int | None = None) -> TorchLaw:
        """A differentiable module: (..., d) to (..., k), coefficients trainable."""
        return self._law(index).torch()

    def report(self, path: str | Path, *, title: str = "") -> Path:
        """Write a self-contained HTML page about the front; see :mod:`sjepa.report`."""
        from sjepa.report import write_report

        check_is_fitted(self)
        return write_report(self, path, title=title or "Formulas")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "law_")

    def _law(self, index: int | None) -> Law:
        check_is_fitted(self)
        return self.law_ if index is None else self.front_[index].law

    def _input_names(self) -> list[str]:
        count = self.n_features_in_
        if self.feature_names is None:
            return list(getattr(self, "feature_names_in_", numbered("x", count)))
        if len(self.feature_names) != count:
            raise ConfigError(
                f"feature_names has {len(self.feature_names)} names, X has {count} columns.",
                "feature_names",
            )
        return list(self.feature_names)

    def _space(self, backend: Backend, names: Sequence[str], X: np.ndarray) -> Library | Grammar:
        if self.library is not None and self.grammar is not None:
            raise ConfigError("Give a library or a grammar, not both.", "grammar")
        given = self.grammar if self.grammar is not None else Library.of(self.library, names)
        if given is not None:
            return given
        return default_grammar(names, X) if backend.trees else _library(names, X)


def _output_names(given: Sequence[Any], y: np.ndarray, inputs: Sequence[str]) -> list[str]:
    """Those of a DataFrame or Series, or y; a formula is not called like a column of X."""
    count = 1 if y.ndim == 1 else y.shape[1]
    if not all(isinstance(name, str) for name in given) or len(given) != count:
        given = ("y",) if count == 1 else numbered("y", count)
    return [name if name not in inputs else f"{name}_out" for name in given]


def _library(names: Sequence[str], X: np.ndarray) -> Library:
    """Linear terms, then kind after kind of further ones as long as there are not too many."""
    positive = [n for n, low in zip(names, X.min(axis=0), strict=True) if low > 0]
    functions = [f"{f}({n})" for n in names for f in ("sin", "cos", "exp")]
    functions += [t.format(n) for n in positive for t in ("log({})", "sqrt({})", "1/{}")]
    library = Library.polynomial(names, 1)
    most = min(MAX_TERMS, TERMS_PER_ROW * len(X))
    # A library is built to be counted only if its size is not beyond reach from the start.
    for degree, texts in ((2, []), (1, functions), (3, [])):
        if len(names) ** degree / degree > most:
            continue
        grown = library + Library.polynomial(names, degree)
        if texts:
            more = Library.from_terms(texts, names)
            with np.errstate(all="ignore"):
                usable = np.isfinite(more.numpy()(X) ** 2).all(axis=0)
            grown += Library([t for t, ok in zip(more.terms, usable, strict=True) if ok], names)
        if len(grown) <= most:
            library = grown
    return library


def default_grammar(names: Sequence[str], X: np.ndarray) -> Grammar:
    """Arithmetic with functions that do not stand inside each other, as far as the signs allow."""
    low = X.min(axis=0)
    functions = ["sin", "cos", "exp", *(["log", "sqrt"] if (low > 0).any() else [])]
    inside = {f: {g: 0 for g in functions} for f in functions}
    signed = ["abs"] if (low < 0).any() else []
    return Grammar(["+", "-", "*", "/", *signed, *functions], names, nested=inside)
