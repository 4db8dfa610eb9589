"""One cell of the benchmark: one backend on one data set, and how its law is scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from sjepa.backend import Backend, Budget, Problem
from sjepa.backend.budget import cpu_time
from sjepa.backend.portfolio import Portfolio
from sjepa.backend.registry import make_backend
from sjepa.data import System, Trajectories, find_system, simulate
from sjepa.data.rows import inputs_of
from sjepa.discovery import discover
from sjepa.estimator.table_space import default_grammar
from sjepa.models import Simulator
from sjepa.studies.backends.problems import PROBLEMS, noise_floor, noisy_sample, static_scores
from sjepa.symbolic import Front, Grammar, Law, Library


# A prediction counts as valid while its error stays below this share of the states' spread.
VALID = 0.4
# Coefficients may be off by this share in a law that counts as recovered.
COEFFICIENTS = 0.1


@dataclass(frozen=True)
class Match:
    """Terms in common, counted as pairs of output and term."""

    recovered: bool
    precision: float
    recall: float


def match(law: Law, truth: Law, tolerance: float = COEFFICIENTS) -> Match:
    """Compare structures; `recovered` also asks for coefficients within `tolerance`."""
    terms = {(j, term): c for j, pairs in enumerate(law.terms) for c, term in pairs}
    true_terms = {(j, term): c for j, pairs in enumerate(truth.terms) for c, term in pairs}
    common = terms.keys() & true_terms.keys()
    close = all(abs(terms[k] - true_terms[k]) <= tolerance * abs(true_terms[k]) for k in common)
    return Match(
        recovered=terms.keys() == true_terms.keys() and close,
        precision=len(common) / len(terms) if terms else 0.0,
        recall=len(common) / len(true_terms),
    )


def field_error(law: Law, truth: Law, inputs: np.ndarray) -> float:
    """Root mean square error of the derivative over its own root mean square."""
    expected = truth.numpy()(inputs)
    error = law.numpy()(inputs) - expected
    if not np.isfinite(error).all():
        return float("inf")
    scale = np.sqrt(np.mean(expected**2, axis=0))
    return float(np.sqrt(np.mean((error / np.maximum(scale, 1e-300)) ** 2)))


def valid_time(law: Law, test: Trajectories, threshold: float = VALID) -> float:
    """Mean share of each test trajectory that a simulation from its start follows."""
    spread = np.concatenate(test.x).std(axis=0)
    simulator, shares = Simulator(law), []
    for i, (x, t) in enumerate(zip(test.x, test.t, strict=True)):
        # Smooth between samples: a kink in the input would make the solver crawl.
        action = None if test.u is None else CubicSpline(t, test.u[i])
        path = simulator.simulate(x[0], t, action, max_seconds=5.0, max_evaluations=20_000).z
        error = np.sqrt(np.mean(((path - x) / spread) ** 2, axis=1))
        wrong = np.flatnonzero(~(error <= threshold))
        last = t[wrong[0] - 1] if len(wrong) and wrong[0] else t[0] if len(wrong) else t[-1]
        shares.append((last - t[0]) / (t[-1] - t[0]))
    return float(np.mean(shares))


COLUMNS = (
    "system", "backend", "noise", "seed", "recovered", "precision", "recall", "omega_terms",
    "omega_tree", "field_error", "valid_time", "r2", "r2_beyond", "budget", "seconds", "error",
    "equation",
)  # fmt: skip

# Test trajectories start elsewhere: their seeds are far from every training seed.
TEST_SEED = 1_000_000


@dataclass(frozen=True)
class Cell:
    """What to run; plain data, so that it can be sent to a worker anywhere."""

    system: str
    backend: str
    noise: float
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = 60.0
    library: Library | None = None
    grammar: Grammar | None = None


def true_law(system: System) -> Law:
    return Law.from_string(
        list(system.equations), [*system.inputs, *system.actions], list(system.inputs)
    )


def run_cell(cell: Cell) -> dict[str, Any]:
    """Make data, search, score. Whatever goes wrong becomes the row's ``error``.

    Budgets and times are processor time of the process that runs the cell and of its workers.
    """
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"system": cell.system, "backend": cell.backend, "noise": cell.noise, "seed": cell.seed}
    row |= {"recovered": False, "error": "", "equation": "", "budget": cell.seconds}
    start = cpu_time()
    try:
        backend = make_backend(cell.backend, **cell.options)
        if cell.system in PROBLEMS:
            static = PROBLEMS[cell.system]
            problem = static_task(cell)
            start = cpu_time()
            law = _chosen(problem.solve(_patient(backend)), problem.enough)
            row["seconds"] = cpu_time() - start
            row |= static_scores(law, static, cell.noise, TEST_SEED + cell.seed)
        else:
            system = find_system(cell.system)
            train = simulate(system, seed=cell.seed, noise=cell.noise)
            start = cpu_time()
            law = discover(
                train, backend=backend, library=cell.library, grammar=cell.grammar,
                random_state=cell.seed, verbose=False, budget=Budget(cell.seconds, cpu=True),
            ).best()  # fmt: skip
            row["seconds"] = cpu_time() - start
            row |= _scores(law, system, cell.seed)
        row |= {
            "omega_terms": law.complexity("terms"),
            "omega_tree": law.complexity("tree"),
            "equation": "; ".join(law.lines(digits=5)),
        }
    except Exception as error:  # a failing backend is a row, not a crash
        row["seconds"] = cpu_time() - start
        row["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
    return row


def static_task(cell: Cell) -> Problem:
    """The same for every backend: its rows, the default grammar, and a loss that ends the search.

    That loss is what the noise leaves of the true formula, which makes no difference between
    backends; without noise it is rounding.
    """
    static = PROBLEMS[cell.system]
    x, y = noisy_sample(static, cell.noise, cell.seed)
    grammar = cell.grammar
    if grammar is None and cell.library is None:
        grammar = default_grammar(static.inputs, x)
    return Problem(
        x, y, static.inputs, ["y"], library=cell.library, grammar=grammar, dynamics="discrete",
        budget=Budget(cell.seconds, cpu=True), seed=cell.seed,
        adequate=noise_floor(cell.noise, len(x)),
    )  # fmt: skip


def _patient(backend: Backend) -> Backend:
    """A tree search that ends early is restarted, as in a list of backends."""
    return (
        Portfolio((backend,)) if backend.trees and not isinstance(backend, Portfolio) else backend
    )


def _chosen(front: Front, enough: float) -> Law:
    """The simplest law that is good enough; without one, that at the knee."""
    reached = [c.law for c in front if c.loss <= enough]
    return reached[0] if reached else front.best()


def _scores(law: Law, system: System, seed: int) -> dict[str, Any]:
    truth = true_law(system)
    matched = match(law, truth)
    test = simulate(system, seed=TEST_SEED + seed, trajectories=4)
    return {
        "recovered": matched.recovered,
        "precision": matched.precision,
        "recall": matched.recall,
        "field_error": field_error(law, truth, np.concatenate(inputs_of(test))),
        "valid_time": valid_time(law, test),
    }
