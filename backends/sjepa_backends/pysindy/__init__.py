"""PySINDy's optimizers on our libraries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import BackendError, ConfigError
from sjepa.symbolic import Library
from sjepa.symbolic.front import Front
from sjepa.symbolic.imports.pysindy import library_from_pysindy
from sjepa_backends.pysindy import path as optimizers
from sjepa_backends.supports import (
    SEARCH_SHARE,
    SupportFit,
    fit,
    joint_front,
    warm_laws,
    warm_supports,
)


# Terms that contribute less than this share of the target are rounding.
NEGLIGIBLE = 1e-12
# Further cuts; what they leave is another candidate.
PRUNING = (1e-6, 1e-4, 1e-3)


@dataclass(frozen=True)
class PySINDy(Backend):
    """Sparse regression by PySINDy, with the features computed from our library.

    Parameters
    ----------
    optimizer : str, default="STLSQ"
        Name of a class of ``pysindy.optimizers``: STLSQ, SR3, SSR, FROLS, ConstrainedSR3,
        StableLinearSR3, TrappingSR3 or MIOSR. Some need an extra of PySINDy.
    options : mapping, optional
        Arguments of that class, in PySINDy's own units. Constraints (``constraint_lhs``, ...) go
        here; they couple the outputs, so masks cannot be used with them and the coefficients are
        returned as PySINDy found them.
    path : sequence of float, optional
        Values of the argument that sets the sparsity, one fit for each: ``threshold``,
        ``reg_weight_lam`` or ``target_sparsity``. By default 21 values, relative to the size of
        the target, on columns scaled to unit size; if `options` has the argument, only that one
        value. SSR and FROLS have no such argument: every step they take is a candidate.
    ensemble : mapping, optional
        Arguments of ``pysindy.EnsembleOptimizer``, such as ``{"bagging": True}``.
    debias : bool, default=True
        Solve again for the coefficients of each support, without penalty and on all rows.
    feature_library : optional
        A feature library of PySINDy: what is searched where no library is given.
    """

    name: ClassVar[str] = "pysindy"
    constrains: ClassVar[bool] = True
    plain: ClassVar[frozenset[str]] = frozenset({"optimizer", "path", "debias"})

    optimizer: str = "STLSQ"
    options: Mapping[str, Any] = field(default_factory=dict)
    path: Sequence[float] | None = None
    ensemble: Mapping[str, Any] | None = None
    debias: bool = True
    feature_library: Any = field(default=None, hash=False)

    def space(self, names: Sequence[str]) -> Library | None:
        if self.feature_library is None:
            return None
        return library_from_pysindy(self.feature_library, names)

    def __post_init__(self) -> None:
        optimizers.check_name(self.optimizer)
        # Arrays neither compare nor freeze; nested tuples do both.
        object.__setattr__(self, "options", {k: _plain(v) for k, v in self.options.items()})
        if self.path is not None:
            object.__setattr__(self, "path", tuple(self.path))
            if not self.path:
                raise ConfigError("A path needs at least one value; None is the default path.")
            if not optimizers.OPTIMIZERS[self.optimizer].sparsity:
                raise ConfigError(f"{self.optimizer} makes its own path: leave `path` out.")

    def search(self, problem: Problem) -> Front:
        features, targets = problem.feature_rows()
        sums = problem.sums  # also refuses features that are not finite
        root = np.ones(sums.rows) if problem.weights is None else np.sqrt(problem.weights)
        used = root > 0
        theta = features[used] * root[used, None]
        run = _Run(self, problem)
        if self.feature_library is not None and not _same_terms(
            problem.candidate_library, self.space(problem.names)
        ):
            run.notes.append("another library was searched than that of the PySINDy model")
        return run.front(theta, targets[used] * root[used, None])


def _same_terms(library: Library, other: Library | None) -> bool:
    return other is not None and set(library.terms) == set(other.terms)


class _Run:
    """One search: fits along the path, then a front from the supports that came out."""

    def __init__(self, settings: PySINDy, problem: Problem) -> None:
        self.settings, self.problem = settings, problem
        self.library, self.sums = problem.candidate_library, problem.sums
        self.options = dict(settings.options)
        name = settings.optimizer
        self.joint = optimizers.OPTIMIZERS[name].joint or "constraint_lhs" in self.options
        # Constraints are written for all terms, so none can be left out there.
        self.allowed = self.library.mask(problem.outputs) if self.joint else problem.usable
        if not self.allowed.all() and self.joint:
            raise ConfigError(
                f"{name} fits all outputs at once and cannot keep a mask; write it as "
                "constraints, or use another optimizer."
            )
        if problem.signs is not None and (self.joint or not settings.debias):
            raise ConfigError(f"pysindy keeps constraints with debias=True, and not with {name}.")
        optimizers.check_options(name, self.options, settings.ensemble)
        budget = problem.budget
        if budget.iterations is not None:
            self.options.setdefault("max_iter", budget.iterations)
        self.deadline = problem.deadline(SEARCH_SHARE)
        self.notes: list[str] = []

    def front(self, theta: np.ndarray, targets: np.ndarray) -> Front:
        """From weighted features (n, P) and targets (n, k)."""
        problem, name = self.problem, self.settings.name
        end, warm = problem.deadline(), warm_supports(problem)
        if self.settings.ensemble is None and not self.options.get("trimming_fraction"):
            theta, targets = optimizers.compressed(theta, targets)
        with optimizers.quiet_and_seeded(problem.seed):
            if self.joint:
                found = [c.T for c in self._path(theta, targets, 0.0, 1.0, scaled=False)]
                columns = [np.zeros((theta.shape[1], targets.shape[1])), *found]
                laws = [self.library.law(c, problem.outputs, problem.dynamics) for c in columns]
                laws += warm_laws(problem)
                return problem.front([law.canonical() for law in laws], name, self.notes)
            fits = [self._one_output(j, theta, y) for j, y in enumerate(targets.T)]
        fits = [
            [*of_output, *(fit(problem, j, s) for s in warm[j])] for j, of_output in enumerate(fits)
        ]
        return joint_front(problem, fits, name, self.notes, end=end)

    def _one_output(self, j: int, theta: np.ndarray, target: np.ndarray) -> list[SupportFit]:
        key = optimizers.OPTIMIZERS[self.settings.optimizer].sparsity
        scaled = self.settings.path is None and key not in self.options
        sizes = np.linalg.norm(theta, axis=0)
        columns = np.flatnonzero(self.allowed[:, j] & (sizes > 0))
        found = [np.zeros(len(sizes))]
        if len(columns) and target.any():
            # Unit mean square over the rows of the data, so that one path serves all units.
            rows = math.sqrt(self.sums.rows)
            unit = sizes[columns] / rows if scaled else np.ones(len(columns))
            size = float(np.linalg.norm(target)) / rows if scaled else 1.0
            share = 1.0 / len(self.problem.outputs)
            y = target[:, None] / size
            for c in self._path(theta[:, columns] / unit, y, j * share, share, scaled):
                found.append(np.zeros(len(sizes)))
                found[-1][columns] = c[0] * size / unit
        return [f for vector in found for f in self._fits(j, vector, (NEGLIGIBLE, *PRUNING))]

    def _path(
        self, theta: np.ndarray, targets: np.ndarray, begin: float, share: float, scaled: bool
    ) -> Iterator[np.ndarray]:
        """Coefficients (k, P) along the path, until the budget is used up."""
        s = self.settings
        path = optimizers.path_options(s.optimizer, self.options, s.path, scaled)
        failures = []
        for i, options in enumerate(path):
            if self.problem.clock() > self.deadline:
                self.notes.append(f"out of time after {i} of {len(path)} points of the path")
                return
            try:
                fits = optimizers.fit_once(s.optimizer, options, s.ensemble, theta, targets)
            except (ValueError, np.linalg.LinAlgError, ArithmeticError, RuntimeError) as error:
                failures.append(str(error))
            else:
                yield from (c for c in fits if np.isfinite(c).all())
            self.problem.report(f"pysindy: {s.optimizer}", begin + share * (i + 1) / len(path))
        if len(failures) == len(path):
            raise BackendError(f"pysindy: {s.optimizer} failed: {failures[0]}")
        if failures:
            self.notes.append(f"{len(failures)} of {len(path)} fits failed: {failures[0]}")

    def _kept(self, j: int, support_fit: SupportFit, cut: float) -> np.ndarray:
        """The terms that contribute more than a share of the target."""
        contribution = np.abs(support_fit.coefficients) * np.sqrt(np.diag(self.sums.xx))
        return np.flatnonzero(contribution > cut * math.sqrt(self.sums.yy[j]))

    def _fits(self, j: int, vector: np.ndarray, cuts: Sequence[float]) -> list[SupportFit]:
        """The support refitted, each time without terms that contribute less than a cut.

        A penalized fit spreads weight over nearly dependent terms; once refitted without the
        penalty some of them turn out to do next to nothing.
        """
        if not self.settings.debias:
            columns = np.zeros_like(self.allowed, dtype=float)
            columns[:, j] = vector
            cost = float(self.library.weights[vector != 0].sum())
            return [SupportFit(cost, float(self.sums.loss(columns)[j]), vector)]
        found = [fit(self.problem, j, np.flatnonzero(vector))]
        for cut in cuts:
            while len(kept := self._kept(j, found[-1], cut)) < np.count_nonzero(
                found[-1].coefficients
            ):
                found.append(fit(self.problem, j, kept))
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(_plain(v) for v in value) if isinstance(value, list | tuple) else value
