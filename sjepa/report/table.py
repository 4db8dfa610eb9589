"""Formulas beside a table: predictions, residuals and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sjepa.errors import DataError
from sjepa.report.comparison import near
from sjepa.report.content import Measured, ReportData, ReportEntry
from sjepa.symbolic import Front, Law


# Dots enough to see a shape; more make the page heavy.
MAX_ROWS = 400


def law_of(source: Any) -> Law | None:
    """The law of whatever a report is about."""
    if isinstance(source, Law):
        return source
    if isinstance(source, Front):
        return source.best() if len(source) else None
    law = getattr(source, "law_", None)
    return law if isinstance(law, Law) else None


def is_formula(law: Law) -> bool:
    """Whether a law gives other quantities than its inputs, as y = f(X) does."""
    return law.dynamics == "discrete" and not set(law.outputs) & set(law.inputs)


def with_table(data: ReportData, inputs: Any, targets: Any) -> ReportData:
    """The data of a report with every law near the chosen one compared with a table."""
    law = data.law
    if targets is None:
        raise DataError("A page about y = f(X) needs y beside X.", "y")
    x = _columns(inputs, len(law.inputs), "X")
    y = _columns(targets, len(law.outputs), "y")
    if len(x) != len(y):
        raise DataError(f"X has {len(x)} rows, y has {len(y)}.", "y")
    some = np.unique(np.linspace(0, len(x) - 1, MAX_ROWS).astype(int))
    followed = near(data.entries, data.start)
    entries = tuple(
        _compared(entry, x, y, some) if i in followed else entry
        for i, entry in enumerate(data.entries)
    )
    facts = {**data.facts, "Shown data": f"{len(x):,} rows"}
    return replace(data, entries=entries, measured=Measured(x[some], y[some]), facts=facts)


def _compared(entry: ReportEntry, x: np.ndarray, y: np.ndarray, some: np.ndarray) -> ReportEntry:
    with np.errstate(all="ignore"):
        values = entry.law.numpy()(x)
        left = ((y - values) ** 2).sum(axis=0)
        spread = np.maximum(((y - y.mean(axis=0)) ** 2).sum(axis=0), 1e-300)
    return replace(entry, predicted=values[some], table_r2=float((1 - left / spread).mean()))


def _columns(values: Any, count: int, name: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be numbers.", name) from None
    array = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    if array.shape[1] != count or not np.isfinite(array).all():
        raise DataError(
            f"{name} must be finite numbers in {count} columns, got shape {array.shape}.", name
        )
    return array
