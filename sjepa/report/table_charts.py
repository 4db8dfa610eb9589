"""Drawings of formulas beside a table; each law has its own dots, of which one set is shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from matplotlib import rc_context

from sjepa.report.charts import AXIS, MAX_COORDINATES, STYLE, Drawing, dots, wide_range
from sjepa.report.content import ReportData, ReportEntry
from sjepa.report.text import pretty


# Predictions further out than this many times the range of the measured values leave the frame.
REACH = 0.25


@rc_context({**STYLE, "path.simplify": False})
def predicted(data: ReportData, j: int) -> str:
    """Measured values of an output against predicted ones, and the line where they agree."""
    assert data.measured is not None
    measured, name = data.measured.targets[:, j], pretty(data.law.outputs[j])
    drawn = Drawing(300.0)
    ax = drawn.axes(f"{name}, predicted", f"{name}, measured")
    low, high = wide_range(measured, REACH)
    ax.set(xlim=(low, high), ylim=(low, high), autoscale_on=False)
    ax.plot([low, high], [low, high], color=AXIS, lw=1)
    for i, entry in enumerate(data.entries):
        if entry.predicted is not None:
            dots(ax, entry.predicted[:, j], measured, f"law:{i}:dots", j)
    return drawn.svg(f"{name} as measured against {name} as predicted", data.start)


def residuals(data: ReportData) -> list[str]:
    """Residuals against the prediction of each output, then against the columns."""
    assert data.measured is not None
    outputs = range(min(len(data.law.outputs), MAX_COORDINATES))
    drawings = [
        _residuals(
            data, f"{pretty(data.law.outputs[j])}, predicted", wide_range(column, REACH),
            partial(_prediction, j=j), j,
        )
        for j, column in zip(outputs, data.measured.targets.T, strict=False)
    ]  # fmt: skip
    used = {s.name for e in data.law.expressions for s in e.free_symbols}
    places = [i for i, name in enumerate(data.law.inputs) if name in used]
    for i in places[:MAX_COORDINATES]:
        column = data.measured.inputs[:, i]
        drawings.append(
            _residuals(
                data, pretty(data.law.inputs[i]), wide_range(column, 0.06),
                partial(_column, column=column),
            )
        )  # fmt: skip
    return drawings


def _prediction(entry: ReportEntry, j: int) -> np.ndarray | None:
    return None if entry.predicted is None else entry.predicted[:, j]


def _column(entry: ReportEntry, column: np.ndarray) -> np.ndarray:
    return column


@rc_context({**STYLE, "path.simplify": False})
def _residuals(
    data: ReportData, name: str, limits: tuple[float, float],
    across: Callable[[ReportEntry], np.ndarray | None], only: int | None = None,
) -> str:  # fmt: skip
    assert data.measured is not None
    drawn = Drawing(210.0)
    below = drawn.axes(name, "")
    below.set(xlim=limits, yticks=())
    for i, entry in enumerate(data.entries):
        x = across(entry)
        if entry.predicted is None or x is None:
            continue
        left = data.measured.targets - entry.predicted
        columns = range(left.shape[1]) if only is None else [only]
        finite = left[:, list(columns)][np.isfinite(left[:, list(columns)])]
        reach = 1.15 * float(np.quantile(np.abs(finite), 0.99)) if len(finite) else 1.0
        ax = drawn.of_law(i, below, "residual")
        ax.set_ylim(-(reach or 1.0), reach or 1.0)
        ax.axhline(0.0, color=AXIS, lw=1)
        for j in columns:
            dots(ax, x, left[:, j], ":dots", j)
    return drawn.svg(f"Residuals against {name}", data.start)
