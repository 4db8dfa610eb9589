"""What every search engine accepts and returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from sjepa.errors import ConfigError, DataError, LawError
from sjepa.symbolic.front import Candidate, Front
from sjepa.symbolic.gram import Gram
from sjepa.symbolic.grammar import Grammar
from sjepa.symbolic.law import Dynamics, Law
from sjepa.symbolic.library import Library
from sjepa.symbolic.parse import check_names


# Called with a line of text and the share of the work done (0 to 1), as often as an engine likes.
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Budget:
    """How long a search may take; None leaves the engine's own default.

    Engines stop by themselves within about a tenth of `seconds` (at least one second) after it.
    """

    seconds: float | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigError(f"A budget needs a positive number of seconds, got {self.seconds}.")
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(f"A budget needs at least one iteration, got {self.iterations}.")


@dataclass(frozen=True, eq=False)
class Problem:
    """Find ``targets = law(inputs)``: plain data, the same for every engine.

    Parameters
    ----------
    inputs : array (n, d)
    targets : array (n, k)
        Time derivatives for a vector field, next values for a map.
    names, outputs : names of the inputs and of the targets
    library, grammar : what may be written; give one of them. Sparse engines turn a grammar into a
        library, tree engines search a library as linear combinations of its terms.
    weights : array (n,), optional
        Sample weights.
    features : array (n, terms), optional
        The library's terms on rows that are not values at points, such as integrals; takes the
        place of `inputs` for engines that search a library.
    gram : Gram, optional
        Sums over data that are not in memory, in place of `inputs` and `targets`; only the
        engines that need nothing else can run.
    warm : Front, optional
        A previous answer to start from.
    """

    inputs: np.ndarray | None = None
    targets: np.ndarray | None = None
    names: Sequence[str] = ()
    outputs: Sequence[str] = ()
    library: Library | None = None
    grammar: Grammar | None = None
    weights: np.ndarray | None = None
    features: np.ndarray | None = None
    gram: Gram | None = None
    dynamics: Dynamics = "continuous"
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    warm: Front | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        set_ = object.__setattr__
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
            weights = np.asarray(self.weights, dtype=float)
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
        """The library, or the finite-term version of the grammar."""
        if self.library is not None:
            return self.library
        assert self.grammar is not None
        return self.grammar.library(self.outputs)

    @cached_property
    def sums(self) -> Gram:
        """The Gram matrix of the candidate library on these data."""
        if self.gram is not None:
            return self.gram
        if self.features is not None:
            return Gram.from_features(*self.feature_rows(), self.weights)
        rows = self.rows()
        chunk = rows if self.weights is None else (*rows, self.weights)
        return Gram.from_chunks(self.candidate_library, [chunk])

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets, for engines that need them in memory."""
        if self.inputs is None or self.targets is None:
            raise DataError("This engine needs states and targets row by row, not sums of them.")
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
        if self.targets is None:
            assert self.gram is not None
            return self.gram.variance
        mean = np.average(self.targets, axis=0, weights=self.weights)
        variance = np.average((self.targets - mean) ** 2, axis=0, weights=self.weights)
        square = np.average(self.targets**2, axis=0, weights=self.weights)
        return np.where(variance <= 1e-12 * square, np.maximum(square, 1e-300), variance)

    def losses(self, law: Law) -> np.ndarray:
        """Mean squared error of each output in units of its variance; inf where undefined."""
        if self.inputs is None:
            return self.sums.loss(self.candidate_library.coefficients(law))
        inputs, targets = self.rows()
        error = np.average((law.numpy()(inputs) - targets) ** 2, axis=0, weights=self.weights)
        return np.where(np.isfinite(error), error / self.variance, np.inf)

    def candidate(self, law: Law, certified: bool = False) -> Candidate:
        """Score a law on this problem."""
        weights = None if self.grammar is None else self.grammar.weights
        return Candidate.score(law, self.losses(law).tolist(), self.library, certified, weights)

    def admits(self, law: Law) -> bool:
        """Whether the library or grammar, masks included, allows the law."""
        if self.library is not None:
            return self.library.covers(law)
        assert self.grammar is not None
        return self.grammar.admits(law)

    def front(self, laws: Sequence[Law], engine: str, notes: Sequence[str] = ()) -> Front:
        """Score laws, leave out those that are not allowed, and keep the ones nothing beats."""
        allowed = [law for law in laws if self.admits(law)]
        refused = len(laws) - len(allowed)
        if refused:
            notes = [*notes, f"{refused} of {len(laws)} laws were outside the grammar"]
        return Front.of([self.candidate(law) for law in allowed], self.measure, engine, notes)

    def report(self, line: str, share: float) -> None:
        if self.progress is not None:
            self.progress(line, min(max(share, 0.0), 1.0))


class Backend(ABC):
    """A search engine. Instances hold settings only, so they pickle and compare."""

    name: ClassVar[str]
    # Whether the engine writes expression trees of a grammar, or combines terms of a library.
    trees: ClassVar[bool] = False
    # Whether the terms of an answer are the engine's decision, to be kept while coefficients are
    # trained; otherwise an answer is only a start, and training chooses among all terms.
    owns_structure: ClassVar[bool] = True

    @abstractmethod
    def search(self, problem: Problem) -> Front:
        """Return the laws that no other found law beats in complexity and loss.

        The same problem, settings and seed give the same answer. Laws are in canonical form with
        the problem's names, allowed by its library or grammar, and scored on all of its rows.
        Finding nothing is an empty front with a note, not an error.
        """


def _matrix(values: np.ndarray, what: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"The {what} must be numbers.") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise DataError(f"The {what} must be a table (rows, columns), got shape {array.shape}.")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise DataError(f"The {what} contain {array[row, column]} in row {row}, column {column}.")
    return array
