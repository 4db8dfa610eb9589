"""Sequentially thresholded least squares on a Gram matrix."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError
from sjepa.symbolic.front import Front
from sjepa_backends._supports import Fit, fit, joint_front, warm_supports


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
        Penalty on the squared coefficients while thresholding.
    max_iter : int, default=20
        Rounds of drop-and-refit. The support settles in a handful; this is a backstop.
    step_back : bool, default=True
        Whether to add the stepwise path to the threshold path.
    min_gain : float, default=0.01
        A longer law is listed only if it lowers the loss by this share; 0 lists every one.
    """

    name: ClassVar[str] = "stlsq"
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
        sums, library = problem.sums, problem.candidate_library
        allowed = library.mask(problem.outputs)
        warm = warm_supports(problem)
        seconds = problem.budget.seconds
        deadline = time.monotonic() + seconds if seconds else np.inf
        fits: list[list[Fit]] = []
        for j, output in enumerate(problem.outputs):
            problem.report(f"stlsq: {output}", j / len(problem.outputs))
            start = np.flatnonzero(allowed[:, j] & (np.diag(sums.xx) > 0))
            if self.threshold is not None:
                scale = np.ones(len(library))
                supports = {self._thresholded(problem, j, start, self.threshold, scale)}
            else:
                supports = {(), *warm[j]}
                for support in self._path(problem, j, start):
                    supports.add(support)
                    if time.monotonic() > deadline:
                        break
            fits.append([fit(problem, j, s) for s in sorted(supports)])
        problem.report("stlsq: done", 1.0)
        return joint_front(problem, fits, self.name, (), self.min_gain)

    def _path(self, problem: Problem, j: int, start: np.ndarray) -> Iterator[tuple[int, ...]]:
        sums = problem.sums
        size = np.sqrt(np.diag(sums.xx) / sums.weight / sums.variance[j])
        seen = {tuple(start.tolist())}
        yield tuple(start.tolist())
        for threshold in PATH:
            support = self._thresholded(problem, j, start, threshold, size)
            if support not in seen:
                seen.add(support)
                yield support
        if self.step_back:
            for support in sorted(seen, key=len, reverse=True):
                yield from _backward(problem, j, support)

    def _thresholded(
        self, problem: Problem, j: int, start: np.ndarray, threshold: float, size: np.ndarray
    ) -> tuple[int, ...]:
        """Drop terms whose coefficient times `size` is below the threshold, and solve again."""
        xx, xy = problem.sums.xx, problem.sums.xy[:, j]
        keep = start
        for _ in range(self.max_iter):
            if not len(keep):
                break
            a = xx[np.ix_(keep, keep)] + self.ridge * np.eye(len(keep))
            coefficients = np.linalg.lstsq(a, xy[keep], rcond=None)[0]
            survivors = keep[np.abs(coefficients) * size[keep] >= threshold]
            if len(survivors) == len(keep):
                break
            keep = survivors
        return tuple(keep.tolist())


def _backward(problem: Problem, j: int, support: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Remove the term whose absence costs least for its weight, again and again."""
    sums = problem.sums
    scale = np.sqrt(np.maximum(np.diag(sums.xx), 1e-300))
    weights = np.maximum(problem.candidate_library.weights, 1e-3)
    keep = list(support)
    while keep:
        index = np.array(keep)
        a = sums.xx[np.ix_(index, index)] / np.outer(scale[index], scale[index])
        # The rise of the residual when term i goes is c_i^2 / (A^-1)_ii.
        inverse = np.linalg.pinv(a, rcond=1e-14, hermitian=True)
        coefficients = inverse @ (sums.xy[index, j] / scale[index])
        rise = coefficients**2 / np.maximum(np.diag(inverse), 1e-300)
        keep.pop(int(np.argmin(rise / weights[index])))
        yield tuple(keep)
