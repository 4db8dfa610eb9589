"""The candidate set S_M: structures that searches propose on one part of the data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sjepa.backend import Backend, Budget
from sjepa.backend.executors import run_on
from sjepa.backend.registry import make_backend
from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import residuals
from sjepa.bayes.transitions import StepModel, Transitions
from sjepa.data import Trajectories
from sjepa.data.derivative_settings import DerivativeSettings
from sjepa.discovery import discover
from sjepa.errors import ConfigError, LawError, NumericalWarning
from sjepa.settings import choice_of
from sjepa.symbolic import Candidate, Front, Grammar, Law, Library
from sjepa.symbolic.complexity import MEASURES


# Laws whose right-hand sides differ by less than this share of their size are the same law.
SAME = 1e-6


def propose(
    trajectories: Trajectories,
    backends: Sequence[Any],
    *,
    library: Library | Sequence[str] | None = None,
    grammar: Grammar | None = None,
    derivatives: str | DerivativeSettings = "smooth",
    n_bootstrap: int = 0,
    seed: int = 0,
    budget: Budget | None = None,
) -> list[Front]:
    """One front for each backend, and one more for each resample of the trajectories.

    Resampling whole trajectories makes backends propose what they would have found on other data
    of this kind, so that more than one law of a length gets a chance. Those that are drawn twice
    are given once: a copy is no evidence.
    """
    rng = np.random.default_rng(seed)
    samples = [trajectories]
    for _ in range(n_bootstrap if len(trajectories) > 1 else 0):
        drawn = rng.integers(len(trajectories), size=len(trajectories))
        samples.append(trajectories[np.unique(drawn)])
    jobs = [
        (backend, sample, seed + i, bool(i))
        for backend in map(make_backend, backends)
        for i, sample in enumerate(samples[:1] if backend.trees else samples)
    ]
    budget = budget or Budget()
    search = {
        "library": library, "grammar": grammar, "derivatives": derivatives,
        "budget": Budget(budget.seconds, budget.iterations, budget.cpu),
    }  # fmt: skip
    return list(run_on(budget.executor, partial(_proposed, search), jobs, budget.workers))


def _proposed(
    search: Mapping[str, Any], number: int, job: tuple[Backend, Trajectories, int, bool]
) -> Front:
    backend, sample, seed, resampled = job
    with warnings.catch_warnings():
        # A resample has fewer different rows; what is wrong with them all is said once.
        warnings.simplefilter("ignore" if resampled else "default", NumericalWarning)
        return discover(sample, backend=backend, random_state=seed, verbose=False, **search)


def structures(
    fronts: Front | Iterable[Front | Law],
    *,
    measure: str = "auto",
    library: Library | None = None,
    weights: Mapping[str, float] | None = None,
) -> list[ParametricLaw]:
    """The different structures of fronts and laws, simplest first.

    Laws that differ in their coefficients only are one structure. `measure` is the complexity
    C_sym; "auto" takes the fronts' own, or "tree" where they disagree or there is none.
    """
    proposals = [fronts] if isinstance(fronts, Front | Law) else list(fronts)
    if choice_of(measure, "measure", ("auto", *MEASURES)) == "auto":
        measures = {f.measure for f in proposals if isinstance(f, Front)}
        plain = "terms" if library is not None else "tree"
        measure = measures.pop() if len(measures) == 1 else plain
    laws: list[tuple[Law, Candidate | None]] = []
    for item in proposals:
        if not isinstance(item, Front | Law):
            raise ConfigError(f"Candidates are fronts or laws, got {type(item).__name__}.")
        laws += [(item, None)] if isinstance(item, Law) else [(c.law, c) for c in item]
    if not laws:
        raise LawError("There is no candidate law; give more data, a larger library or budget.")
    by_structure: dict[Any, ParametricLaw] = {}
    for law, candidate in laws:
        if measure == "terms" and candidate is not None:
            cost = candidate.terms
        elif measure == "terms":
            cost = law.complexity("terms", library)
        else:
            cost = _tree(law, weights)
        structure = ParametricLaw(law, cost)
        by_structure.setdefault(structure.key, structure)
    kinds = {(s.law.inputs, s.law.outputs, s.law.dynamics) for s in by_structure.values()}
    if len(kinds) > 1:
        raise LawError(f"The candidates disagree about inputs, outputs or kind: {sorted(kinds)}.")
    return sorted(by_structure.values(), key=lambda s: (s.complexity, str(s.law)))


def retain(
    proposed: Sequence[ParametricLaw],
    rows: Transitions,
    step: StepModel,
    max_candidates: int,
    gamma: float = 1.0,
    rule: str = "mixed",
) -> list[ParametricLaw]:
    """At most `max_candidates` structures: half of them from the front of error and complexity.

    With the rule "pareto" all of them, as the paper's Algorithm 2 is printed.

    The front keeps short rivals in the race, which few data cannot tell apart; the rest are
    those that look best on these rows, whose rivals are of their own length. Best means the log
    likelihood there, with the coefficients of the search, less γ times the complexity. Of laws
    that say the same in these rows the simplest is kept; laws undefined there are dropped.
    """
    scored: list[tuple[float, bool, ParametricLaw]] = []
    values: list[Tensor] = []
    lowest = float("inf")
    for structure in sorted(proposed, key=lambda s: s.complexity):
        value = structure(rows.inputs, structure.start)
        residual = residuals(structure, structure.start, rows, step) / step.spread(rows.dt)
        size = value.square().mean(0).sqrt().clamp_min(1e-300)
        if not (value.isfinite().all() and residual.isfinite().all()):
            continue
        if any((((value - v) / size).abs() < SAME).all() for v in values):
            continue
        values.append(value)
        error = residual.square().mean(0).clamp_min(1e-300)
        loss = 0.5 * len(rows) * float(error.log().sum())
        scored.append((loss + gamma * structure.complexity, loss < lowest, structure))
        lowest = min(lowest, loss)
    if not scored:
        raise LawError("No candidate law is defined on all of the data.")
    scored.sort(key=lambda row: row[0])
    if rule == "pareto":
        retained = [row for row in scored if row[1]][:max_candidates]
        return sorted((s for _, _, s in retained), key=lambda s: s.complexity)
    retained = [row for row in scored if row[1]][: (max_candidates + 1) // 2]
    retained += [row for row in scored if row not in retained][: max_candidates - len(retained)]
    return sorted((s for _, _, s in retained), key=lambda s: s.complexity)


def _tree(law: Law, weights: Mapping[str, float] | None) -> float:
    """Tree complexity with a number in front of every term, whatever its value."""
    free = law.with_free_terms()
    generic = 1.0 + np.sqrt(2.0 + torch.arange(len(free.coefficients)).numpy()) % 1.0
    return free.with_coefficients(generic).complexity("tree", weights=weights)
