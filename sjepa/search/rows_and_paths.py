"""What was measured, as the rows of a regression and as trajectories, and the evidence it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sjepa.backend import Problem
from sjepa.backend.problem import ROUNDING as RESOLUTION
from sjepa.data import Trajectories
from sjepa.data.derivatives import slope_error
from sjepa.data.forms import Rows, is_noisy
from sjepa.errors import SjepaError
from sjepa.inference.constants import DERIVATIVES, LENGTH
from sjepa.inference.evidence import Regression, Simulation
from sjepa.inference.input_noise import weighed
from sjepa.inference.noise import resolution
from sjepa.inference.segments import Segments
from sjepa.search.ranking import priced
from sjepa.symbolic import Front, Law


# Sums of squares are not told apart below this share of the variance.
ROUNDING = 1e-11


@dataclass(frozen=True)
class RowsAndPaths:
    """Rows of a regression, and the trajectories they are from; None for tables.

    `names` are all inputs that a simulation knows; `ordered` is False for given derivatives and
    tables, whose rows may come in any order.
    """

    rows: Rows
    data: Trajectories | None
    names: tuple[str, ...]
    order: int
    ordered: bool

    @cached_property
    def noisy(self) -> bool:
        if self.rows.form in ("weak", "zoh"):
            return True
        if self.rows.noisy is None and self.data is not None:
            return is_noisy(self.data)
        return bool(self.rows.noisy)

    @cached_property
    def floor(self) -> np.ndarray | None:
        """Mean square error (k,) of clean derivatives; None where noise decides."""
        if self.data is None or not self.ordered or self.noisy:
            return None
        if self.rows.form != "derivative" or self.order != 1:
            return None
        smoothing = self.rows.again.get("like")
        error = slope_error(self.data, None if smoothing is None else smoothing.noise)
        variance = self.rows.loss_unit
        if variance is None:
            variance = self.rows.targets.var(axis=0)
        return np.maximum(DERIVATIVES * error, ROUNDING * variance)

    def cut(self, length: float) -> Segments | None:
        """Segments of a length; None where the data are too short or fast to be simulated."""
        if self.data is None or not self.ordered:
            return None
        smoothing = self.rows.again.get("like") if self.order == 1 else None
        try:
            segments = Segments.of(
                self.data, order=self.order, zoh=self.rows.form == "zoh", smoothing=smoothing,
                derivatives=self.rows.found if self.order == 1 else None, length=length,
            )  # fmt: skip
            known = self.rows.known
            return replace(segments, known=None if known is None else self.whole(known))
        except SjepaError:
            return None

    def evidence(
        self, problem: Problem, front: Front, refit: bool, max_rows: int,
        time_left: Callable[[], bool],
    ) -> Simulation | Regression | None:  # fmt: skip
        """By simulations where noise decides and they can be followed, else by the rows."""
        if not len(front):
            return None
        simulate = self.noisy or self.order == 2
        if simulate and (segments := self.cut(LENGTH)) is not None:
            assert self.data is not None
            law = self.whole(front.best())
            segments = weighed(segments, self.data, law, self.rows.form == "zoh")
            steps = resolution(self.data.x)
            grid = np.where(steps > 2 * segments.unit, steps, 0.0)
            return Simulation(segments, priced(problem), refit, grid, self.cut, time_left)
        every = -(-len(self.rows.targets) // max_rows)
        targets = self.rows.targets[::every]
        floor = RESOLUTION * (targets**2).mean(axis=0)
        if self.floor is not None:
            floor = np.maximum(floor, self.floor)
        return Regression(
            self.rows.thinned(every), targets, priced(problem), floor,
            lambda law: problem.losses(law) * problem.variance,
            problem.sums.weight / every, self.data is not None, self.rows.loss_unit,
        )  # fmt: skip

    def again(self, evidence: Regression, problem: Problem) -> Regression:
        """The same data for laws of another problem."""
        losses = lambda law: problem.losses(law) * problem.variance  # noqa: E731
        return replace(evidence, complexity=priced(problem), losses=losses, fits={})

    def whole(self, law: Law) -> Law:
        """The law with all states, velocities and inputs as its inputs."""
        if law.inputs == self.names:
            return law
        return Law(law.expressions, self.names, law.outputs, law.dynamics, canonical=False)
