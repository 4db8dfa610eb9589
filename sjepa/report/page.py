"""The report as one HTML page that needs nothing but itself.

Everything that may come from a file (names, notes, settings, titles) is escaped here or is
drawn by :mod:`sjepa.report.charts`, which escapes as well.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html import escape
from importlib.resources import files

from sjepa.report import charts
from sjepa.report.content import ReportData, Trail
from sjepa.report.svg import number
from sjepa.symbolic import Candidate
from sjepa.symbolic.export.html import equations


# Of the coefficients; the full numbers stand at the end of the page.
DIGITS = 4


def render(data: ReportData) -> str:
    """The whole page."""
    sections: list[Callable[[ReportData], str]] = [
        _head, _diagnostics, _front, _rollouts, _portrait, _training, _recipe,
    ]  # fmt: skip
    body = "\n".join(part for section in sections if (part := section(data)))
    script = f"\n{_asset('page.js')}"
    digest = b64encode(sha256(script.encode()).digest()).decode()
    # Only this very script runs, and nothing is fetched, whatever the texts contain.
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{escape(data.title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("sjepa.report").joinpath(name).read_text(encoding="utf-8")


def _section(title: str, body: str, words: str = "") -> str:
    lead = f'<p class="soft">{words}</p>' if words else ""
    return f"<section>\n<h2>{escape(title)}</h2>\n{lead}{body}\n</section>"


def _head(data: ReportData) -> str:
    facts = "".join(
        f"<div><dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd></div>"
        for k, v in data.facts.items()
    )
    kind = "next values" if data.law.dynamics == "discrete" else "time derivatives"
    *others, last = (charts.pretty(name) for name in data.law.outputs)
    names = f"{', '.join(others)} and {last}" if others else last
    words = f"A law for the {kind} of {escape(names)}."
    return (
        f'<header>\n<h1>{escape(data.title)}</h1>\n<p class="lead">{words}</p>\n'
        f'<div class="law">{equations(data.law, DIGITS)}</div>\n'
        f'<dl class="facts">{facts}</dl>\n</header>'
    )


def _diagnostics(data: ReportData) -> str:
    if not data.notes:
        return ""
    items = "".join(f"<li>{escape(_sentence(note))}</li>" for note in data.notes)
    return _section("What to know", f"<ul>{items}</ul>")


def _sentence(note: str) -> str:
    """Notes are written by many hands: start each with a capital and end it with a stop."""
    note = " ".join(note.split())
    note = note[:1].upper() + note[1:]
    return note if note.endswith((".", "!", "?")) else note + "."


def _front(data: ReportData) -> str:
    front = data.front
    if front is None or not len(front):
        return ""
    chosen = data.chosen()
    best = front.best_candidate()
    first = next(i for i, c in enumerate(front) if c is best) if chosen is None else chosen
    cards = "".join(
        f"<div{'' if i == first else ' hidden'}>{_card(data, i, c, i == chosen)}</div>"
        for i, c in enumerate(front)
    )
    rows = "".join(_row(data, i, c, i == chosen) for i, c in enumerate(front))
    head = "<tr><th>Complexity</th><th>Unexplained</th><th>Law</th></tr>"
    words = "Each point is a law that no shorter law fits as well. "
    if chosen is None:
        words += "The law above was trained further and is not among them. "
    return _section(
        "Simplicity against fit",
        f'<div class="grid2"><figure id="pareto">{charts.pareto(front, chosen)}</figure>'
        f'<div id="panel" class="panel screen" aria-live="polite">{cards}</div></div>'
        f'<details id="all-laws"><summary>All {len(front)} laws as a table</summary>'
        f'<div class="scroll"><table>{head}{rows}</table></div></details>',
        words + '<span class="screen">Point at one to see it, click to keep it.</span>',
    )


def _card(data: ReportData, i: int, candidate: Candidate, chosen: bool) -> str:
    assert data.front is not None
    words = [
        f"Complexity {data.front.complexity(candidate):g}",
        f"{number(candidate.loss)} of the variance unexplained",
    ]
    if candidate.certified:
        words.append("proven: no shorter law of the library fits as well")
    tag = ' <span class="tag">chosen</span>' if chosen else ""
    return f'<span class="soft">{escape(", ".join(words))}.</span>{tag}' + equations(
        candidate.law, DIGITS
    )


def _row(data: ReportData, i: int, candidate: Candidate, chosen: bool) -> str:
    assert data.front is not None
    mark = ' class="chosen"' if chosen else ""
    return (
        f'<tr{mark}><td class="number">{data.front.complexity(candidate):g}</td>'
        f'<td class="number">{number(candidate.loss)}</td>'
        f"<td>{equations(candidate.law, DIGITS)}</td></tr>"
    )


def _rollouts(data: ReportData) -> str:
    if not data.trails:
        return ""
    figures = "".join(
        f"<figure>{charts.rollout(trail, data.names)}"
        f"<figcaption>{escape(_caption(trail))}</figcaption></figure>"
        for trail in data.trails
    )
    return _section(
        "Simulated from the first point",
        f'{charts.legend(data.names)}<div class="grid2">{figures}</div>',
        "The law runs freely from the first observation of each trajectory; nothing is corrected "
        "on the way.",
    )


def _caption(trail: Trail) -> str:
    ends = {"diverged": ": the path diverges", "budget": ": too slow to simulate"}
    return f"{trail.name}{ends.get(trail.status, '')}"


def _portrait(data: ReportData) -> str:
    simulator = data.simulator
    if simulator is None or not data.trails:
        return ""
    if simulator.size == 1:
        drawings = [charts.line_portrait(simulator, data.trails)]
        words = "How the coordinate changes at each of its values."
    else:
        axes = charts.pairs(simulator.size)
        drawings = [charts.portrait(simulator, data.trails, pair) for pair in axes]
        words = "Trajectories, with a dot where each starts, and the directions of the law."
        if simulator.size > 2 or simulator.actions:
            words += " Arrows are drawn with everything else at its mean."
    figures = "".join(f"<figure>{drawing}</figure>" for drawing in drawings)
    return _section("Portrait", f'<div class="grid2">{figures}</div>', words)


_FIGURES = {
    "loss": "Training loss",
    "risk": "Validation risk",
    "objective": "Validation objective",
    "complexity": "Complexity of the law",
    "min_std": "Smallest spread of a coordinate; near 0 means collapse",
}


def _training(data: ReportData) -> str:
    columns = [c for c in data.history.columns if c != "step"]
    if not columns:
        return ""
    figures = "".join(
        f"<figure>{charts.training(data.history, column)}"
        f"<figcaption>{escape(_FIGURES.get(column, str(column)))}</figcaption></figure>"
        for column in columns
    )
    return _section("Training", f'<div class="grid2">{figures}</div>')


def _recipe(data: ReportData) -> str:
    law = escape(data.law.to_json())
    recipe = escape("\n".join(data.recipe))
    return _section(
        "How to make it again",
        f"<pre>{recipe}</pre>"
        f"<details><summary>The law in full, as law.json</summary><pre>{law}</pre></details>",
    )
