"""Dead time: an input that acts late is written ``u1(t - 0.3)``, its value 0.3 time units ago."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy

from sjepa.errors import FormatError, LawError
from sjepa.symbolic.names import TIME
from sjepa.symbolic.operators import SPELLINGS
from sjepa.symbolic.parse import symbol


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


_NUMBER = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?"
_DELAYED = re.compile(rf"(?<![\w.])([^\W\d]\w*)\(\s*{TIME}\s*-\s*({_NUMBER})\s*\)")


def read_delays(texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
    """Equations with plain names of inputs, and the delays that were written behind them.

    >>> read_delays(["-x + u1(t - 0.3)"])
    (['-x + u1'], {'u1': 0.3})
    """
    found: dict[str, float] = {}

    def bare(match: re.Match[str]) -> str:
        name, delay = match[1], float(match[2])
        if name in SPELLINGS:
            return match[0]
        if found.setdefault(name, delay) != delay:
            raise LawError(
                f"{name} has two delays, {found[name]:g} and {delay:g}; one for each input."
            )
        return name

    return [_DELAYED.sub(bare, text) if isinstance(text, str) else text for text in texts], found


def checked_delays(law: Law, delays: Any) -> dict[str, float]:
    """Delays of a law's inputs by their names; those of 0 are none."""
    if not isinstance(delays, Mapping):
        raise LawError(f"delays is a mapping of inputs to times, got {delays!r:.60}.")
    moving = {*law.outputs, *law.inputs[: len(law.outputs)]}
    for name, delay in delays.items():
        if name not in law.inputs or name in moving or name == TIME:
            given = ", ".join(n for n in law.inputs if n not in moving and n != TIME) or "none"
            raise LawError(f"{name!r:.40} has no dead time: the control inputs are {given}.")
        if type(delay) not in (int, float) or not (0 <= delay < math.inf):
            raise LawError(f"The delay of {name} is a time of at least 0, got {delay!r:.40}.")
    if any(delays.values()) and law.dynamics == "discrete":
        raise LawError("A map has no dead time; its past inputs are lags, as u1_lag1.")
    return {name: float(delay) for name, delay in delays.items() if delay}


def read_stored(law: Law, delays: Any) -> Law:
    """The law with the delays of a file."""
    try:
        return law.with_delays(delays)
    except LawError as error:
        raise FormatError(f"Not a law: {error}") from None


def with_delays_shown(law: Law) -> tuple[sympy.Expr, ...]:
    """The expressions with delayed inputs as functions of the time, to be read."""
    if not law.delays:
        return law.expressions
    shown = {
        symbol(name): sympy.Function(name)(symbol(TIME) - sympy.Float(delay))
        for name, delay in law.delays.items()
    }
    return tuple(e.xreplace(shown) for e in law.expressions)


def names_with_delays(law: Law) -> list[str]:
    """The inputs of a law, those that act late as functions of the time."""
    late = law.delays
    return [f"{n}({TIME} - {late[n]!r})" if n in late else n for n in law.inputs]


def without_delays(law: Law | None, what: str) -> None:
    """Refuse dead time where past inputs are not stored."""
    if law is not None and law.delays:
        late = ", ".join(f"{name} by {delay:.3g}" for name, delay in law.delays.items())
        raise LawError(f"{what} has no dead time, and inputs of this law act late ({late}).")
