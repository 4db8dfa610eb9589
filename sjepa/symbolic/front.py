"""The Pareto front of laws: what every backend returns."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sjepa.errors import FormatError, LawError
from sjepa.settings import number_of
from sjepa.symbolic import law_methods
from sjepa.symbolic.candidate import Candidate
from sjepa.symbolic.complexity import MEASURES
from sjepa.symbolic.intervals import Interval, interval_lines, min_inclusion, read_intervals
from sjepa.symbolic.law import Law
from sjepa.symbolic.verdict import Verdict


if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


# `best` accepts a law once it has won this share of the fall in log loss along the front, and
# regards laws that leave less than this share of the variance unexplained as exact.
KNEE = 0.9
EXACT = 1e-7
# Longer fronts are not read from files.
MAX_LAWS = 10_000


@dataclass(frozen=True, repr=False)
class Front:
    """Pareto front of laws in complexity and loss, simplest first.

    Indexing and iteration give :class:`Candidate` rows. `measure` says which complexity orders
    the front; both are in the table.

    Examples
    --------
    >>> laws = [Law.from_string(e, ["x"]) for e in ("x", "x + 0.1*x**3", "x + 0.1*x**3 + 0.01")]
    >>> front = Front.of(Candidate.score(l, [v]) for l, v in zip(laws, (0.3, 1e-4, 9.9e-5)))
    >>> front.select()
    x' = 0.1*x**3 + x
    """

    candidates: tuple[Candidate, ...]
    measure: str = "terms"
    backend: str = ""
    notes: tuple[str, ...] = field(default=())
    form: str = ""  # which form of the data was fitted, where states were given
    chosen: int | None = None  # by evidence, see `best`; None for the knee
    intervals: tuple[Interval, ...] = ()  # how sure the terms of ``best()`` are, if it was asked
    verdict: Verdict | None = None  # how far to believe ``best()``, where data were compared
    kept: Any = field(default=None, compare=False)  # sums of the data, for `update`; not saved
    per_trajectory: Any = field(default=None, compare=False)  # what `discover` was asked; not saved

    @classmethod
    def of(
        cls,
        candidates: Iterable[Candidate],
        measure: str = "terms",
        backend: str = "",
        notes: Sequence[str] = (),
        min_gain: float = 0.0,
    ) -> Front:
        """Sort; drop duplicates and dominated laws.

        A longer law must lower the loss of an output by the share `min_gain` to be kept.
        """
        if measure not in MEASURES:
            raise LawError(f"A front is ordered by 'terms' or 'tree', got {measure!r}.")
        best: dict[Any, Candidate] = {}
        for c in candidates:
            if math.isfinite(c.loss) and (c.law not in best or c.loss < best[c.law].loss):
                best[c.law] = c
        ordered = sorted(best.values(), key=lambda c: (getattr(c, measure), c.loss, c.law.key))
        kept: list[Candidate] = []
        for c in ordered:
            if not kept or _gains(c.loss, c.losses, kept[-1].loss, kept[-1].losses, min_gain):
                kept.append(c)
        return cls(tuple(kept), measure, backend, tuple(notes))

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, i: int) -> Candidate:
        return self.candidates[i]

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __repr__(self) -> str:
        """One line for each law, the chosen one marked; then form, notes and verdict."""
        if not self.candidates:
            return f"Front: no law found{''.join(f'; {n}' for n in self.notes)}"
        chosen = self.best_candidate()
        lines = [f"  complexity ({self.measure})       loss  equation"]
        for c in self:
            equation = "; ".join(c.law.lines(digits=4))
            equation = equation if len(equation) <= 90 else equation[:89] + "…"
            mark = ">" if c is chosen else " "
            by = f"  ({c.backend})" if c.backend not in ("", self.backend) else ""
            start = f"{mark} {self.complexity(c):17g}  {c.loss:9.2e}  "
            lines += folded(start, equation + by)
        form = [f"  form: {self.form}"] if self.form else []
        notes = [f"  note: {n}" for n in self.notes]
        if self.verdict is not None:
            notes.append(f"  verdict: {self.verdict.word}")
            notes += [f"    {reason}" for reason in self.verdict.reasons]
        own = [] if self.per_trajectory is None else [str(self.per_trajectory)]
        return "\n".join([*lines, *form, *interval_lines(self.intervals), *notes, *own])

    def _repr_html_(self) -> str:
        from sjepa.symbolic.export.html import front_html

        return front_html(self)

    def complexity(self, candidate: Candidate) -> float:
        return float(getattr(candidate, self.measure))

    def scores(self) -> list[float]:
        """Fall of log loss for each unit of complexity since the row before, as PySR has it."""
        result = [0.0]
        for before, after in zip(self.candidates, self.candidates[1:], strict=False):
            step = self.complexity(after) - self.complexity(before)
            fall = math.log(max(before.loss, 1e-300)) - math.log(max(after.loss, 1e-300))
            result.append(fall / step if step else 0.0)
        return result

    def to_frame(self) -> pd.DataFrame:
        """A table with the columns PySR users know, and both complexities by name.

        `inclusion` is the smallest of each law's terms; `intervals` has all of them.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "complexity": [self.complexity(c) for c in self],
                "loss": [c.loss for c in self],
                "score": self.scores() if len(self) else [],
                "equation": ["; ".join(c.law.lines(digits=5)) for c in self],
                "omega_terms": [c.terms for c in self],
                "omega_tree": [c.tree for c in self],
                "certified": [c.certified for c in self],
                "backend": [c.backend or self.backend for c in self],
                "evidence": [math.nan if c.evidence is None else c.evidence for c in self],
                "odds": [math.nan if c.evidence is None else math.exp(c.evidence) for c in self],
                "standard_error": [
                    math.nan if c.standard_error is None else c.standard_error for c in self
                ],
                "inclusion": [min_inclusion(self.intervals, c.law) for c in self],
            }
        )

    validate = law_methods.validate
    next_experiment = law_methods.next_experiment
    update = law_methods.update

    def position(self, law: Law) -> int | None:
        """Position of a law on the front, also if its coefficients were refined since."""
        for i, candidate in enumerate(self):
            if candidate.law == law:
                return i
        form = _form(law)
        return next((i for i, c in enumerate(self) if _form(c.law) == form), None)

    def select(self, delta: float | None = None, tolerance: float = 0.02) -> Law:
        """The simplest adequate law.

        With `delta`, adequate means a loss of at most `delta`; without, a loss within `tolerance`
        (relative) of the best one on the front.
        """
        self._require_candidates()
        for name, value in (("delta", delta), ("tolerance", tolerance)):
            if value is not None:
                number_of(value, name)
        if delta is None and not tolerance >= 0:
            raise LawError(f"tolerance is a share from 0, got {tolerance!r:.40}.")
        limit = min(c.loss for c in self) * (1.0 + tolerance) if delta is None else delta
        for c in self:
            if c.loss <= limit:
                return c.law
        raise LawError(
            f"No law on the front reaches a loss of {delta:g}; the best has "
            f"{min(c.loss for c in self):.3g}. Raise delta, the budget or the library."
        )

    def shortest(self, rows: int) -> Law:
        """The law of the smallest description length, for `rows` rows of data: residuals,
        coefficients and structure in one code (MDL)."""
        self._require_candidates()
        return min(self, key=lambda c: c.law.description_length(c.loss, rows)).law

    def best(self) -> Law:
        """The law that `discover` chose by its evidence, or else the one at the knee of the front.

        Chosen is the simplest law whose evidence is within one standard error of the highest. The
        knee, of a front that was not compared with data, is the simplest law that reaches 90 % of
        the fall of the logarithm of the loss, or whose unexplained variance is below 1e-7,
        whichever comes first.
        """
        return self.best_candidate().law

    def best_candidate(self) -> Candidate:
        self._require_candidates()
        if self.chosen is not None:
            return self[self.chosen]
        limit = knee(min(c.loss for c in self), max(self[0].loss, 1.0))
        return next(c for c in self if c.loss <= limit * (1 + 1e-9))

    def _require_candidates(self) -> None:
        if not self.candidates:
            why = f" ({'; '.join(self.notes)})" if self.notes else ""
            raise LawError(f"The search found no law{why}.")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Loss against complexity; the chosen law is marked."""
        import matplotlib.pyplot as plt

        self._require_candidates()
        if ax is None:
            ax = plt.subplots(figsize=(6, 4), layout="constrained")[1]
        x = [self.complexity(c) for c in self]
        y = [max(c.loss, 1e-16) for c in self]
        ax.step(x, y, where="post", color="0.6", lw=1)
        ax.plot(x, y, "o", color="#1f5a96", ms=5)
        chosen = self.best_candidate()
        ax.plot(
            self.complexity(chosen), max(chosen.loss, 1e-16), "o",
            ms=11, mfc="none", mec="#c44e1c", mew=1.8, label="; ".join(chosen.law.lines(digits=3)),
        )  # fmt: skip
        ax.set(yscale="log", xlabel=f"complexity ({self.measure})", ylabel="loss / variance")
        ax.legend(fontsize=8, frameon=False)
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :meth:`from_dict` reads back to an equal front; laws travel as text."""
        return {
            "measure": self.measure,
            "backend": self.backend,
            "notes": list(self.notes),
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "form": self.form,
            "chosen": self.chosen,
            "intervals": [asdict(row) for row in self.intervals],
            "laws": [c.to_dict() for c in self],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Front:
        """The front, its complexities as they were measured with the weights of the search."""
        if not isinstance(data, Mapping):
            raise FormatError(f"Invalid front: expected a mapping, got {data!r:.60}.")
        laws, measure = data.get("laws"), data.get("measure")
        if not isinstance(laws, list) or len(laws) > MAX_LAWS or measure not in MEASURES:
            raise FormatError("Invalid front: 'laws' or 'measure' is missing or out of range.")
        notes: Any = data.get("notes")
        if not isinstance(notes, list) or not all(isinstance(n, str) for n in notes):
            raise FormatError("Invalid front: 'notes' must be a list of texts.")
        verdict = data.get("verdict")
        candidates = tuple(Candidate.from_dict(row, i) for i, row in enumerate(laws))
        backend = str(data.get("backend", data.get("engine", "")))
        chosen = data.get("chosen")
        if chosen is not None and not (type(chosen) is int and 0 <= chosen < len(candidates)):
            raise FormatError("Its front has no law at the place of the chosen one.")
        form = str(data.get("form", ""))
        intervals = read_intervals(data.get("intervals", []))
        checked = None if verdict is None else Verdict.from_dict(verdict)
        return cls(candidates, measure, backend, tuple(notes), form, chosen, intervals, checked)


def folded(start: str, equations: str, width: int = 80) -> list[str]:
    """Lines that begin with `start`: all equations on one if they fit, else each on its own."""
    room = width - len(start)
    lines: list[str] = []
    for part in [equations] if len(equations) <= room else re.split(r"(?<=;) ", equations):
        lines += textwrap.wrap(part, room) or [""]
    return [f"{start if i == 0 else ' ' * len(start)}{line}" for i, line in enumerate(lines)]


def knee(best: float, worst: float = 1.0, exact: float = EXACT) -> float:
    """The loss at which a law has won most of the fall from the worst to the best loss.

    Below `exact` a law counts as exact, and there is nothing left to win.
    """
    return float(max(worst ** (1 - KNEE) * max(best, 1e-300) ** KNEE, exact))


def combine_outputs(
    fronts: Sequence[Sequence[tuple[float, float, Any]]], min_gain: float = 0.0, max_laws: int = 400
) -> list[tuple[float, tuple[float, ...], tuple[Any, ...]]]:
    """Join one front for each output into a front of whole laws.

    Each entry of `fronts` lists (complexity, loss, payload). The result lists (complexity,
    losses, payloads) of the combinations that no other combination beats; complexities and
    losses add up over the outputs. In the end a more expensive combination must lower the loss of
    an output by the share `min_gain` to be kept.
    """
    complexities, losses = np.zeros(1), np.zeros(1)
    picked: list[tuple[int, ...]] = [()]
    for front in fronts:
        points = np.array([row[:2] for row in front], dtype=float).reshape(-1, 2)
        c, total = np.add.outer(complexities, points[:, 0]), np.add.outer(losses, points[:, 1])
        c, total = c.ravel(), total.ravel()
        order = np.lexsort((total, c))
        lowest = np.fmin.accumulate(np.append(np.inf, total[order]))
        kept = order[total[order] < lowest[:-1]][:max_laws]
        complexities, losses = c[kept], total[kept]
        picked = [(*picked[k // len(points)], k % len(points)) for k in kept.tolist()]
    joint: list[tuple[float, tuple[float, ...], tuple[Any, ...]]] = []
    least = math.inf
    for complexity, loss, places in zip(
        complexities.tolist(), losses.tolist(), picked, strict=True
    ):
        rows = [front[k] for front, k in zip(fronts, places, strict=True)]
        each = tuple(r[1] for r in rows)
        if not joint or _gains(loss, each, least, joint[-1][1], min_gain):
            joint.append((complexity, each, tuple(r[2] for r in rows)))
            least = loss
    return joint


def _gains(
    loss: float, losses: Sequence[float], before: float, each: Sequence[float], min_gain: float
) -> bool:
    """Whether the loss falls, and that of an output by a share.

    What one output leaves must not hide how well another is known.
    """
    pairs = zip(losses or (loss,), each or (before,), strict=False)
    return loss < before and any(new < old * (1.0 - min_gain) for new, old in pairs)


def _form(law: Law) -> list[list[str]]:
    return [sorted(str(term) for _, term in row) for row in law.terms]
