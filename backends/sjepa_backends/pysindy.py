"""PySINDy's optimisers on our libraries."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import BackendError, ConfigError
from sjepa.symbolic.front import Front, combine_outputs
from sjepa.symbolic.gram import Gram
from sjepa.symbolic.law import Law
from sjepa.symbolic.library import Library
from sjepa_backends import _pysindy_path as optimisers
from sjepa_backends._supports import Fit, fit, refit_on_sums, undominated, warm_laws


# Terms that contribute less than this share of the target are rounding.
NEGLIGIBLE = 1e-12
# Further cuts along the default path; what they leave is another candidate.
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
    """

    name: ClassVar[str] = "pysindy"

    optimizer: str = "STLSQ"
    options: Mapping[str, Any] = field(default_factory=dict)
    path: Sequence[float] | None = None
    ensemble: Mapping[str, Any] | None = None
    debias: bool = True

    def __post_init__(self) -> None:
        optimisers.check_name(self.optimizer)
        # Arrays neither compare nor freeze; nested tuples do both.
        object.__setattr__(self, "options", {k: _plain(v) for k, v in self.options.items()})
        if self.path is not None:
            object.__setattr__(self, "path", tuple(self.path))
            if not self.path:
                raise ConfigError("A path needs at least one value; None is the default path.")
            if not optimisers.OPTIMISERS[self.optimizer].sparsity:
                raise ConfigError(f"{self.optimizer} makes its own path: leave `path` out.")

    def search(self, problem: Problem) -> Front:
        features, targets = problem.feature_rows()
        sums = problem.sums  # also refuses features that are not finite
        root = np.ones(sums.rows) if problem.weights is None else np.sqrt(problem.weights)
        used = root > 0
        theta = features[used] * root[used, None]
        run = _Run(self, problem)
        laws = run.laws(theta, targets[used] * root[used, None])
        for law in warm_laws(problem):
            laws += [law, refit_on_sums(problem, law)]
        return problem.front([_canonical(law) for law in laws], self.name, run.notes)

    def weak_front(
        self,
        x: np.ndarray | Sequence[np.ndarray],
        t: np.ndarray | Sequence[np.ndarray],
        library: Library,
        outputs: Sequence[str] | None = None,
        *,
        u: np.ndarray | Sequence[np.ndarray] | None = None,
        windows: int = 200,
        half_width: float | None = None,
        seed: int = 0,
    ) -> Front:
        """Laws from noisy trajectories in the weak form: nothing is differentiated.

        Both sides of the law are integrated against smooth bumps over many short windows of
        time (``pysindy.WeakPDELibrary``), which moves the derivative from the data to the bump.

        Parameters
        ----------
        x, t : arrays (n, d) and (n,), or lists of them
            States and times; the steps need not be equal.
        library : Library
            Of the states and, after them, the actions `u`.
        windows : int
            Windows for each trajectory.
        half_width : float, optional
            Half the length of a window in units of `t`; a twentieth of the trajectory by default.
            Noise calls for wider windows, fast dynamics for narrower ones.
        """
        from sjepa_backends._pysindy_weak import weak_rows

        with optimisers.quiet_and_seeded(seed):
            theta, targets = weak_rows(x, t, u, library, windows, half_width)
        problem = Problem(
            library=library,
            gram=Gram.from_features(theta, targets),
            outputs=tuple(outputs or library.inputs[: targets.shape[1]]),
            seed=seed,
        )
        run = _Run(self, problem)
        laws = [_canonical(law) for law in run.laws(theta, targets)]
        return problem.front(laws, self.name, run.notes)


class _Run:
    """One search: fits along the path, then a front from the supports that came out."""

    def __init__(self, settings: PySINDy, problem: Problem) -> None:
        self.settings, self.problem = settings, problem
        self.library, self.sums = problem.candidate_library, problem.sums
        self.allowed = self.library.mask(problem.outputs)  # (P, k)
        self.options = dict(settings.options)
        name = settings.optimizer
        self.joint = optimisers.OPTIMISERS[name].joint or "constraint_lhs" in self.options
        if self.joint and not self.allowed.all():
            raise ConfigError(
                f"{name} fits all outputs at once and cannot keep a mask; write it as "
                "constraints, or use another optimizer."
            )
        optimisers.check_options(name, self.options, settings.ensemble)
        budget = problem.budget
        if budget.iterations is not None:
            self.options.setdefault("max_iter", budget.iterations)
        self.deadline = math.inf if budget.seconds is None else time.monotonic() + budget.seconds
        self.notes: list[str] = []

    def laws(self, theta: np.ndarray, targets: np.ndarray) -> list[Law]:
        """From weighted features (n, P) and targets (n, k)."""
        if self.settings.ensemble is None and not self.options.get("trimming_fraction"):
            theta, targets = optimisers.compressed(theta, targets)
        with optimisers.quiet_and_seeded(self.problem.seed):
            found = list((self._together if self.joint else self._apart)(theta, targets))
        law, p = self.library.law, self.problem
        return [law(coefficients, p.outputs, p.dynamics) for coefficients in found]

    def _together(self, theta: np.ndarray, targets: np.ndarray) -> Iterator[np.ndarray]:
        """Coefficients (P, k) of all outputs at once."""
        yield np.zeros((theta.shape[1], targets.shape[1]))
        for c in self._path(theta, targets, 0.0, 1.0, scaled=False):
            yield c.T

    def _apart(self, theta: np.ndarray, targets: np.ndarray) -> Iterator[np.ndarray]:
        """Coefficients (P, k), the outputs fitted one by one and then combined."""
        fits = [self._one_output(j, theta, targets[:, j]) for j in range(targets.shape[1])]
        rows = [[(f.cost, f.loss, f.coefficients) for f in undominated(each)] for each in fits]
        for _, _, columns in combine_outputs(rows):
            yield np.stack(columns, axis=1)

    def _one_output(self, j: int, theta: np.ndarray, target: np.ndarray) -> list[Fit]:
        key = optimisers.OPTIMISERS[self.settings.optimizer].sparsity
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
        cuts = (NEGLIGIBLE, *PRUNING) if scaled else (NEGLIGIBLE,)
        return [f for vector in found for f in self._fits(j, vector, cuts)]

    def _path(
        self, theta: np.ndarray, targets: np.ndarray, begin: float, share: float, scaled: bool
    ) -> Iterator[np.ndarray]:
        """Coefficients (k, P) along the path, until the budget is used up."""
        s = self.settings
        path = optimisers.path_options(s.optimizer, self.options, s.path, scaled)
        failures = []
        for i, options in enumerate(path):
            if time.monotonic() > self.deadline:
                self.notes.append(f"out of time after {i} of {len(path)} points of the path")
                return
            try:
                fits = optimisers.fit_once(s.optimizer, options, s.ensemble, theta, targets)
            except (ValueError, np.linalg.LinAlgError, ArithmeticError, RuntimeError) as error:
                failures.append(str(error))
            else:
                yield from (c for c in fits if np.isfinite(c).all())
            self.problem.report(f"pysindy: {s.optimizer}", begin + share * (i + 1) / len(path))
        if len(failures) == len(path):
            raise BackendError(f"pysindy: {s.optimizer} failed: {failures[0]}")
        if failures:
            self.notes.append(f"{len(failures)} of {len(path)} fits failed: {failures[0]}")

    def _fits(self, j: int, vector: np.ndarray, cuts: Sequence[float]) -> list[Fit]:
        """The support refitted, each time without terms that contribute less than a cut.

        A penalised fit spreads weight over nearly dependent terms; once refitted without the
        penalty some of them turn out to do next to nothing.
        """
        if not self.settings.debias:
            columns = np.zeros_like(self.allowed, dtype=float)
            columns[:, j] = vector
            cost = float(self.library.weights[vector != 0].sum())
            return [Fit(cost, float(self.sums.loss(columns)[j]), vector)]
        found = [fit(self.problem, j, np.flatnonzero(vector))]
        for cut in cuts:
            contribution = np.abs(found[-1].coefficients) * np.sqrt(np.diag(self.sums.xx))
            kept = np.flatnonzero(contribution > cut * math.sqrt(self.sums.yy[j]))
            if len(kept) < np.count_nonzero(found[-1].coefficients):
                found.append(fit(self.problem, j, kept))
        return found[1:] if len(found) > 1 and cuts == (NEGLIGIBLE,) else found


def _canonical(law: Law) -> Law:
    return Law(law.expressions, law.inputs, law.outputs, law.dynamics)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(_plain(v) for v in value) if isinstance(value, list | tuple) else value
