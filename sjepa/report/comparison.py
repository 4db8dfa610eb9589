"""Laws beside data: their paths, their scores and what they miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sjepa.data import Trajectories
from sjepa.data.derivatives import differentiate, second_derivatives
from sjepa.data.rows import derivative_rows, step_rows
from sjepa.errors import LawError, SjepaError
from sjepa.metrics import path_r2
from sjepa.models import SimulatedPath, Simulator
from sjepa.report.content import ReportEntry, Trail


# Scores are taken over this many trajectories at most, evenly chosen: a page should not take
# minutes to make.
MAX_SIMULATED = 12
# Enough to see how a law fits data; each is a figure of its own.
MAX_TRAILS = 6
# Laws that can be followed, those nearest to the chosen one: each adds its own curves to the page.
MAX_LAWS = 12
# A curve of more points looks the same and only makes the page heavy.
MAX_POINTS = 200
MAX_DOTS = 150
# Exact enough to be looked at. The chosen law is simulated as everywhere else.
ROUGH: dict[str, Any] = {"method": "RK45", "rtol": 1e-4, "atol": 1e-6, "max_evaluations": 20_000}


@dataclass(frozen=True, eq=False)
class SimulatedLaws:
    """Data that laws are compared with.

    Parameters
    ----------
    simulator : Simulator
        Of the chosen law; the others start as it does, and read actions as it does.
    data : Trajectories
        Coordinates.
    ids : what to call each of them
    """

    simulator: Simulator
    data: Trajectories
    ids: tuple[str, ...]

    @classmethod
    def of(cls, source: Any, coordinates: Trajectories, form: str = "") -> SimulatedLaws | None:
        """None where the law does not move its own inputs."""
        try:
            simulator = source if isinstance(source, Simulator) else Simulator(source, form)
        except LawError:
            return None
        data = simulator.select(coordinates)
        ids = data.ids or tuple(f"Trajectory {i + 1}" for i in range(len(data)))
        every = -(-len(data) // MAX_SIMULATED)
        return cls(simulator, data[::every], ids[::every])

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray] | None:
        """Some states, the actions there, and how fast the states change."""
        return _velocities(self.simulator, self.data)

    @property
    def trails(self) -> tuple[Trail, ...]:
        u = self.data.u if self.simulator.actions else None
        return tuple(
            Trail(
                t[_thin(t)], self.simulator.states(z, t)[_thin(t)],
                None if u is None else u[i][_thin(t)], self.ids[i],
            )
            for i, (z, t) in enumerate(
                zip(self.data.x[:MAX_TRAILS], self.data.t[:MAX_TRAILS], strict=True)
            )
        )  # fmt: skip

    @property
    def points(self) -> np.ndarray | None:
        return None if self.rows is None else self.rows[0]

    def filled(self, entry: ReportEntry, chosen: bool) -> ReportEntry:
        """The entry with its paths, scores and residuals."""
        simulator = self._simulator(entry, chosen)
        if simulator is None:
            return entry
        paths = simulator.beside(self.data, **({} if chosen else ROUGH))
        scores = [path_r2([p], [z]) for p, z in zip(paths, self.data.x, strict=True)]
        drawn = list(zip(paths, self.data.t, strict=True))[:MAX_TRAILS]
        return replace(
            entry,
            paths=tuple(path.z[_thin(t)] for path, t in drawn),
            status=tuple(path.status for path, _ in drawn),
            score=path_r2(paths, self.data.x),
            scores=tuple(scores),
            residual=self._residual(simulator),
        )

    def score(self, entry: ReportEntry, chosen: bool) -> float:
        """R2 of the paths alone."""
        simulator = self._simulator(entry, chosen)
        options = {} if chosen else ROUGH
        return (
            np.nan
            if simulator is None
            else path_r2(simulator.beside(self.data, **options), self.data.x)
        )

    def _simulator(self, entry: ReportEntry, chosen: bool) -> Simulator | None:
        if chosen:
            return self.simulator
        try:
            simulator = Simulator(entry.law)
        except LawError:
            return None
        simulator.holds_actions = self.simulator.holds_actions
        return simulator if simulator.names == self.simulator.names else None

    def _residual(self, simulator: Simulator) -> np.ndarray | None:
        if self.rows is None:
            return None
        states, u, velocities = self.rows
        with np.errstate(all="ignore"):
            missed = velocities - simulator.velocity(states, u if simulator.actions else None)
        return missed[:, simulator.size - len(simulator.law.outputs) :]


def near(entries: Sequence[ReportEntry], start: int) -> set[int]:
    """Which entries are followed: the nearest to the chosen one."""
    order = sorted(range(len(entries)), key=lambda i: abs(i - start))
    return set(order[:MAX_LAWS])


def drawn(law: Any, states: Trajectories) -> list[tuple[Trail, SimulatedPath]]:
    """Trails of data, each with the law's path beside it."""
    beside = SimulatedLaws.of(law, states)
    if beside is None:
        return []
    paths = beside.simulator.beside(beside.data[:MAX_TRAILS])
    return [
        (trail, replace(path, z=path.z[_thin(t)]))
        for trail, path, t in zip(beside.trails, paths, beside.data.t, strict=False)
    ]


def _thin(t: np.ndarray, max_points: int = MAX_POINTS) -> np.ndarray:
    return np.unique(np.linspace(0, len(t) - 1, max_points).astype(int))


def _velocities(
    simulator: Simulator, data: Trajectories
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray] | None:
    """States, actions and how fast the states change there, or None where that is not known."""
    actions = data.u is not None and bool(simulator.actions)
    try:
        if simulator.dynamics == "discrete":
            inputs, ends, _ = step_rows(data)
            change = ends - inputs[:, : ends.shape[1]]
        elif 2 * data.obs_shape[0] == simulator.size and simulator.order == 2:
            inputs, change = derivative_rows(second_derivatives(data))
        elif data.obs_shape[0] == simulator.size:
            inputs, change = derivative_rows(differentiate(data))
        else:
            return None
    except SjepaError:  # too short, too few
        return None
    some = _thin(inputs, MAX_DOTS)
    inputs, change = inputs[some], change[some]
    states, rest = inputs[:, : simulator.size], inputs[:, simulator.size :]
    return states, rest if actions else None, change
