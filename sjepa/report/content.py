"""What a report is made of: plain data, wherever it comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from sjepa.data import Trajectories
from sjepa.errors import LawError
from sjepa.metrics import r2
from sjepa.models import Motion
from sjepa.symbolic import Front, Law


# The score is taken over so many trajectories at most; a page should not take minutes.
MOST_FOLLOWED = 40
# Enough to see how a law follows data; each is a figure of its own.
MOST_TRAILS = 6
# A curve of more points looks the same and only makes the page heavy.
MOST_POINTS = 400


@dataclass(frozen=True, eq=False)
class Trail:
    """One trajectory: the states that were seen, and the law's path from the first of them."""

    t: np.ndarray
    seen: np.ndarray
    path: np.ndarray
    u: np.ndarray | None = None
    status: str = "ok"


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
    score : R2 of the law's paths over all trajectories; NaN when there are none
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
    def motion(self) -> Motion | None:
        return motion_of(self.law)

    @property
    def laws(self) -> int:
        return 1 if self.front is None else len(self.front)

    def with_recipe(self, recipe: Sequence[str]) -> ReportData:
        return replace(self, recipe=tuple(recipe))

    def chosen(self) -> int | None:
        """Which law of the front this is: the same one, or the same before its refinement."""
        if self.front is None:
            return None
        for i, candidate in enumerate(self.front):
            if candidate.law == self.law:
                return i
        form = _structure(self.law)
        alike = [i for i, c in enumerate(self.front) if _structure(c.law) == form]
        return alike[0] if alike else None


def motion_of(law: Law) -> Motion | None:
    """The law as a motion, or None if it is a formula for something else."""
    try:
        return Motion(law)
    except LawError:
        return None


def _structure(law: Law) -> Any:
    return [sorted(str(term) for _, term in row) for row in law.terms]


def select_states(motion: Motion, data: Trajectories) -> Trajectories:
    """The law's own variables from named columns, in its order; unnamed data stay as they are."""
    own = data.names or ()
    if own == motion.names or not set(motion.names) <= set(own):
        return data
    rows = [own.index(name) for name in motion.names]
    u, missing = data.u, [a for a in motion.actions if a not in (data.action_names or ())]
    if missing and set(motion.actions) <= set(own):
        actions = [own.index(name) for name in motion.actions]
        u = [x[:, actions] for x in data.x]
    return Trajectories([x[:, rows] for x in data.x], data.t, u, names=motion.names)


def follow(
    law: Law, coordinates: Trajectories, paths_of: Callable[[int], Any] | None = None
) -> tuple[tuple[Trail, ...], float]:
    """The law's paths beside trajectories of coordinates, and their R2.

    `paths_of` gives the simulation of a trajectory where it is not the law alone that moves it.
    A path that diverges counts as the mean from there on, as in ``SJEPA.score``.
    """
    motion = motion_of(law)
    if motion is None:
        return (), math.nan
    coordinates = select_states(motion, coordinates)
    trails: list[Trail] = []
    truth, paths = [], []
    for i in range(0, len(coordinates), -(-len(coordinates) // MOST_FOLLOWED)):
        t = coordinates.t[i]
        seen = motion.states(coordinates.x[i], t)
        u = coordinates.u[i] if coordinates.u is not None and motion.actions else None
        run = paths_of(i) if paths_of else motion.simulate(seen[0], t, u, max_seconds=10.0)
        truth.append(seen)
        paths.append(np.where(np.isfinite(run.z), run.z, seen.mean(axis=0)))
        if len(trails) < MOST_TRAILS:
            trails.append(_thin(Trail(t, seen, run.z, u, run.status)))
    return tuple(trails), float(r2(np.concatenate(paths), np.concatenate(truth)))


def _thin(trail: Trail) -> Trail:
    rows = np.unique(np.linspace(0, len(trail.t) - 1, MOST_POINTS).astype(int))
    u = None if trail.u is None else trail.u[rows]
    return Trail(trail.t[rows], trail.seen[rows], trail.path[rows], u, trail.status)


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
