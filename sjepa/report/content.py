"""What a report is made of: plain data, wherever it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from sjepa.errors import LawError
from sjepa.models import Simulator
from sjepa.symbolic import Candidate, Front, Law


@dataclass(frozen=True, eq=False)
class Trail:
    """One trajectory that is drawn: states (T, d) and actions (T, m) as they were seen."""

    t: np.ndarray
    seen: np.ndarray
    u: np.ndarray | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Measured:
    """Some rows of a table that formulas are compared with: inputs (n, d) and targets (n, k)."""

    inputs: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True, eq=False)
class ReportEntry:
    """One law of the page with its numbers; the reader chooses which is shown.

    Attributes
    ----------
    law : Law
    candidate : its row of the front, if it has one
    paths : its own path beside each trail, none where it was not simulated
    status : how each path ended: "ok", "diverged" or "budget"
    score : R2 of the simulated paths, minus infinity where one diverges; NaN when there are none
    scores : the same for each trajectory that was simulated
    held_out : R2 on trajectories that the search did not see, NaN without such
    residual : what the law misses of the velocities at the points of :attr:`ReportData.points`
    predicted : values (n, k) of a formula at the rows of :attr:`ReportData.measured`
    table_r2 : R2 of a formula on all rows of the table, the mean of its outputs
    """

    law: Law
    candidate: Candidate | None = None
    paths: tuple[np.ndarray, ...] = ()
    status: tuple[str, ...] = ()
    score: float = math.nan
    scores: tuple[float, ...] = ()
    held_out: float = math.nan
    residual: np.ndarray | None = None
    predicted: np.ndarray | None = None
    table_r2: float = math.nan

    @property
    def simulator(self) -> Simulator | None:
        """The law's own, or None if it is a formula for something else."""
        try:
            return Simulator(self.law)
        except LawError:
            return None


@dataclass(frozen=True, eq=False)
class VideoFrames:
    """A few frames (k, rows, columns[, 3]) of a video, as bytes, and the coordinates (k, d)."""

    frames: np.ndarray
    t: np.ndarray
    z: np.ndarray
    name: str = ""


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything a report shows.

    Attributes
    ----------
    title : str
    law : Law
        The chosen one.
    front : Front or None
    entries : the laws of the front, and the chosen one where it is not among them
    start : which entry the chosen law is
    warnings : what calls the chosen law into question
    notes : what else there is to know
    trails : trajectories of coordinates that are drawn
    trajectories : names of all that were simulated
    names : names of the state's coordinates, as in ``trails[i].seen``
    points : states (n, d) at which the velocities of data and laws are compared
    measured : rows of the table that a formula is compared with
    history : table of training figures against ``step``; may be empty
    facts : short label -> short text, whatever law is shown
    held_out : text, the data other than the training data that the result was evaluated on
    dimensions : table of the numbers of coordinates that were tried; may be empty
    video : VideoFrames or None
    recipe : lines of code or commands that make the result again
    """

    title: str
    law: Law
    front: Front | None = None
    entries: tuple[ReportEntry, ...] = ()
    start: int = 0
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trails: tuple[Trail, ...] = ()
    trajectories: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    points: np.ndarray | None = None
    measured: Measured | None = None
    history: pd.DataFrame = field(default_factory=pd.DataFrame)
    facts: Mapping[str, str] = field(default_factory=dict)
    held_out: str = ""
    dimensions: pd.DataFrame = field(default_factory=pd.DataFrame)
    video: VideoFrames | None = None
    recipe: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """R2 of the chosen law's simulated paths."""
        return self.entries[self.start].score

    @property
    def laws(self) -> int:
        return 1 if self.front is None else len(self.front)

    def with_recipe(self, recipe: Sequence[str]) -> ReportData:
        return replace(self, recipe=tuple(recipe))


def entries_of(law: Law, front: Front | None) -> tuple[tuple[ReportEntry, ...], int]:
    """The laws to choose from, and which of them is the given one.

    A law that was refined takes the place of the one it was refined from.
    """
    if front is None or not len(front):
        return (ReportEntry(law),), 0
    listed = [ReportEntry(c.law, c) for c in front]
    place = front.position(law)
    if place is None:
        return (*listed, ReportEntry(law)), len(listed)
    listed[place] = ReportEntry(law, front[place])
    return tuple(listed), place
