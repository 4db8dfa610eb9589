"""A law in presentation MathML, as browsers typeset it."""

from __future__ import annotations

import re
from html.entities import html5
from typing import TYPE_CHECKING

import sympy
from sympy.printing.mathml import mathml as sympy_mathml

from sjepa.symbolic.delays import with_delays_shown
from sjepa.symbolic.text import for_reading


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


def mathml_markup(expr: sympy.Expr, digits: int) -> str:
    """An expression in presentation markup, without the ``<math>`` element around it."""
    text = str(sympy_mathml(for_reading(expr, digits, 1e15), printer="presentation"))
    # SymPy leaves the sign of a comparison bare, and writes a hyphen for a minus.
    text = text.replace("<mo><", "<mo>&lt;").replace("<mo>-</mo>", "<mo>&#x2212;</mo>")
    text = _VELOCITY.sub(_dotted, text)
    text = _INDEXED_POWER.sub(r"<msubsup>\1\2\3</msubsup>", text)
    text = _plain_brackets(text)
    return _BEFORE_WORD.sub(_THIN_SPACE, _ENTITY.sub(_numeric_entity, text))


# Brackets around a line of text: fonts without mathematics would draw them twice as high.
_BRACKETS = re.compile(
    r"<mo>\(</mo>((?:(?!<mo>[()]</mo>|<mfrac|<msup|<msqrt|<mroot|<mtable|<mover).)*)<mo>\)</mo>"
)


def _plain_brackets(text: str) -> str:
    """Brackets of fixed height, from the innermost outward."""
    plain = '<mo stretchy="false">{}</mo>'.format
    count = 1
    while count:
        text, count = _BRACKETS.subn(lambda m: plain("(") + m[1] + plain(")"), text)
    return text


# A number and a name of several letters run together where the sign between them is invisible.
_BEFORE_WORD = re.compile(r"<mo>&#8290;</mo>(?=<mi>[^\W\d]{2,}</mi>)")
_THIN_SPACE = '<mspace width="0.17em"></mspace>'


# The power of an indexed name stands above its index, not behind it.
_INDEXED_POWER = re.compile(
    r"<msup><msub>(<mi>[^<]*</mi>)(<mi>[^<]*</mi>)</msub>(<mn>[^<]*</mn>)</msup>"
)


# SymPy reads z1_dot as z with two indices.
_VELOCITY = re.compile(
    r"<msub>(<mi>[^<]*</mi>)"
    r"(?:<mrow>(<mi>[^<]*</mi>)<mo> </mo><mi>dot</mi></mrow>|<mi>dot</mi>)</msub>"
)
# A full stop above the letter: fonts without mathematics draw the dot accent inside it.
_DOT = "<mo>.</mo>"


def _dotted(match: re.Match[str]) -> str:
    letter = f'<mover accent="false">{match[1]}{_DOT}</mover>'
    return f"<msub>{letter}{match[2]}</msub>" if match[2] else letter


def mathml_left(law: Law, i: int) -> str:
    """The left side of an equation in presentation markup."""
    name = law.outputs[i]
    markup = mathml_markup(sympy.Symbol(name), 4)
    if law.dynamics == "continuous":
        if _DOT in markup:
            return markup.replace(_DOT, "<mo>..</mo>")
        dotted = rf'<mover accent="false">\g<0>{_DOT}</mover>'
        return re.sub(r"<mi>.*?</mi>", dotted, markup, count=1)
    return f"<msup><mrow>{markup}</mrow><mo>+</mo></msup>" if name in law.inputs else markup


def mathml(law: Law, digits: int = 4) -> str:
    """Presentation MathML, one ``<math>`` element for each equation."""
    return "\n".join(
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
        f"<mrow>{mathml_left(law, i)}<mo>=</mo>{mathml_markup(expr, digits)}</mrow></math>"
        for i, expr in enumerate(with_delays_shown(law))
    )


_ENTITY = re.compile(r"&(?!amp;|lt;|gt;|quot;|#)(\w+;)")


def _numeric_entity(match: re.Match[str]) -> str:
    """Named entities are not defined outside HTML; their numbers are understood everywhere."""
    return "".join(f"&#{ord(c)};" for c in html5[match.group(1)])
