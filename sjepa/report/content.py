"""What a report is made of: plain data, wherever it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from sjepa.data import Trajectories
from sjepa.errors import LawError
from sjepa.metrics import path_r2
from sjepa.models import Simulator
from sjepa.symbolic import Front, Law


# The score is taken over this many trajectories at most; a page should not take minutes.
MAX_SIMULATED = 40
# Enough to see how a law fits data; each is a figure of its own.
MAX_TRAILS = 6
# A curve of more points looks the same and only makes the page heavy.
MAX_POINTS = 400


@dataclass(frozen=True, eq=False)
class Trail:
    """One trajectory: the states that were seen, and the law's path from the first of them."""

    t: np.ndarray
    seen: np.ndarray
    path: np.ndarray
    u: np.ndarray | None = None
    status: str = "ok"
    name: str = ""


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything a report shows.

    Attributes
    ----------
    title : str
    law : Law
    front : Front or None
    notes : diagnostics in plain words
    trails : trajectories of coordinates with the law's own
    names : names of the state's coordinates, as in ``trails[i].seen``
    score : R2 of the simulated paths, minus infinity where one diverges; NaN when there are none
    history : table of training figures against ``step``; may be empty
    facts : short label -> short text, shown at the top
    recipe : lines of code or commands that make the result again
    """

    title: str
    law: Law
    front: Front | None = None
    notes: tuple[str, ...] = ()
    trails: tuple[Trail, ...] = ()
    names: tuple[str, ...] = ()
    score: float = math.nan
    history: pd.DataFrame = field(default_factory=pd.DataFrame)
    facts: Mapping[str, str] = field(default_factory=dict)
    recipe: tuple[str, ...] = ()

    @property
    def simulator(self) -> Simulator | None:
        """The law's own, or None if it is a formula for something else."""
        try:
            return Simulator(self.law)
        except LawError:
            return None

    @property
    def laws(self) -> int:
        return 1 if self.front is None else len(self.front)

    def with_recipe(self, recipe: Sequence[str]) -> ReportData:
        return replace(self, recipe=tuple(recipe))

    def chosen(self) -> int | None:
        """Which law of the front this is: the same one, or the same before its refinement."""
        return None if self.front is None else self.front.position(self.law)


def simulated(source: Any, coordinates: Trajectories) -> tuple[tuple[Trail, ...], float]:
    """Paths of a law or a fitted model beside trajectories of coordinates, and their R2.

    The R2 is that of :func:`sjepa.metrics.path_r2`, as in ``SJEPA.score``.
    """
    try:
        simulator = Simulator(source)
    except LawError:
        return (), math.nan
    coordinates = simulator.select(coordinates)
    coordinates = coordinates[:: -(-len(coordinates) // MAX_SIMULATED)]
    paths = simulator.beside(coordinates)
    trails = tuple(
        _thin(
            Trail(
                t,
                simulator.states(z, t),
                path.z,
                coordinates.u[i] if coordinates.u is not None and simulator.actions else None,
                path.status,
                coordinates.ids[i] if coordinates.ids else f"Trajectory {i + 1}",
            )
        )
        for i, (z, t, path) in enumerate(
            zip(coordinates.x[:MAX_TRAILS], coordinates.t, paths, strict=False)
        )
    )
    return trails, path_r2(paths, coordinates.x)


def _thin(trail: Trail) -> Trail:
    rows = np.unique(np.linspace(0, len(trail.t) - 1, MAX_POINTS).astype(int))
    u = None if trail.u is None else trail.u[rows]
    return replace(trail, t=trail.t[rows], seen=trail.seen[rows], path=trail.path[rows], u=u)


def history_table(records: Any) -> pd.DataFrame:
    """Training figures as columns against ``step``.

    Takes a wide table, or a long one with the columns ``metric`` and ``value`` as ``history_``
    has it, in which the other columns (stage, cycle, epoch) say when. Columns that are not
    numbers, constant or empty are left out.
    """
    frame = records if isinstance(records, pd.DataFrame) else pd.DataFrame(list(records))
    if {"metric", "value"} <= set(frame.columns):
        if "stage" in frame.columns:
            frame = frame[frame["stage"] != "final"]
        when = [c for c in ("stage", "cycle", "epoch", "step") if c in frame.columns]
        if not when or not len(frame):
            return pd.DataFrame()
        moments = frame.groupby(when, sort=False).ngroup() + 1
        frame = pd.DataFrame(
            {"step": moments, "metric": frame["metric"].astype(str), "value": frame["value"]}
        )
        frame = frame.pivot_table(index="step", columns="metric", values="value").reset_index()
        frame.columns.name = None
    key = next((c for c in ("step", "epoch", "cycle", "iteration") if c in frame.columns), None)
    numbers = frame.select_dtypes("number").drop(columns=[key] if key else [])
    numbers = numbers.loc[:, numbers.nunique() > 1]
    if len(numbers) < 2 or numbers.empty:
        return pd.DataFrame()
    steps: Sequence[Any] = range(1, len(frame) + 1) if key is None else list(frame[key])
    return pd.concat([pd.Series(steps, name="step", index=numbers.index), numbers], axis=1)
