"""What every backend is given: data, what may be written, time; and how its laws are scored."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy

from sjepa.backend.budget import Budget, cpu_time
from sjepa.backend.collinearity import CopyNote, drop_collinear
from sjepa.backend.finite import finite_library
from sjepa.backend.front_checks import checked
from sjepa.backend.proposals import Proposals
from sjepa.errors import BackendError, ConfigError, DataError, LawError, SjepaError
from sjepa.settings import array_of
from sjepa.symbolic.equation import Equation
from sjepa.symbolic.front import EXACT, Candidate, Front
from sjepa.symbolic.gram import CHUNK, MAX_SIZE, Gram
from sjepa.symbolic.grammar import Grammar
from sjepa.symbolic.law import Dynamics, Law
from sjepa.symbolic.library import Library
from sjepa.symbolic.parse import check_names
from sjepa.symbolic.units import DimensionCheck


if TYPE_CHECKING:
    from sjepa.backend.base import Backend


# Losses below this share of the sums they are a difference of have lost digits: rows keep them.
CANCELED = 1e-10
# Losses below this are the rounding of double precision.
ROUNDING = 1e-20

# Called with a line of text and the share of the work done (0 to 1), as often as a backend likes.
Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class Problem:
    """Find ``targets = law(inputs)``: plain data, the same for every backend.

    Parameters
    ----------
    inputs : array (n, d)
    targets : array (n, k)
        Time derivatives for a vector field, next values for a map.
    names, outputs : names of the inputs and of the targets
    library, grammar : the search space; give one of them. Sparse backends turn a grammar into a
        library, tree backends search a library as linear combinations of its terms.
    weights : array (n,), optional
        Sample weights.
    features : array (n, terms), optional
        The library's terms on rows that are not values at points, such as integrals; takes the
        place of `inputs` for backends that search a library.
    on_rows : callable, optional
        Takes a function of inputs (T, d) to its values on those rows, for laws with terms that are
        not in the library, such as one with fitted nonlinear parameters.
    gram : Gram, optional
        Sums over data that are not in memory, in place of `inputs` and `targets`; only the
        backends that need nothing else can run.
    warm : Front, optional
        A previous answer to start from.
    adequate : float, optional
        A loss that is good enough: all Pareto-optimal laws up to the simplest one that reaches it
        are wanted, however small their gain, and none beyond.
    signs : array (terms, outputs), optional
        1 where a coefficient must not be negative, -1 where not positive, 0 elsewhere; for backends
        that say they `constrain`.
    exact : float
        A loss that consists of rounding and derivative errors only.
    units : mapping, optional
        Unit of each input by its name, and of each target by its output's name with a prime, as in
        ``{"x": "m", "v": "m/s", "x'": "m/s", "v'": "m/s**2"}``. Terms that cannot be of the right
        unit are not allowed.
    dimensionless_constants : bool
        Whether coefficients are dimensionless, so that every term has the unit of its
        equation.
    constraints : list of str
        Known constraints on the coefficients; see :mod:`sjepa.backend.constraints`.
    loss_unit : array (k,), optional
        What losses are in units of, where the targets are what a known part of the law leaves: the
        variance of the whole ones.
    proposals : Proposals, optional
        Laws to look at beside those that are found, and who is asked for more after every round.
    progress : callable, optional
        Called with a line of text and the share of the work done.
    clock : callable
        Clock of the budget's seconds; by default as the budget says.

    Examples
    --------
    >>> from sjepa import make_backend
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> library = Library.from_terms(["x", "x**2", "x**3"], inputs=["x"])
    >>> Problem(x, 2 * x**3 - x, library=library).solve(make_backend("subset")).best()
    x' = 2*x**3 - x
    """

    inputs: np.ndarray | None = None
    targets: np.ndarray | None = None
    names: Sequence[str] = ()
    outputs: Sequence[str] = ()
    library: Library | None = None
    grammar: Grammar | None = None
    weights: np.ndarray | None = None
    features: np.ndarray | None = None
    on_rows: Callable[[Callable[[np.ndarray], np.ndarray]], np.ndarray] | None = None
    gram: Gram | None = None
    dynamics: Dynamics = "continuous"
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    warm: Front | None = None
    adequate: float | None = None
    signs: np.ndarray | None = None
    exact: float = EXACT
    units: Mapping[str, str] | None = None
    dimensionless_constants: bool = False
    constraints: Sequence[str] = ()
    loss_unit: np.ndarray | None = None
    proposals: Proposals | None = None
    progress: Progress | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        if self.budget.cpu and self.clock is time.monotonic:
            set_(self, "clock", cpu_time)
        if (self.library is None) == (self.grammar is None):
            raise ConfigError("A problem needs a library or a grammar, and not both.")
        source = self.library if self.library is not None else self.grammar
        assert source is not None
        set_(self, "names", check_names(self.names or source.inputs, "input"))
        if tuple(source.inputs) != self.names:
            raise LawError(
                f"The inputs are called {', '.join(self.names)}, the library or grammar is for "
                f"{', '.join(source.inputs)}."
            )
        if self.gram is not None and self.inputs is None:
            set_(self, "outputs", check_names(self._output_names(len(self.gram.yy)), "output"))
            return
        field, columns = "inputs", len(self.names)
        if self.features is not None:
            if self.library is None or self.inputs is not None:
                raise DataError("Features stand for the terms of a library, without inputs.")
            field, columns = "features", len(self.library)
        if getattr(self, field) is None or self.targets is None:
            raise DataError("A problem needs inputs and targets, or the sums of them as `gram`.")
        inputs = _matrix(getattr(self, field), field)
        targets = _matrix(self.targets, "targets")
        if inputs.shape[1] != columns:
            raise DataError(f"The {field} have {inputs.shape[1]} columns, expected {columns}.")
        if len(inputs) != len(targets):
            raise DataError(f"Got {len(inputs)} rows of {field} and {len(targets)} of targets.")
        if len(inputs) < 2:
            raise DataError("A search needs at least two rows.")
        set_(self, field, inputs)
        set_(self, "targets", targets)
        set_(self, "outputs", check_names(self._output_names(targets.shape[1]), "output"))
        if self.weights is not None:
            weights = array_of(self.weights, "sample_weight")
            if weights.shape != (len(inputs),) or not (np.isfinite(weights) & (weights >= 0)).all():
                raise DataError(f"Sample weights must be {len(inputs)} numbers of at least 0.")
            if not weights.any():
                raise DataError("All sample weights are 0.")
            set_(self, "weights", weights)

    def _output_names(self, count: int) -> Sequence[str]:
        if self.outputs:
            if len(self.outputs) != count:
                raise DataError(f"Got {count} targets for {len(self.outputs)} output names.")
            return self.outputs
        return self.names[:count] if count <= len(self.names) else [f"y{i}" for i in range(count)]

    def with_(self, **changes: object) -> Problem:
        """A copy with some fields replaced."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def measure(self) -> str:
        """The complexity that orders this problem's front."""
        return "terms" if self.library is not None else "tree"

    @cached_property
    def candidate_library(self) -> Library:
        """The library, or the finite-term version of the grammar that the rows can tell apart."""
        if self.library is not None:
            return self._in_units(self.library)
        assert self.grammar is not None
        rows = self.inputs
        if rows is not None and self.weights is not None:
            rows = rows[self.weights > 0]
        return self._in_units(finite_library(self.grammar, self.outputs, rows))

    def _in_units(self, library: Library) -> Library:
        if self._units is None:
            return library
        return library.with_mask(self._units.mask(library, self.outputs))

    @cached_property
    def _units(self) -> DimensionCheck | None:
        return (
            None if self.units is None else DimensionCheck(self.units, self.dimensionless_constants)
        )

    @cached_property
    def allowed_terms(self) -> dict[str, frozenset[sympy.Expr]]:
        """For each output, the terms of the candidate library that it may use."""
        library = self.candidate_library
        columns = library.mask(self.outputs).T
        return {
            output: frozenset(t for t, ok in zip(library.terms, column, strict=True) if ok)
            for output, column in zip(self.outputs, columns, strict=True)
        }

    @cached_property
    def sums(self) -> Gram:
        """The Gram matrix of the candidate library on these data."""
        if self.gram is not None:
            sums = self.gram
        elif self.features is not None:
            sums = Gram.from_features(*self.feature_rows(), self.weights)
        else:
            rows = self.rows()
            chunk = rows if self.weights is None else (*rows, self.weights)
            sums = Gram.from_chunks(self.candidate_library, [chunk])
        return sums if self.loss_unit is None else replace(sums, loss_unit=self.loss_unit)

    def deadline(self, share: float = 1.0) -> float:
        """When this share of the budget will be spent, by the clock; never without a budget."""
        seconds = self.budget.seconds
        return math.inf if seconds is None else self.clock() + share * seconds

    @cached_property
    def usable(self) -> np.ndarray:
        """Which output may use which term (terms, outputs), copies of simpler terms left out."""
        return self._usable_and_copies[0]

    @property
    def copies(self) -> list[CopyNote]:
        """A note for each term that `usable` drops as collinear."""
        return self._usable_and_copies[1]

    @cached_property
    def _usable_and_copies(self) -> tuple[np.ndarray, list[CopyNote]]:
        return drop_collinear(self.candidate_library, self.outputs, self.sums.xx)

    @property
    def enough(self) -> float:
        """A loss at which a search may end: what is adequate, or what is exact."""
        return max(self.adequate or 0.0, ROUNDING)

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets, for backends that need them in memory."""
        if self.inputs is None or self.targets is None:
            raise DataError("This backend needs states and targets row by row, not sums of them.")
        return self.inputs, self.targets

    def feature_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The candidate library's terms and the targets, row by row."""
        if self.features is not None and self.targets is not None:
            return self.features, self.targets
        inputs, targets = self.rows()
        return self.candidate_library.numpy()(inputs), targets

    @cached_property
    def variance(self) -> np.ndarray:
        """Of each target; the unit in which losses are given."""
        if self.loss_unit is not None:
            return self.loss_unit
        if self.targets is None:
            assert self.gram is not None
            return self.gram.variance
        y = self.targets
        mean = self._mean(lambda rows: y[rows])
        variance = self._mean(lambda rows: (y[rows] - mean) ** 2)
        square = np.maximum(variance + mean**2, 1e-300)
        return np.where(variance <= 1e-12 * square, square, variance)

    @cached_property
    def explained(self) -> np.ndarray:
        """Whether a known part of the law left nothing (k,) of a target to be searched for."""
        y = self.rows()[1]
        return self._mean(lambda rows: y[rows] ** 2) <= self.exact * self.variance

    def _mean(self, values: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Weighted mean of what is computed row by row, without a column of it in memory."""
        assert self.targets is not None
        total, weight, n = 0.0, 0.0, len(self.targets)
        for start in range(0, n, CHUNK):
            rows = slice(start, min(start + CHUNK, n))
            w = np.ones(rows.stop - start) if self.weights is None else self.weights[rows]
            total, weight = total + w @ values(rows), weight + w.sum()
        return np.asarray(total / weight)

    # Scoring: laws are measured here and nowhere else; a law may be for some of the outputs only.

    def equation(self, j: int, expr: sympy.Expr, canonical: bool = True) -> Law:
        """The law of one output alone."""
        return Law([expr], self.names, [self.outputs[j]], self.dynamics, canonical=canonical)

    def losses(self, law: Law) -> np.ndarray:
        """Mean squared error of each output in units of its variance; inf where undefined."""
        return np.array([self._once(self._loss, *pair) for pair in self._equations(law)])

    def _equations(self, law: Law) -> Iterable[tuple[int, Equation]]:
        """With the columns of the targets that they are for."""
        equations = law.equations if self.library is None else law.expanded
        return zip(map(self.outputs.index, law.outputs), equations, strict=True)

    def _once(self, ask: Callable[[int, Equation], float], j: int, equation: Equation) -> float:
        """Many laws share an equation."""
        key = (ask.__name__, j, equation)
        if key not in self._asked:
            self._asked[key] = ask(j, equation)
        return self._asked[key]

    @cached_property
    def _asked(self) -> dict[tuple[str, int, Equation], float]:
        return {}

    def _loss(self, j: int, equation: Equation) -> float:
        law = Law.of_equations([equation], self.names, [self.outputs[j]], self.dynamics)
        if self.on_rows is not None and not self._allows(j, equation):
            assert self.targets is not None
            error = ((self.on_rows(law.numpy())[:, 0] - self.targets[:, j]) ** 2).mean()
        else:
            if self.inputs is None or self._from_sums(equation):
                coefficients = self.candidate_library.coefficients(law)[:, 0]
                loss = float(self.sums.losses_of(j, coefficients[None])[0])
                if self.inputs is None or loss >= CANCELED * self.sums.largest(j, coefficients):
                    return loss
            (inputs, targets), run = self.rows(), law.with_free_terms().numpy()
            with np.errstate(all="ignore"):
                error = self._mean(lambda rows: (run(inputs[rows])[:, 0] - targets[rows, j]) ** 2)
        return float(error / self.variance[j]) if np.isfinite(error) else math.inf

    def _from_sums(self, equation: Equation) -> bool:
        """Whether a loss follows from sums that a backend has had taken."""
        if self.library is None or "sums" not in self.__dict__:
            return False
        return all(term in self.library.term_weights for _, term in equation.pairs)

    def complexity(self, law: Law) -> float:
        """By the measure that orders the front, with the weights of the library or grammar."""
        weights = None if self.grammar is None else self.grammar.weights
        return law.complexity(self.measure, self.library, weights)

    def candidate(self, law: Law, certified: bool = False) -> Candidate:
        """Score a law on this problem."""
        key = (law.outputs, law.equations)
        # Backends score what they return, and the check does again.
        known = self._scored.get(key) or self._score(law)
        if known.law is not law or known.certified != certified:
            known = replace(known, law=law, certified=certified)
        self._scored[key] = known
        return known

    @cached_property
    def _scored(self) -> dict[tuple[Sequence[str], tuple[Equation, ...]], Candidate]:
        return {}

    def _score(self, law: Law) -> Candidate:
        pairs = list(self._equations(law))
        losses = tuple(self._once(self._loss, *pair) for pair in pairs)
        terms = sum(self._once(self._weight, *pair) for pair in pairs)
        tree = law.complexity(
            "tree", weights=None if self.grammar is None else self.grammar.weights
        )
        return Candidate(law, sum(losses) / len(losses), terms, tree, losses)

    def _weight(self, j: int, equation: Equation) -> float:
        return equation.weight({} if self.library is None else self.library.term_weights)

    def admits(self, law: Law) -> bool:
        """Whether the library or grammar, masks included, allows the law."""
        if self.grammar is not None:
            return self.grammar.admits(law) and self._consistent(law)
        return all(self._once(self._allows, *pair) for pair in self._equations(law))

    def _allows(self, j: int, equation: Equation) -> bool:
        allowed = self.allowed_terms[self.outputs[j]]
        return all(term in allowed for _, term in equation.pairs)

    def _consistent(self, law: Law) -> bool:
        pairs = zip(law.outputs, law.terms, strict=True)
        return self._units is None or all(
            self._units.fits(term, f"{output}'") for output, terms in pairs for _, term in terms
        )

    def front(self, laws: Sequence[Law], backend: str, notes: Sequence[str] = ()) -> Front:
        """Score laws, drop those that are not allowed, and return the Pareto front."""
        allowed = [law for law in laws if self.admits(law)]
        refused = len(laws) - len(allowed)
        if refused:
            notes = [*notes, f"{refused} of {len(laws)} laws were outside the grammar"]
        return Front.of([self.candidate(law) for law in allowed], self.measure, backend, notes)

    def report(self, line: str, share: float) -> None:
        """Tell how far the search is; further lines are the laws so far, shown below a bar."""
        if self.progress is not None:
            try:
                self.progress(line, min(max(share, 0.0), 1.0))
            except Exception as error:  # the listener's, which is not the backend's fault
                object.__setattr__(self, "_interruption", error)
                raise

    def solve(self, backend: Backend) -> Front:
        """Run a backend and check its result.

        Raises
        ------
        BackendError
            If the backend fails, or answers with laws that are not what it says they are.
        """
        if self.constraints:
            from sjepa.backend.constraints import solve_constrained

            return solve_constrained(self, backend)
        try:
            front = backend.search(self)
        except SjepaError:
            raise
        except Exception as error:
            if error is self.__dict__.get("_interruption"):
                raise
            text = (str(error).strip().splitlines() or ["no reason given"])[0]
            raise BackendError(
                f"{backend.name}: the search failed with {type(error).__name__}: {text}"
            ) from error
        return checked(self, backend, front)


def _matrix(values: np.ndarray, what: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"The {what} must be numbers.") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise DataError(f"The {what} must be a table (rows, columns), got shape {array.shape}.")
    if array.size and not (-MAX_SIZE <= array.min() and array.max() <= MAX_SIZE):
        row, column = np.argwhere(~(np.abs(array) <= MAX_SIZE))[0]
        raise DataError(
            f"The {what} contain {array[row, column]:.4g} in row {row}, column {column}; leave "
            "such rows out, or rescale the data."
        )
    return array
