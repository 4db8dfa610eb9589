"""Sequentially thresholded least squares on a Gram matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError
from sjepa.symbolic.front import Front
from sjepa.symbolic.gram import solve_normal
from sjepa_backends.supports import (
    SEARCH_SHARE,
    Support,
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
    plain: ClassVar[frozenset[str]] = frozenset(
        {"threshold", "ridge", "max_iter", "step_back", "min_gain"}
    )

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
        if self.threshold is None:
            paths, fits = self.along_path(problem, warm, search_end)
            if self.step_back:
                more = self.eliminate_backward(problem, paths, fits, search_end)
                fits = [a + b for a, b in zip(fits, more, strict=True)]
        else:
            ridge = _Ridge(problem, np.ones(len(problem.usable)), self.ridge)
            fits = [
                [fit(problem, j, self._thresholded(ridge, j, start, self.threshold)[0])]
                for j, start in enumerate(map(np.flatnonzero, problem.usable.T))
            ]
        problem.report("stlsq: done", 1.0)
        return joint_front(problem, fits, self.name, (), self.min_gain, end)

    def along_path(
        self, problem: Problem, known: Sequence[Iterable[Support]], end: float, share: float = 1.0
    ) -> tuple[list[set[Support]], list[list[SupportFit]]]:
        """For each output its path, and this and what is known already fitted, until the end.

        `share` is what this is of all work.
        """
        sums, count = problem.sums, len(problem.outputs)
        ridge = _Ridge(problem, np.sqrt(np.diag(sums.xx) / sums.weight), self.ridge)
        paths = list[set[Support]]()
        for j, output in enumerate(problem.outputs):
            problem.report(f"thresholds: {output}", share * j / count)
            now = problem.clock()
            supports = self._path(problem, ridge, j)
            paths.append(set(_until(supports, problem, now + (end - now) / (2 * (count - j)))))
        chosen = [{(), *own, *path} for own, path in zip(known, paths, strict=True)]
        return paths, fit_until(problem, chosen, end)

    def eliminate_backward(
        self,
        problem: Problem,
        paths: Sequence[Iterable[Support]],
        fits: Sequence[Sequence[SupportFit]],
        end: float,
        enough: Sequence[float] | None = None,
    ) -> list[list[SupportFit]]:
        """What steps back from the paths add to their fits.

        From supports that are longer than one whose loss is `enough` nothing steps back.
        """
        half, steps = (problem.clock() + end) / 2, list[set[Support]]()
        for j, path in enumerate(paths):
            limit = 0.0 if enough is None else enough[j]
            good = (np.count_nonzero(f.coefficients) for f in fits[j] if f.loss <= limit)
            largest = min(good, default=len(problem.candidate_library))
            now = problem.clock()
            back = self._back(problem, j, [s for s in path if len(s) <= largest])
            found = set(_until(back, problem, now + (half - now) / (len(paths) - j)))
            steps.append(found.difference(path, [()]))
        return fit_until(problem, steps, end)

    def _path(self, problem: Problem, ridge: _Ridge, j: int) -> Iterator[Support]:
        """All terms, and what thresholds leave of them."""
        start, spread = np.flatnonzero(problem.usable[:, j]), np.sqrt(problem.sums.variance[j])
        yield tuple(start.tolist())
        least = -1.0
        for threshold in PATH:
            if threshold * spread > least:  # otherwise the same terms go again
                support, least = self._thresholded(ridge, j, start, threshold * spread)
                yield support

    def _back(self, problem: Problem, j: int, supports: Iterable[Support]) -> Iterator[Support]:
        """Steps back from supports: short ones first, since what they end in is what is wanted."""
        left: set[Support] = set()  # the way down from here is known
        for support in sorted(supports, key=lambda s: (len(s), s)):
            for shorter in backward(problem.sums, j, support, problem.candidate_library.weights):
                if tuple(shorter) in left:
                    break
                left.add(tuple(shorter))
                yield tuple(shorter)

    def _thresholded(
        self, ridge: _Ridge, j: int, start: np.ndarray, threshold: float
    ) -> tuple[Support, float]:
        """Drop terms whose coefficient is below the threshold, and solve again.

        Also the smallest coefficient that stayed on the way: thresholds up to it do the same.
        """
        keep, least = start, np.inf
        for _ in range(self.max_iter):
            if not len(keep):
                break
            sizes = ridge.sizes(keep, j)
            stay = sizes >= threshold
            least = min(least, float(sizes[stay].min(initial=np.inf)))
            if stay.all():
                break
            keep = keep[stay]
        return tuple(keep.tolist()), least


class _Ridge:
    """Sizes of coefficients with a penalty; columns are measured in `unit`, and so is that.

    Thresholds share supports, and so do outputs: each is solved once, for all outputs.
    """

    def __init__(self, problem: Problem, unit: np.ndarray, ridge: float) -> None:
        self.solved: dict[bytes, np.ndarray] = {}
        with np.errstate(all="ignore"):  # columns of zeros are in no support
            a = problem.sums.xx / np.outer(unit, unit) + ridge * np.eye(len(unit))
            self.scale = np.sqrt(np.diag(a))
            self.a = a / np.outer(self.scale, self.scale)
            self.b = problem.sums.xy / (unit * self.scale)[:, None]

    def sizes(self, keep: np.ndarray, j: int) -> np.ndarray:
        key = keep.tobytes()
        if key not in self.solved:
            solution = solve_normal(self.a[np.ix_(keep, keep)], self.b[keep])
            self.solved[key] = np.abs(solution / self.scale[keep, None])
        return self.solved[key][:, j]


def _until(supports: Iterator[Support], problem: Problem, end: float) -> Iterator[Support]:
    """The first, and those that come before the time is over."""
    for support in supports:
        yield support
        if problem.clock() > end:
            return
