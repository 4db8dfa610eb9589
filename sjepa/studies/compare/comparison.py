"""The result: a row for each backend, and a page with their fronts over each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sjepa.report.compare_page import ComparisonRow, write_comparison
from sjepa.studies.backends.cells import match
from sjepa.studies.compare.tasks import BackendResult
from sjepa.symbolic import Law


if TYPE_CHECKING:
    import pandas as pd


COLUMNS = (
    "backend", "score", "score_sd", "complexity", "tree", "loss", "verdict", "agreement",
    "stability", "seconds", "error", "equation",
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Backends on the same data, best cross-validated score first.

    Attributes
    ----------
    entries : tuple of BackendResult
        Of each backend its front, the laws of the folds, and their scores.
    seconds : float
        The CPU budget of every search.
    cv : int
        The number of folds.
    what : str
        What was searched, in a few words.
    """

    entries: tuple[BackendResult, ...]
    seconds: float
    cv: int
    what: str = ""

    def __post_init__(self) -> None:
        order = sorted(self.entries, key=lambda e: (bool(e.error), -_mean(e.scores), _length(e)))
        object.__setattr__(self, "entries", tuple(order))

    def to_frame(self) -> pd.DataFrame:
        """One row for each backend.

        ``score`` is the mean of R² on data left out, ``complexity`` counts terms and ``tree``
        nodes, ``agreement`` is the share of the other backends with the same law (coefficients
        within 10 %), ``stability`` the share of the folds that gave it again, ``seconds`` is CPU
        time of the search of all data.
        """
        import pandas as pd

        return pd.DataFrame([self._row(e) for e in self.entries], columns=list(COLUMNS))

    def best(self) -> Law:
        """The law of the backend with the highest score."""
        front = self.entries[0].front
        if front is None:
            from sjepa.errors import BackendError

            raise BackendError(f"No backend found a law: {self.entries[0].error}")
        return front.best()

    def report(self, path: str | Path, *, title: str = "Backends compared") -> Path:
        """Write a self-contained HTML page: the table, and the fronts over each other."""
        rows = [
            ComparisonRow(
                e.label, e.front, {k: v for k, v in self._row(e).items() if k != "backend"}
            )
            for e in self.entries
        ]
        lead = f"{self.what}. Each search had {self.seconds:g} s of CPU time; {self.cv} folds."
        return write_comparison(rows, path, title=title, lead=lead)

    def __repr__(self) -> str:
        return self.to_frame().drop(columns=["equation"]).to_string(index=False)

    def _row(self, entry: BackendResult) -> dict[str, object]:
        row: dict[str, object] = dict.fromkeys(COLUMNS)
        row |= {"backend": entry.label, "seconds": entry.seconds, "error": entry.error}
        if entry.front is None:
            return row | {"equation": ""}
        best, law = entry.front.best_candidate(), entry.front.best()
        others = [e.front.best() for e in self.entries if e is not entry and e.front is not None]
        verdict = entry.front.verdict
        return row | {
            "score": _mean(entry.scores),
            "score_sd": float(np.std(entry.scores)) if np.isfinite(entry.scores).all() else None,
            "complexity": law.complexity("terms"),  # the same for all, whatever they searched
            "tree": law.complexity("tree"),
            "loss": best.loss,
            "verdict": "" if verdict is None else verdict.word,
            "agreement": float(np.mean([_same(law, o) for o in others])) if others else None,
            "stability": float(np.mean([_same(law, o) for o in entry.laws])),
            "equation": "; ".join(law.lines(digits=5)),
        }


def _mean(scores: tuple[float, ...]) -> float:
    return float(np.mean(scores)) if scores else float("nan")


def _length(entry: BackendResult) -> float:
    return entry.front.best_candidate().tree if entry.front is not None else 0.0


def _same(law: Law, other: Law) -> bool:
    """Whether two laws have the same terms and coefficients within 10 %; constants are zero too."""
    if not any(law.terms) or not any(other.terms):
        return not any(law.terms) and not any(other.terms)
    return match(law, other).recovered
