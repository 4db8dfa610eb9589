"""The task of one backend: to search all data, then folds of them, scored on the rest."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

from sjepa.backend import Budget
from sjepa.backend.budget import cpu_time
from sjepa.data import Trajectories
from sjepa.discovery import discover
from sjepa.errors import DataError
from sjepa.estimator.regressor import SymbolicRegressor
from sjepa.symbolic import Front, Law


# Fewer observations than this in a part of a trajectory cannot be searched or scored.
MIN_LENGTH = 20


class Data(Protocol):
    """Data that can be searched, and cut into folds."""

    def search(self, backend: Any, budget: Budget, seed: int) -> Front: ...

    def folds(self, count: int, seed: int) -> list[tuple[Data, Data]]: ...

    def score(self, law: Law) -> float: ...


@dataclass(frozen=True, eq=False)
class TableData:
    """Rows of X (n, d) and y (n, k) for formulas; `settings` are those of SymbolicRegressor."""

    inputs: np.ndarray
    targets: np.ndarray
    names: Sequence[str]
    outputs: Sequence[str]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def search(self, backend: Any, budget: Budget, seed: int) -> Front:
        import pandas as pd

        y = pd.DataFrame(self.targets, columns=list(self.outputs))
        model = SymbolicRegressor(
            backend, budget=budget, random_state=seed, feature_names=list(self.names),
            verbose=False, **self.settings,
        )  # fmt: skip
        return model.fit(self.inputs, y).front_

    def folds(self, count: int, seed: int) -> list[tuple[Data, Data]]:
        cut = KFold(count, shuffle=True, random_state=seed).split(self.inputs)
        return [(self._rows(train), self._rows(test)) for train, test in cut]

    def _rows(self, rows: np.ndarray) -> TableData:
        return TableData(
            self.inputs[rows], self.targets[rows], self.names, self.outputs, self.settings
        )

    def score(self, law: Law) -> float:
        values = law.numpy()(self.inputs)
        if not np.isfinite(values).all():
            return float("-inf")
        return float(r2_score(self.targets, values))


@dataclass(frozen=True, eq=False)
class TrajectoryData:
    """Trajectories for equations of motion; `settings` are those of discover."""

    data: Trajectories
    settings: Mapping[str, Any] = field(default_factory=dict)

    def search(self, backend: Any, budget: Budget, seed: int) -> Front:
        return discover(
            self.data,
            backend=backend,
            budget=budget,
            random_state=seed,
            verbose=False,
            **self.settings,
        )

    def folds(self, count: int, seed: int) -> list[tuple[Data, Data]]:
        """Whole trajectories are left out, or parts of them where they are fewer than the folds."""
        parts = self.data if len(self.data) >= count else _cut(self.data, count)
        cut = KFold(count, shuffle=True, random_state=seed).split(np.arange(len(parts)))
        return [
            (
                TrajectoryData(parts[train], self.settings),
                TrajectoryData(parts[test], self.settings),
            )
            for train, test in cut
        ]

    def score(self, law: Law) -> float:
        return float(law.score(self.data))


def _cut(data: Trajectories, count: int) -> Trajectories:
    """Every trajectory in `count` parts of equal length."""
    x, t, u = [], [], []
    for i, states in enumerate(data.x):
        if len(states) < MIN_LENGTH * count:
            raise DataError(
                f"Trajectory {i} has {len(states)} observations, too few to be cut into {count} "
                f"parts of {MIN_LENGTH}: give more trajectories, or a smaller cv.", "cv",
            )  # fmt: skip
        for rows in np.array_split(np.arange(len(states)), count):
            x.append(states[rows])
            t.append(data.t[i][rows])
            if data.u is not None:
                u.append(data.u[i][rows])
    return Trajectories(
        x, t, u if data.u is not None else None, names=data.names,
        input_names=data.input_names, gaps="keep",
    )  # fmt: skip


@dataclass(frozen=True)
class BackendResult:
    """One backend's front, the laws and scores of its folds, CPU seconds, or its error.

    `seconds` is the search of all data; those of the folds come on top.
    """

    label: str
    front: Front | None = None
    laws: tuple[Law, ...] = ()
    scores: tuple[float, ...] = ()
    seconds: float = float("nan")
    error: str = ""


@dataclass(frozen=True, eq=False)
class BackendTask:
    """One backend on one data set; can be sent to any worker."""

    label: str
    backend: Any
    data: Data
    seconds: float
    cv: int
    seed: int

    def run(self) -> BackendResult:
        """Any exception becomes the result's `error`."""
        budget, start = Budget(self.seconds, cpu=True), cpu_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the verdict is in the table
            try:
                front = self.data.search(self.backend, budget, self.seed)
                seconds = cpu_time() - start
                front.best()  # an empty front has none, and says why
                laws, scores = [], []
                for train, test in self.data.folds(self.cv, self.seed):
                    law = train.search(self.backend, budget, self.seed).best()
                    laws.append(law)
                    scores.append(test.score(law))
            except Exception as error:  # a failing backend is a row, not a crash
                text = " ".join(str(error).split())[:300]
                return BackendResult(
                    self.label, seconds=cpu_time() - start, error=f"{type(error).__name__}: {text}"
                )
        return BackendResult(self.label, front, tuple(laws), tuple(scores), seconds)
