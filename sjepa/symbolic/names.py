"""How the output of an equation is named and written.

``q'`` is a rate, ``q''`` an acceleration (in data the velocity is called ``q_dot``), ``q[t+1]`` the
next value of a map, and a plain ``y`` the value of a formula.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from sjepa.errors import LawError
from sjepa.symbolic.operators import SPELLINGS


Dynamics = Literal["continuous", "discrete"]

# An input of this name is the time: it need not be given, and goes on between and behind data.
TIME = "t"
_VELOCITY = "_dot"
_WORD = r"[^\W\d]\w*"
RATE = re.compile(rf"({_WORD})('{{1,2}})")
_EQUATION = re.compile(rf"\s*({_WORD})\s*('{{1,2}}|\[t\s*\+\s*1\])?\s*=(?!=)(.*)", re.DOTALL)
_NO_INPUTS = {*SPELLINGS, "where", "and", "or", "not", "pi", "E"}


def velocity_of(coordinate: str) -> str:
    """What the velocity of a coordinate is called in data and on right-hand sides."""
    return coordinate + _VELOCITY


def coordinate_of(name: str) -> str:
    """The coordinate whose velocity a name is, or nothing."""
    return name.removesuffix(_VELOCITY) if name.endswith(_VELOCITY) else ""


def left_side(output: str, inputs: Sequence[str] = (), dynamics: Dynamics = "continuous") -> str:
    """The left side of an equation.

    >>> left_side("q"), left_side("q_dot"), left_side("q", ["q"], "discrete")
    ("q'", "q''", 'q[t+1]')
    """
    if dynamics == "discrete":
        return f"{output}[t+1]" if output in inputs else output
    coordinate = coordinate_of(output)
    return f"{coordinate}''" if coordinate else f"{output}'"


def output_of(name: str, primes: str) -> str:
    """The output that is written with one or two primes.

    >>> output_of("q", "'"), output_of("q", "''")
    ('q', 'q_dot')
    """
    return velocity_of(name) if primes == "''" else name


class EquationTexts(NamedTuple):
    """Right-hand sides as texts, and what their left sides say."""

    expressions: list[str]
    inputs: Sequence[str]
    outputs: Sequence[str] | None
    dynamics: Dynamics | None


def has_left_side(text: object) -> bool:
    return isinstance(text, str) and _EQUATION.match(text) is not None


def read_equations(texts: Sequence[str], inputs: Sequence[str] | None) -> EquationTexts:
    """Take equations apart: either all have a left side, or none has.

    Without `inputs` these are what moves, and then every other name in order of appearance.

    >>> read_equations(["q'' = u - sin(q)"], None)
    EquationTexts(expressions=['u - sin(q)'], inputs=['q', 'q_dot', 'u'], outputs=['q_dot'], \
dynamics='continuous')
    """
    matches = [_EQUATION.match(text) if isinstance(text, str) else None for text in texts]
    sides = [match.groups(default="") for match in matches if match is not None]
    if not sides:
        if inputs is None:
            raise LawError('Name the inputs, or write equations with a left side: "q\' = -q".')
        return EquationTexts(list(texts), inputs, None, None)
    if len(sides) < len(texts):
        raise LawError("Some equations have a left side and some have none; write all alike.")
    rates = {mark.startswith("'") for _, mark, _ in sides}
    if len(rates) > 1:
        raise LawError("Some left sides are rates and some are values; write all alike.")
    outputs = [output_of(name, mark) for name, mark, _ in sides]
    expressions = [right.strip() for _, _, right in sides]
    if inputs is None:
        moving = [o for o, (_, mark, _) in zip(outputs, sides, strict=True) if mark]
        words = re.findall(rf"(?<![\w.]){_WORD}", " ".join(expressions))
        names = [*(coordinate_of(o) or o for o in moving), *moving, *words]
        inputs = [n for n in dict.fromkeys(names) if n not in _NO_INPUTS]
    for output, (_, mark, _) in zip(outputs, sides, strict=True):
        if not mark and output in inputs:
            raise LawError(
                f"{output!r} is an input; write {output}' = ... for its rate, or "
                f"{output}[t+1] = ... for its next value."
            )
    return EquationTexts(
        expressions, inputs, outputs, "continuous" if True in rates else "discrete"
    )
