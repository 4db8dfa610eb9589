"""Laws and fronts as HTML: equations typeset in MathML that wrap between their terms.

Every text that comes from outside goes through :func:`html.escape`.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import sympy

from sjepa.symbolic.delays import with_delays_shown
from sjepa.symbolic.export.mathml import mathml_left, mathml_markup


if TYPE_CHECKING:
    from sjepa.symbolic.front import Front
    from sjepa.symbolic.law import Law


# Browsers do not break a formula over lines, so that each term is a formula of its own.
NOTEBOOK_STYLE = (
    "<style>"
    ".sjepa-law{display:grid;grid-template-columns:auto 1fr;gap:.35em .4em;align-items:baseline;"
    "font-size:1.1em;margin:.4em 0;text-align:left}"
    ".sjepa-law .lhs{text-align:right;white-space:nowrap}.sjepa-law math{display:inline math}"
    ".sjepa-front{border-collapse:collapse}.sjepa-front td,.sjepa-front th{padding:.25em .9em;"
    "text-align:right}.sjepa-front td:last-child,.sjepa-front th:last-child{text-align:left}"
    ".sjepa-front tr.chosen{font-weight:600;background:rgba(120,140,180,.15)}"
    "</style>"
)


def equations(law: Law, digits: int = 4) -> str:
    """The law as a grid: left sides in one column, terms that may wrap in the other."""
    rows = []
    for i, expr in enumerate(with_delays_shown(law)):
        left = _math(mathml_left(law, i) + "<mo>=</mo>")
        terms = " ".join(_math(term) for term in _terms(expr, digits))
        rows.append(f'<span class="lhs">{left}</span><span class="rhs">{terms}</span>')
    return f'<div class="sjepa-law">{"".join(rows)}</div>'


def _terms(expr: sympy.Expr, digits: int) -> list[str]:
    result = []
    for i, term in enumerate(expr.as_ordered_terms()):
        minus = term.could_extract_minus_sign()
        body = mathml_markup(-term if minus and i else term, digits)
        # A sign at the start of a formula would be set as one before a number, without space.
        sign = f'<mo form="infix">{"&#x2212;" if minus else "+"}</mo>' if i else ""
        result.append(sign + body)
    return result


def _math(markup: str) -> str:
    return f"<math><mrow>{markup}</mrow></math>"


def law_html(law: Law) -> str:
    """For notebooks: the equations alone."""
    return NOTEBOOK_STYLE + equations(law)


def front_html(front: Front, max_rows: int = 30) -> str:
    """For notebooks: one row for each law, the chosen one marked."""
    if not len(front):
        return f"<p>{escape(repr(front))}</p>"
    chosen = front.best_candidate()
    head = f"<tr><th>complexity ({escape(front.measure)})</th><th>loss</th><th>law</th></tr>"
    rows = []
    for c in front.candidates[:max_rows]:
        mark = ' class="chosen"' if c is chosen else ""
        cells = f"<td>{front.complexity(c):g}</td><td>{c.loss:.2e}</td>"
        rows.append(f"<tr{mark}>{cells}<td>{equations(c.law)}</td></tr>")
    more = len(front) - max_rows
    notes = [f"and {more} longer laws"] if more > 0 else []
    small = "".join(f"<p>{escape(n)}</p>" for n in [*notes, *front.notes])
    return f'{NOTEBOOK_STYLE}<table class="sjepa-front">{head}{"".join(rows)}</table>{small}'
