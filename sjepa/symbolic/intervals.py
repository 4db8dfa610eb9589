"""Uncertainty of the terms of a law: inclusion frequencies, and intervals of their coefficients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sjepa.errors import FormatError
from sjepa.symbolic.text import to_text


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


# The share of resamples that an interval holds.
LEVEL = 0.9
# Rows that are read from a file.
MAX_ROWS = 10_000


@dataclass(frozen=True)
class Interval:
    """One term of one equation over resamples of the data.

    Attributes
    ----------
    output, term : str
    coefficient : float
        Of the chosen law; 0 for a term that it does not have.
    low, high : float
        90 % interval of the coefficient of the chosen structure on resampled data.
    inclusion : float
        Share of the resamples in which the search chose the term.
    """

    output: str
    term: str
    coefficient: float
    low: float
    high: float
    inclusion: float


def interval_lines(rows: Sequence[Interval], digits: int = 4) -> list[str]:
    """A table: each term of the law with its interval, then what was chosen in its place."""
    if not rows:
        return []
    lines = [f"  on resampled data: terms chosen again, and {LEVEL:.0%} intervals"]
    wide = max(len(f"{r.output}: {r.term}") for r in rows)
    for r in rows:
        name = f"{r.output}: {r.term}".ljust(wide)
        numbers = ""
        if r.coefficient:
            low, high = (f"{v:.{digits}g}" for v in (r.low, r.high))
            numbers = f"  {r.coefficient:.{digits}g} [{low}, {high}]"
        lines.append(f"  {r.inclusion:5.0%}  {name}{numbers}")
    return lines


def min_inclusion(rows: Sequence[Interval], law: Law) -> float:
    """How often the law's least sure term is chosen on resampled data; NaN if none were drawn."""
    if not rows:
        return math.nan
    shares = {(r.output, r.term): r.inclusion for r in rows}
    pairs = zip(law.outputs, law.terms, strict=True)
    inclusions = [shares.get((o, to_text(term)), 0.0) for o, terms in pairs for _, term in terms]
    return min(inclusions, default=1.0)


def read_intervals(rows: Any) -> tuple[Interval, ...]:
    """From plain data, checking every part of it."""
    if not isinstance(rows, list) or len(rows) > MAX_ROWS:
        raise FormatError("The intervals of its front are not a list.")
    return tuple(_row(row) for row in rows)


def _row(row: Any) -> Interval:
    names, numbers = ("output", "term"), ("coefficient", "low", "high", "inclusion")
    if not isinstance(row, Mapping) or not all(isinstance(row.get(n), str) for n in names):
        raise FormatError("An interval of its front does not name an output and a term.")
    values: list[Any] = [row.get(n) for n in numbers]
    if not all(type(v) in (int, float) and math.isfinite(v) for v in values):
        raise FormatError(f"The interval of {row['term']!r:.40} in its front is no number.")
    return Interval(*(row[n] for n in names), *map(float, values))
