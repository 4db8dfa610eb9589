"""The trade-off surface as one HTML page: a point that is clicked is marked everywhere.

Without a script: a point is a link to its row of the table, and the style sheet marks what belongs
to the row that was linked to.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files

import numpy as np
import pandas as pd
from matplotlib import rc_context

from sjepa.report.charts import AXIS, STYLE, Drawing
from sjepa.report.text import number


HEIGHT = 300.0
NAMES = {"l_pred": "L_pred", "l_roll": "L_roll", "omega": "Ω of the law", "rho_corr": "ρ_corr"}
LOSSES, MEASURES = ("l_pred", "l_roll"), ("omega", "rho_corr")
# Losses below this are rounding.
MIN_LOSS = 1e-12


def surface_page(table: pd.DataFrame, title: str = "Trade-off surface") -> str:
    """Prediction and rollouts against Ω and ρ_corr, and the laws; `table` is that of a sweep."""
    shown = table[table["admissible"]].reset_index(drop=True)
    drawings = [
        f"<figure>{_drawing(shown, measure, loss)}</figure>"
        for loss in LOSSES
        for measure in MEASURES
    ]
    marks = "\n".join(
        f'main:has(#row{i}:target) [data-row="{i}"] .ring {{ stroke: var(--accent); }}'
        for i in range(len(shown))
    )
    style = (files("sjepa.report") / "page.css").read_text("utf-8")
    left_out = len(table) - len(shown)
    lost = f" {left_out} have collapsed or diverged and are not shown." if left_out else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{style}
.point .dot {{ fill: var(--arrow); }}
tr {{ scroll-margin-top: 80vh; }}
tr:target td {{ background: var(--grid); }}
{marks}
</style></head><body><main>
<h1>{escape(title)}</h1>
<p class="lead">{len(table)} settings of the weights, measured on held-out trajectories. Those that
no other setting beats in all four figures are in color.{lost} Click a point to mark its
setting.</p>
<section class="grid2">{"".join(drawings)}</section>
<section class="scroll">{_rows(shown)}</section>
</main></body></html>
"""


@rc_context(STYLE)
def _drawing(table: pd.DataFrame, measure: str, loss: str) -> str:
    x, y = table[measure].to_numpy(float), np.maximum(table[loss].to_numpy(float), MIN_LOSS)
    drawn = Drawing(HEIGHT)
    ax = drawn.axes(NAMES[measure], NAMES[loss])
    ax.set(yscale="log", xmargin=0.06, ymargin=0.12)
    ax.plot(x, y, "o", ms=2, color=AXIS)
    # What is in color comes last, so that nothing lies on it.
    for i in np.argsort(table["front"].to_numpy(bool), kind="stable"):
        at = 'cx="{:.1f}" cy="{:.1f}"'.format(*drawn.at(ax, x[i], y[i]))
        row = table.iloc[i]
        words = (
            f"λ_s {row['lambda_s']:g}, λ_c {row['lambda_c']:g}, λ_r {row['lambda_r']:g}: "
            f"{row['law']}"
        )
        drawn.over += (
            f'<a href="#row{i}" class="point{" chosen" if row["front"] else ""}" data-row="{i}">'
            f'<title>{escape(words)}</title><circle class="touch" {at} r="14"/>'
            f'<circle class="ring" {at} r="9"/><circle class="dot" {at} r="4.5"/></a>'
        )
    return drawn.svg(f"{NAMES[loss]} against {NAMES[measure]}")


def _rows(table: pd.DataFrame) -> str:
    columns = ["lambda_s", "lambda_c", "lambda_r", *LOSSES, *MEASURES]
    names = ["λ_s", "λ_c", "λ_r", *(NAMES[c] for c in (*LOSSES, *MEASURES)), "law"]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = []
    for i, row in table.iterrows():
        cells = "".join(f'<td class="number">{number(float(row[c]))}</td>' for c in columns)
        chosen = ' class="chosen"' if row["front"] else ""
        body.append(f'<tr id="row{i}"{chosen}>{cells}<td>{escape(str(row["law"]))}</td></tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
