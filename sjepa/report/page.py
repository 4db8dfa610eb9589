"""The report as one HTML page that needs nothing but itself.

Everything that may come from a file (names, notes, settings, titles) is escaped by the template;
only what our own modules have drawn or typeset, and escaped themselves, is marked as markup.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from sjepa.report import charts, table_charts
from sjepa.report.content import ReportData, ReportEntry, VideoFrames
from sjepa.report.table import is_formula
from sjepa.report.text import listed, number, numbers, pretty, r2, sentence
from sjepa.report.video import sheet
from sjepa.symbolic import Law
from sjepa.symbolic.export.html import equations
from sjepa.symbolic.intervals import LEVEL, Interval


# Of the coefficients; the full numbers stand at the end of the page.
DIGITS = 4
TEXTS = (("latex", "LaTeX"), ("python", "Python"), ("json", "JSON"))
_FIGURES = {
    "loss": "Training loss",
    "risk": "Validation risk",
    "objective": "Validation objective",
    "complexity": "Complexity of the law",
    "min_std": "Smallest spread of a coordinate; near 0 means collapse",
}


def render(data: ReportData) -> str:
    """The whole page."""
    script = f"\n{asset('page.js')}"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    laws = [_law(data, i, entry) for i, entry in enumerate(data.entries)]
    chosen = data.start if data.entries[data.start].candidate is not None else None
    front = data.front if data.front is not None and len(data.front) else None
    return template().render(
        data=data,
        # Only this very script runs, and nothing is fetched, whatever the texts contain.
        policy=Markup(
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'"
        ),
        script=Markup(script),
        style=Markup(asset("page.css")),
        lead=_lead(data.law),
        paths="values" if is_formula(data.law) else "paths",
        warnings=[sentence(warning) for warning in data.warnings],
        notes=[sentence(note) for note in data.notes],
        dimensions=[_dimension(row) for row in data.dimensions.to_dict("records")],
        laws=laws,
        texts=TEXTS,
        pareto="" if front is None else Markup(charts.pareto(front, chosen)),
        terms=[] if front is None else [_term(row) for row in front.intervals],
        level=f"{LEVEL:.0%}",
        **_motion(data),
        **_table(data),
        video=None if data.video is None else _video(data.video, data.names),
        training=[
            (Markup(charts.training(data.history, c)), _FIGURES.get(c, str(c)))
            for c in data.history.columns
            if c != "step"
        ],
    )


@cache
def template(name: str = "page.html") -> Template:
    pages = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined,
        loader=PackageLoader("sjepa.report", ""),
    )  # fmt: skip
    return pages.get_template(name)


def asset(name: str) -> str:
    return files("sjepa.report").joinpath(name).read_text(encoding="utf-8")


def _lead(law: Law) -> str:
    outputs = listed(law.outputs)
    if is_formula(law):
        return f"A formula for {outputs}."
    kind = "next values" if law.dynamics == "discrete" else "time derivatives"
    return f"A law for the {kind} of {outputs}."


def _table(data: ReportData) -> dict[str, Any]:
    """Predictions and residuals, where there is a table."""
    if data.measured is None:
        return {"predicted": [], "table_residuals": []}
    outputs = range(min(len(data.law.outputs), charts.MAX_COORDINATES))
    return {
        "predicted": [(Markup(table_charts.predicted(data, j)), "") for j in outputs],
        "table_residuals": [(Markup(drawing), "") for drawing in table_charts.residuals(data)],
    }


def _law(data: ReportData, i: int, entry: ReportEntry) -> dict[str, Any]:
    """One law as the page tells it."""
    candidate, chosen = entry.candidate, i == data.start
    score = entry.score if np.isnan(entry.table_r2) else entry.table_r2
    tag = "The chosen law" if chosen else "Not the chosen law"
    if chosen and candidate is None:
        tag += ", trained further than those of the front"
    if data.trails and not entry.paths:
        tag += ". Paths are drawn for the chosen law and those near it in its coordinates"
    return {
        "number": i,
        "shown": chosen,
        "chosen": chosen,
        "tag": f"{tag}.",
        "equations": Markup(equations(entry.law, DIGITS)),
        "facts": numbers(data, entry),
        "latex": entry.law.latex(DIGITS),
        "python": entry.law.python(),
        "json": entry.law.to_json(),
        "complexity": ""
        if candidate is None or data.front is None
        else f"{data.front.complexity(candidate):g}",
        "loss": "" if candidate is None else number(candidate.loss),
        "r2": "" if np.isnan(score) else r2(score),
    }


def _dimension(row: dict[str, Any]) -> dict[str, Any]:
    """A number of coordinates that was tried, as the page tells it."""
    return {
        "count": row["dimension"],
        **{k: number(row[k], 2) for k in ("residual", "noise_floor", "complexity")},
        "adequate": "yes" if row["adequate"] else "no",
        "law": row["law"],
    }


def _term(row: Interval) -> dict[str, str]:
    """A row of the table; a term that the law lacks has no number."""
    in_law = row.coefficient != 0
    return {
        "output": pretty(row.output),
        "name": row.term if in_law else f"{row.term} (in its place)",
        "coefficient": number(row.coefficient, DIGITS) if in_law else "",
        "interval": f"{number(row.low, DIGITS)} to {number(row.high, DIGITS)}" if in_law else "",
        "inclusion": f"{row.inclusion:.0%}",
    }


def _motion(data: ReportData) -> dict[str, Any]:
    """Paths, residuals and portraits, where there are data and laws that move."""
    if not data.trails:
        return {"rollouts": [], "scores": [], "portraits": [], "residuals": []}
    size, acted = len(data.names), data.trails[0].u is not None
    drawings = (
        [charts.line_portrait(data)]
        if size == 1
        else [charts.portrait(data, pair) for pair in charts.pairs(size)]
    )
    names = data.law.inputs[size:]
    residuals = [] if data.points is None else range(min(size, charts.MAX_COORDINATES))
    return {
        "coordinates": [(pretty(n), i % charts.COLORS + 1) for i, n in enumerate(data.names)],
        "actions": ", ".join(map(pretty, names)) if acted else "",
        "rollouts": [
            (Markup(charts.rollout(data, k)), _scored(data, k, trail.name))
            for k, trail in enumerate(data.trails)
        ],
        "scores": [(name, _scored(data, k)) for k, name in enumerate(data.trajectories)]
        if len(data.trajectories) > len(data.trails)
        else [],
        "portraits": [(Markup(drawing), "") for drawing in drawings],
        "velocities": "The next values" if data.law.dynamics == "discrete" else "Velocities",
        "residuals": [(Markup(charts.residuals(data, j)), "") for j in residuals],
        "size": size,
        "others": size > 2 or acted,
    }


def _scored(data: ReportData, k: int, name: str = "") -> Markup:
    """How well each law does on one trajectory; one is seen at a time."""
    scores = Markup("").join(
        Markup('<span data-law="{}"{}>{}</span>').format(
            i, Markup("" if i == data.start else " hidden"), _score(entry, k)
        )
        for i, entry in enumerate(data.entries)
        if entry.scores
    )
    return Markup("{}: {}").format(name, scores) if name else scores


def _score(entry: ReportEntry, k: int) -> str:
    ends = {"diverged": "the path diverges", "budget": "too slow to simulate"}
    status = entry.status[k] if k < len(entry.status) else "ok"
    return ends.get(status, f"R² {r2(entry.scores[k])}")


def _video(video: VideoFrames, names: tuple[str, ...]) -> dict[str, Any]:
    address, columns, rows, width, height = sheet(video)
    coordinates = names[: video.z.shape[1]]
    curve, places = charts.video_curve(video.t, video.z, coordinates)
    words = []
    for t, z in zip(video.t, video.z, strict=True):
        values = [f"{pretty(name)} = {number(v)}" for name, v in zip(coordinates, z, strict=True)]
        words.append(f"t = {number(t)}: {', '.join(values)}")
    return {
        "name": video.name, "address": Markup(address), "columns": columns, "rows": rows,
        "width": width, "height": height, "count": len(video.frames), "curve": Markup(curve),
        "words": "|".join(words), "places": " ".join(places),
    }  # fmt: skip
