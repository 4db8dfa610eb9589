"""``y = f(X)`` by any backend, in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import sympy
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from sjepa.backend import Backend, Budget
from sjepa.backend.constraints import CONSTRAINTS
from sjepa.backend.portfolio import in_rounds
from sjepa.backend.proposals import Proposals, Propose
from sjepa.backend.registry import make_backend
from sjepa.callbacks import ProgressBar
from sjepa.data.names import numbered
from sjepa.errors import ConfigError, LawError, NumericalWarning, warn_caller
from sjepa.estimator.checks import check_is_fitted, check_sample_weight, r2_score, validate_data
from sjepa.estimator.fitted import Equations
from sjepa.estimator.regressor_files import save_regressor
from sjepa.estimator.robust import LOSSES, ROUNDS, row_weights
from sjepa.estimator.table_search import Table
from sjepa.estimator.table_space import (
    given_space,
    operators_of,
    output_names,
    with_known_terms,
)
from sjepa.settings import draw_seed, list_of, mapping_of, number_of, path_of, texts_of, whole_of
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.symbolic.known import read_known, whole_front
from sjepa.symbolic.verdict import Verdict


if TYPE_CHECKING:
    from sjepa.symbolic.torch_law import TorchLaw


SELECTIONS = ("best", "accuracy", "score")
FORMULAS = "formulas such as ['x1*sin(x2)']"


class SymbolicRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Fit formulas to a table, with the backend of your choice.

    Parameters
    ----------
    backend : name, mapping with a "name", class, instance, or list of them, optional
        Backends that write expression trees search a grammar, the others combine the terms of a
        library. Several share the time, and each is started from what those before it found. A
        PySRRegressor, a pysindy optimizer or SINDy, or a regressor of pyoperon or gplearn is a
        backend too. By default terms are searched exactly, then terms with nonlinear parameters,
        then expression trees with Operon, each where the law before it is not adequate or is long.
    operators : list of str, optional
        What expressions may be made of, as in ``["+", "*", "/", "sin"]``.
    library : Library, list of str, or "wide", optional
        Terms in the names of the columns, for instance ``["x1", "x1*x2", "exp(-x1)"]``; lower-case
        letters that are no columns are parameters to be found, as ``k`` in ``"x1*sin(k*x2)"``.
        "wide" adds quotients, sigmoids, powers and waves with such parameters to the default:
        monomials, sines, cosines, exponentials and, of columns that are positive, logarithms,
        roots and inverses; fewer kinds for many columns or few rows. Where there are too many
        columns for their products, those with a significant effect are chosen first.
    grammar : Grammar, optional
        By default sums, products, quotients, sines, cosines, exponentials and, where a column is
        positive, logarithms and roots, where one is negative, absolute values.
    units : mapping, optional
        Units of columns and targets, as in ``{"m": "kg", "v": "m/s", "y": "J"}``: terms that
        cannot be of the right unit are left out. Needs pint.
    constraints : list of str, optional
        What is known of coefficients, as in ``"coef(y, x1) = 2"`` or ``"coef(y, x2) >= 0"``; for
        "stlsq", "subset" and "pysindy".
    known : Law or str, optional
        What is known of the formula, as ``"2*x1*x2"``: it is this plus what is found beside it.
        Lower-case letters that are no columns, as ``k`` in ``"k*x1*x2"``, are found with the rest,
        for backends that combine terms.
    loss : "squared", "huber" or "absolute", optional
        The others fit several times, with less weight for rows that are far off.
    model_selection : "best", "accuracy" or "score"
        The law of the highest evidence; that of the lowest loss; or that with the steepest fall of
        the logarithm of the loss for each unit of complexity, as PySR has them.
    budget : float or Budget, optional
        CPU seconds for the search. Expression trees get 30 if nothing is said; a library is
        searched to its end.
    random_state : int, numpy RandomState or Generator, optional
        None draws a new seed for every fit; `seed_` tells which.
    verbose : bool, callable, Callback, or list of these, optional
        By default a progress bar is shown in terminals and notebooks and nothing elsewhere; True
        writes lines where no bar can be drawn, False shows nothing.
    delta : float, optional
        Take the simplest formula with at most this unexplained variance of y, as a share, and the
        best one, with a warning, where none has. A search of a list of backends ends soon after it.
    unary_operators, binary_operators : list of str, optional
        The operators as PySR spells them; without binary ones ``["+", "-", "*", "/"]``.
    guesses : list of str, optional
        Formulas to start from, as in ``["x1*sin(2*x2)"]``, their numbers being fitted first; of
        several targets lists with a formula for each. Expression trees grow from their terms,
        searches of a library take those whose terms it has.
    propose : callable, optional
        Called with the front between the rounds of a search, for more such formulas: a person, a
        model or a script takes part. They are parsed, never executed; what cannot be read is a note
        of the front.
    feature_names : list of str, optional
        By default the columns of a DataFrame, or x1, x2, ...

    Attributes
    ----------
    front_ : Front
    law_ : Law
        The chosen formula.
    verdict_ : Verdict
        Whether the law of the highest evidence is adequate, what else the data allow, and why.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(200, 2))
    >>> model = SymbolicRegressor().fit(X, 2 * X[:, 0] * X[:, 1] - np.sin(X[:, 1]))
    >>> model.law_.round(3)
    y = 2*x1*x2 - sin(x2)
    """

    law_: Law
    front_: Front
    verdict_: Verdict | None
    seed_: int

    def __init__(
        self,
        backend: Any = None,
        *,
        operators: Sequence[str] | None = None,
        library: Library | Sequence[str] | str | None = None,
        grammar: Grammar | None = None,
        units: Mapping[str, str] | None = None,
        constraints: Sequence[str] | None = None,
        known: Law | str | Sequence[str] | None = None,
        loss: str | None = None,
        model_selection: str = "best",
        budget: Budget | float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: Any = None,
        delta: float | None = None,
        unary_operators: Sequence[str] | None = None,
        binary_operators: Sequence[str] | None = None,
        guesses: Sequence[str] | Sequence[Sequence[str]] | None = None,
        propose: Propose | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.backend = backend
        self.operators = operators
        self.library = library
        self.grammar = grammar
        self.units = units
        self.constraints = constraints
        self.known = known
        self.loss = loss
        self.model_selection = model_selection
        self.budget = budget
        self.random_state = random_state
        self.verbose = verbose
        self.delta = delta
        self.unary_operators = unary_operators
        self.binary_operators = binary_operators
        self.guesses = guesses
        self.propose = propose
        self.feature_names = feature_names

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SymbolicRegressor:
        """Search formulas for y (n,) or (n, k) in the columns of X (n, d)."""
        _one_of("model_selection", self.model_selection, SELECTIONS)
        loss = "squared" if self.loss is None else self.loss
        _one_of("loss", loss, LOSSES)
        if self.delta is not None and not number_of(self.delta, "delta") > 0:
            raise ConfigError(f"delta is a positive number, got {self.delta!r:.60}.", "delta")
        if self.units is not None:
            mapping_of(self.units, "units")
        backend: Backend | None = None
        if self.backend is not None:
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
        outputs = output_names([name] if columns is None else list(columns), y, inputs)
        space = given_space(
            inputs, len(outputs), self.library, self.grammar,
            operators_of(self.operators, self.unary_operators, self.binary_operators),
        )  # fmt: skip
        constraints = tuple(texts_of(_given(self.constraints), "constraints", CONSTRAINTS))
        known = read_known(self.known, inputs, outputs, "discrete")
        if known is not None and known.terms:
            space = with_known_terms(space, known.terms, X, inputs, outputs, backend, self.library)
        fixed = None if known is None else known.law
        proposals = None
        if self.propose is not None:
            if self.constraints:
                raise ConfigError(
                    "Laws that are proposed need not keep constraints: leave propose out.",
                    "constraints",
                )
            proposals = Proposals(inputs, outputs, "discrete", self.propose, fixed)
            backend = backend and in_rounds(backend, proposals)
        with ProgressBar(self.verbose, "searching formulas") as bar:
            table = Table(
                X, y.reshape(len(y), -1), inputs, outputs, backend, space,
                library=self.library if isinstance(self.library, str) else None, weights=weights,
                units=self.units, constraints=constraints,
                guesses=_laws(_given(self.guesses), inputs, outputs), budget=Budget.of(self.budget),
                delta=self.delta, seed=self.seed_, progress=bar.listener, proposals=proposals,
            ).less(fixed)  # fmt: skip
            front = _reweighted(table, loss)
            library = None if space is None else space.library
            grammar = None if space is None else space.grammar
            weights = None if grammar is None else grammar.weights
            self.front_ = whole_front(front, fixed, library, weights)
        if proposals is not None:
            notes = (*self.front_.notes, *proposals.notes)
            self.front_ = replace(self.front_, notes=notes)
        self.law_ = self._selected()
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

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the chosen formula (1 is perfect), the mean of those of several targets."""
        return float(r2_score(self, X, y, sample_weight))

    def sympy(self, index: int | None = None) -> sympy.Expr | list[sympy.Expr]:
        """The formula as a SymPy expression, or a list of them for several outputs."""
        expressions = self._law(index).sympy()
        return expressions[0] if self._single else expressions

    def latex(self, index: int | None = None, digits: int = 4) -> str:
        """The formula, typeset, with its left side."""
        return self._law(index).latex(digits)

    def torch(self, index: int | None = None) -> TorchLaw:
        """A differentiable module: (..., d) to (..., k), coefficients trainable."""
        return self._law(index).torch()

    def report(self, path: str | Path, X: Any = None, y: Any = None, *, title: str = "") -> Path:
        """Write a self-contained HTML page about the front; see :mod:`sjepa.report`.

        With a table it also shows measured against predicted values and the residuals.
        """
        from sjepa.report import write_report

        check_is_fitted(self)
        if X is not None:
            X = validate_data(self, X, dtype=np.float64, reset=False)
        return write_report(self, path, X, y, title=title or "Formulas")

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder, as plain data; read it with :func:`sjepa.load`."""
        check_is_fitted(self)
        save_regressor(self, path_of(folder, "folder"))

    def __str__(self) -> str:
        """The equations up to those just beyond the chosen one; ``repr`` has the settings."""
        return self.equations_.short() if self.__sklearn_is_fitted__() else repr(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "law_")

    def _law(self, index: int | None) -> Law:
        check_is_fitted(self)
        if index is None:
            return self.law_
        if (row := whole_of(index, "index")) >= len(self.front_):
            raise ConfigError(f"index is a row of {len(self.front_)}, got {index}.", "index")
        return self.front_[row].law

    def _selected(self) -> Law:
        front = self.front_
        best = front.best()
        if self.delta is not None:
            try:
                return front.select(self.delta)
            except LawError as error:
                warn_caller(NumericalWarning(f"{error} The best law is taken."))
                return best
        if self.model_selection == "accuracy":
            return min(front, key=lambda c: c.loss).law
        if self.model_selection == "score":
            return front[int(np.argmax(front.scores()))].law
        return best

    def _input_names(self) -> list[str]:
        count = self.n_features_in_
        if self.feature_names is None:
            return list(getattr(self, "feature_names_in_", numbered("x", count)))
        names = texts_of(self.feature_names, "feature_names", "texts")
        if len(names) != count:
            raise ConfigError(
                f"feature_names has {len(names)} names, X has {count} columns.", "feature_names"
            )
        return names


def _given(value: Any) -> Any:
    return () if value is None else value


def _one_of(name: str, value: Any, known: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{name} is one of {', '.join(map(repr, known))}, got {value!r}.", name)


def _laws(
    guesses: Sequence[str] | Sequence[Sequence[str]], inputs: Sequence[str], outputs: Sequence[str]
) -> list[Law]:
    """Formulas as laws; text is parsed and never executed."""
    laws = []
    for guess in list_of(guesses, "guesses", FORMULAS):
        texts = [guess] if isinstance(guess, str) else texts_of(guess, "guesses", FORMULAS)
        if len(texts) != len(outputs):
            raise ConfigError(
                f"A guess has a formula for each of {', '.join(outputs)}, got {guess!r:.80}.",
                "guesses",
            )
        laws.append(Law.from_string(texts, inputs, outputs, "discrete"))
    return laws


def _reweighted(table: Table, loss: str) -> Front:
    """The front by a loss; at first far rows are those that the most flexible law misses."""
    if loss == "squared":
        return table.search()
    table = table.share(1 / (1 + ROUNDS))
    front = table.search()
    law = min(front, key=lambda c: c.loss).law
    given = np.ones(len(table.inputs)) if table.weights is None else table.weights
    for _ in range(ROUNDS):
        weights = row_weights(loss, law, table.inputs, table.targets)
        front = replace(table, weights=given * weights).search()
        law = front.best()
    return front
