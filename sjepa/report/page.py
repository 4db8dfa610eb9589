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

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from sjepa.report import charts
from sjepa.report.content import ReportData, Trail
from sjepa.report.svg import number
from sjepa.symbolic import Law
from sjepa.symbolic.export.html import equations


# Of the coefficients; the full numbers stand at the end of the page.
DIGITS = 4
_FIGURES = {
    "loss": "Training loss",
    "risk": "Validation risk",
    "objective": "Validation objective",
    "complexity": "Complexity of the law",
    "min_std": "Smallest spread of a coordinate; near 0 means collapse",
}


def render(data: ReportData) -> str:
    """The whole page."""
    script = f"\n{_asset('page.js')}"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    *others, last = (charts.pretty(name) for name in data.law.outputs)
    return _template().render(
        data=data,
        # Only this very script runs, and nothing is fetched, whatever the texts contain.
        policy=Markup(
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'"
        ),
        script=Markup(script),
        style=Markup(_asset("page.css")),
        kind="next values" if data.law.dynamics == "discrete" else "time derivatives",
        outputs=f"{', '.join(others)} and {last}" if others else last,
        equations=_equations,
        notes=[_sentence(note) for note in data.notes],
        **_front(data),
        coordinates=[(charts.pretty(n), i % charts.COLOURS + 1) for i, n in enumerate(data.names)],
        rollouts=[(Markup(charts.rollout(t, data.names)), _caption(t)) for t in data.trails],
        **_portraits(data),
        training=[
            (Markup(charts.training(data.history, c)), _FIGURES.get(c, str(c)))
            for c in data.history.columns
            if c != "step"
        ],
    )


@cache
def _template() -> Template:
    pages = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined,
        loader=PackageLoader("sjepa.report", ""),
    )  # fmt: skip
    return pages.get_template("page.html")


def _asset(name: str) -> str:
    return files("sjepa.report").joinpath(name).read_text(encoding="utf-8")


def _equations(law: Law) -> Markup:
    return Markup(equations(law, DIGITS))


def _sentence(note: str) -> str:
    """Notes are written by many hands: start each with a capital and end it with a stop."""
    note = " ".join(note.split())
    note = note[:1].upper() + note[1:]
    return note if note.endswith((".", "!", "?")) else note + "."


def _front(data: ReportData) -> dict[str, Any]:
    """The laws of the front, the one that was chosen, and the one that is shown first."""
    front = data.front
    if front is None or not len(front):
        return {"laws": []}
    chosen = data.chosen()
    best = front.best_candidate()
    first = next(i for i, c in enumerate(front) if c is best) if chosen is None else chosen
    laws = [
        {
            "complexity": f"{front.complexity(c):g}",
            "loss": number(c.loss),
            "certified": c.certified,
            "equations": _equations(c.law),
            "chosen": i == chosen,
            "shown": i == first,
        }
        for i, c in enumerate(front)
    ]
    return {"laws": laws, "chosen": chosen, "pareto": Markup(charts.pareto(front, chosen))}


def _caption(trail: Trail) -> str:
    ends = {"diverged": ": the path diverges", "budget": ": too slow to simulate"}
    return f"{trail.name}{ends.get(trail.status, '')}"


def _portraits(data: ReportData) -> dict[str, Any]:
    simulator = data.simulator
    if simulator is None or not data.trails:
        return {"portraits": []}
    if simulator.size == 1:
        drawings = [charts.line_portrait(simulator, data.trails)]
    else:
        pairs = charts.pairs(simulator.size)
        drawings = [charts.portrait(simulator, data.trails, pair) for pair in pairs]
    return {
        "portraits": [(Markup(drawing), "") for drawing in drawings],
        "size": simulator.size,
        "others": simulator.size > 2 or bool(simulator.actions),
    }
