"""Sequentially thresholded least squares on a Gram matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError
from sjepa.symbolic.front import Front
from sjepa.symbolic.gram import solve_normal
from sjepa_backends._supports import (
    SEARCH_SHARE,
    SupportFit,
    backward,
    fit,
    fit_until,
    joint_front,
    warm_supports,
)


# Thresholds of the default path, as shares of the target's standard deviation.
PATH = tuple(np.geomspace(3e-4, 0.6, 24).tolist())


@dataclass(frozen=True)
class STLSQ(Backend):
    """Least squares, dropping small terms until the survivors stop changing.

    The front comes from a path of thresholds on coefficients made free of units (a term's
    standard deviation over the target's), and from stepping back from each support one least
    needed term at a time. The selected supports are refitted without any penalty.

    Parameters
    ----------
    threshold : float, optional
        One absolute threshold on the coefficients as they are, in place of the path; with
        `ridge` this is the algorithm of PySINDy's STLSQ, and the front is that one law.
    ridge : float, default=1e-5
        Penalty on the squared coefficients while thresholding; along the path they are free of
        units as well.
    max_iter : int, default=20
        Rounds of drop-and-refit. The support settles in a handful; this is a backstop.
    step_back : bool, default=True
        Whether to add the stepwise path to the threshold path.
    min_gain : float, default=0.01
        A longer law is listed only if it lowers the loss by this share; 0 lists every one.
    """

    name: ClassVar[str] = "stlsq"
    constrains: ClassVar[bool] = True
    owns_structure: ClassVar[bool] = False

    threshold: float | None = None
    ridge: float = 1e-5
    max_iter: int = 20
    step_back: bool = True
    min_gain: float = 0.01

    def __post_init__(self) -> None:
        if self.threshold is not None and not self.threshold >= 0:
            raise ConfigError(f"threshold must be at least 0, got {self.threshold}.")
        if not self.ridge >= 0:
            raise ConfigError(f"ridge must be at least 0, got {self.ridge}.")

    def search(self, problem: Problem) -> Front:
        end, search_end = problem.deadline(), problem.deadline(SEARCH_SHARE)
        warm = warm_supports(problem)
        usable = problem.usable
        fits: list[list[SupportFit]] = []
        for j, output in enumerate(problem.outputs):
            problem.report(f"stlsq: {output}", j / len(problem.outputs))
            start = np.flatnonzero(usable[:, j])
            if self.threshold is not None:
                ones = np.ones(len(usable))
                support = self._thresholded(problem, j, start, self.threshold, ones)
                fits.append([fit(problem, j, support)])
            else:
                left = (search_end - problem.clock()) / (len(problem.outputs) - j)
                fits.append(self.fits(problem, j, warm[j], problem.clock() + left))
        problem.report("stlsq: done", 1.0)
        return joint_front(problem, fits, self.name, (), self.min_gain, end)

    def fits(
        self, problem: Problem, j: int, known: Iterable[tuple[int, ...]], end: float
    ) -> list[SupportFit]:
        """The path of one output and what is known already, fitted, until the time is over."""
        half = (problem.clock() + end) / 2
        supports = {(), *known}
        for support in self._path(problem, j, np.flatnonzero(problem.usable[:, j])):
            supports.add(support)
            if problem.clock() > half:
                break
        return fit_until(problem, j, supports, end)

    def _path(self, problem: Problem, j: int, start: np.ndarray) -> Iterator[tuple[int, ...]]:
        sums = problem.sums
        unit, spread = np.sqrt(np.diag(sums.xx) / sums.weight), np.sqrt(sums.variance[j])
        seen = {tuple(start.tolist())}
        yield tuple(start.tolist())
        for threshold in PATH:
            support = self._thresholded(problem, j, start, threshold * spread, unit)
            if support not in seen:
                seen.add(support)
                yield support
        # Short ones first: they are soon done, and what they end in is what is wanted.
        left: set[tuple[int, ...]] = set()  # the way down from here is known
        for support in sorted(seen, key=lambda s: (len(s), s)) if self.step_back else ():
            for shorter in backward(sums, j, support, problem.candidate_library.weights):
                if tuple(shorter) in left:
                    break
                left.add(tuple(shorter))
                yield tuple(shorter)

    def _thresholded(
        self, problem: Problem, j: int, start: np.ndarray, threshold: float, unit: np.ndarray
    ) -> tuple[int, ...]:
        """Drop terms whose coefficient is below the threshold, and solve again.

        Columns are measured in `unit`, for the penalty as well as for the threshold.
        """
        xx, xy = problem.sums.xx, problem.sums.xy[:, j]
        keep = start
        for _ in range(self.max_iter):
            if not len(keep):
                break
            u = unit[keep]
            a = xx[np.ix_(keep, keep)] / np.outer(u, u) + self.ridge * np.eye(len(keep))
            scale = np.sqrt(np.diag(a))
            b = xy[keep] / u / scale
            coefficients = solve_normal(a / np.outer(scale, scale), b) / scale
            survivors = keep[np.abs(coefficients) >= threshold]
            if len(survivors) == len(keep):
                break
            keep = survivors
        return tuple(keep.tolist())
