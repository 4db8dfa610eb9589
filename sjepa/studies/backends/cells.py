"""One cell of the benchmark: one backend on one data set."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sjepa.data import System, Trajectories, dysts_system, find_system, simulate
from sjepa.discovery import discover
from sjepa.studies.backends.scores import field_error, match, valid_time
from sjepa.symbolic import Grammar, Law, Library


COLUMNS = (
    "system", "backend", "noise", "seed", "recovered", "precision", "recall", "omega_terms",
    "omega_tree", "field_error", "valid_time", "seconds", "error", "equation",
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


def system_of(name: str) -> System:
    """One of ours, or with the prefix ``dysts:`` one of that package."""
    if name.startswith("dysts:"):
        return dysts_system(name.removeprefix("dysts:"))
    return find_system(name)


def true_law(system: System) -> Law:
    return Law.from_string(
        list(system.equations), [*system.inputs, *system.actions], list(system.inputs)
    )


def run_cell(cell: Cell) -> dict[str, Any]:
    """Simulate, search, score. Whatever goes wrong becomes the row's ``error``."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"system": cell.system, "backend": cell.backend, "noise": cell.noise, "seed": cell.seed}
    row |= {"recovered": False, "error": "", "equation": ""}
    start = time.perf_counter()
    try:
        system = system_of(cell.system)
        train = simulate(system, seed=cell.seed, noise=cell.noise)
        start = time.perf_counter()
        front = discover(
            train,
            backend={"name": cell.backend, **cell.options},
            library=cell.library,
            grammar=cell.grammar,
            seed=cell.seed,
            budget=cell.seconds,
        )
        law = front.best()
        row["seconds"] = time.perf_counter() - start
        row |= _scores(law, system, cell.seed)
    except Exception as error:  # a failing backend is a row, not a crash
        row["seconds"] = time.perf_counter() - start
        row["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
    return row


def _scores(law: Law, system: System, seed: int) -> dict[str, Any]:
    truth = true_law(system)
    found = match(law, truth)
    test = simulate(system, seed=TEST_SEED + seed, trajectories=4)
    return {
        "recovered": found.recovered,
        "precision": found.precision,
        "recall": found.recall,
        "omega_terms": law.complexity("terms"),
        "omega_tree": law.complexity("tree"),
        "field_error": field_error(law, truth, _rows(test)),
        "valid_time": valid_time(law, test),
        "equation": "; ".join(law.lines(digits=5)),
    }


def _rows(test: Trajectories) -> np.ndarray:
    if test.u is None:
        return np.concatenate(test.x)
    return np.concatenate(
        [np.concatenate([x, u], axis=1) for x, u in zip(test.x, test.u, strict=True)]
    )
