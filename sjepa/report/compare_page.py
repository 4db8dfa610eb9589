"""A page that compares backends: one table, and their fronts over each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context

from sjepa.errors import DataError
from sjepa.report.charts import COLORS, MIN_LOSS, STYLE, Drawing, color, log_decades
from sjepa.report.page import DIGITS, asset, template
from sjepa.report.text import number
from sjepa.settings import path_of
from sjepa.storage import write_whole
from sjepa.symbolic import Front
from sjepa.symbolic.export.html import equations


# Line styles tell backends apart that have the same color.
DASHES = ("-", "--", ":")


@dataclass(frozen=True)
class ComparisonRow:
    """One backend: its front, if it found one, and its figures by name."""

    label: str
    front: Front | None
    figures: Mapping[str, Any]


def write_comparison(
    rows: Sequence[ComparisonRow], path: str | Path, *, title: str = "", lead: str = ""
) -> Path:
    """Write the page; it appears when it is complete and needs nothing but itself."""
    path = path_of(path, "path")
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder {path.parent} does not exist; create it first.")
    found = [row for row in rows if row.front is not None and len(row.front)]
    page = template("comparison.html").render(
        title=title,
        lead=lead,
        style=Markup(asset("page.css")),
        fronts=Markup(fronts(found)) if found else "",
        legend=[
            (row.label, i % COLORS + 1, DASHES[i // COLORS % 3]) for i, row in enumerate(found)
        ],
        rows=[_cells(row) for row in rows],
    )
    write_whole(path, page.encode())
    return path


def _cells(row: ComparisonRow) -> dict[str, Any]:
    figures = row.figures
    shown = {k: _text(figures.get(k)) for k in
             ("score", "complexity", "agreement", "stability", "seconds")}  # fmt: skip
    law = Markup("")
    if row.front is not None and len(row.front):
        law = Markup(equations(row.front.best(), DIGITS))
    return {
        "label": row.label, "law": law, "error": figures.get("error") or "",
        "verdict": figures.get("verdict") or "", **shown,
    }  # fmt: skip


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return "−∞" if value == -np.inf else number(float(value), 4)


@rc_context(STYLE)
def fronts(rows: Sequence[ComparisonRow]) -> str:
    """Loss against complexity of trees, which all backends have, a line for each of them."""
    drawn = Drawing(320.0)
    ax = drawn.axes("complexity (tree)", "unexplained variance")
    ax.set(yscale="log", ymargin=0.12)
    for i, row in enumerate(rows):
        assert row.front is not None
        pairs = sorted((c.tree, max(c.loss, MIN_LOSS)) for c in row.front)
        x = np.array([p[0] for p in pairs])
        y = np.minimum.accumulate([p[1] for p in pairs])
        ax.step(x, y, where="post", color=color(i), ls=DASHES[i // COLORS % 3])
        best = row.front.best_candidate()
        ax.plot(best.tree, max(best.loss, MIN_LOSS), "o", color=color(i), ms=7)
    reach = max(row.front.best_candidate().tree for row in rows if row.front is not None)
    ax.set_xlim(-0.5, max(2.5 * reach, 10.0))
    # A law without a constant may be worse than the mean; those do not deserve the room.
    ax.set_ylim(top=min(ax.get_ylim()[1], 2.0))
    log_decades(ax)
    return drawn.svg(f"Pareto fronts of {', '.join(row.label for row in rows)}")
