"""What the operators that no library has are worth: each is written once.

`xp` is the library that computes: numpy, torch, CasADi, or SymPy when the definition itself is
wanted as a formula, from which C is printed. The text of these functions is also what exported
Python carries along, so they use nothing but `xp` and the numbers below. Of `xp` they may use
what numpy and torch call alike: ``abs exp log sqrt floor sign where maximum minimum clip`` and
the trigonometric and hyperbolic functions. Julia's versions are in
``julia/sjepa_julia/operators.jl``.

The domain-safe ones equal the ordinary operator wherever that one is well behaved, and continue
it outside in a way that keeps value and slope finite, so that a search or a training step never
meets NaN. Being exact away from the edge is what lets constants fold: ``safe_div(x, 2)`` *is*
``x/2``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import sympy


EPS = 1e-3
CLIP = 20.0


def safe_div(xp: Any, a: Any, b: Any) -> Any:
    """a / b, with a linear ramp through zero where abs(b) < EPS."""
    inside = xp.abs(b) < EPS
    # The inner where keeps 1/0 out of the backward pass, which would turn 0 * inf into NaN.
    return xp.where(inside, a * b / EPS**2, a / xp.where(inside, 1.0, b))


def exp_clip(xp: Any, x: Any) -> Any:
    """exp(x) with x limited to [-CLIP, CLIP]."""
    return xp.exp(xp.clip(x, -CLIP, CLIP))


def log_safe(xp: Any, x: Any) -> Any:
    """log(abs(x)), held constant where abs(x) < EPS."""
    return xp.log(xp.clip(xp.abs(x), EPS, None))


def sqrt_safe(xp: Any, x: Any) -> Any:
    """sqrt(abs(x)), with a linear ramp to zero where abs(x) < EPS**2."""
    size = xp.abs(x)
    inside = size < EPS**2
    return xp.where(inside, size / EPS, xp.sqrt(xp.where(inside, 1.0, size)))


def floor_mod(xp: Any, a: Any, b: Any) -> Any:
    """The remainder with the sign of b, as mathematicians mean it."""
    return a - b * xp.floor(a / b)


def heaviside(xp: Any, x: Any, at_zero: Any = 0.5) -> Any:
    """0 below zero, 1 above."""
    return xp.where(x > 0, 1.0, xp.where(x < 0, 0.0, at_zero))


def maximum(xp: Any, first: Any, *others: Any) -> Any:
    """The largest of any number of values."""
    for other in others:
        first = xp.maximum(first, other)
    return first


def minimum(xp: Any, first: Any, *others: Any) -> Any:
    """The smallest of any number of values."""
    for other in others:
        first = xp.minimum(first, other)
    return first


class Namespace:
    """The names of `xp` in a library that calls some of them otherwise."""

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return self._names[name] if name in self._names else getattr(self._module, name)


def _sympy_clip(x: sympy.Expr, low: float | None, high: float | None) -> sympy.Expr:
    x = x if low is None else sympy.Max(x, low)
    return x if high is None else sympy.Min(x, high)


SYMPY = Namespace(
    sympy,
    abs=sympy.Abs,
    where=lambda condition, a, b: sympy.Piecewise((a, condition), (b, True)),
    maximum=sympy.Max,
    minimum=sympy.Min,
    clip=_sympy_clip,
)


def formula(define: Callable[..., sympy.Expr], arguments: list[sympy.Symbol]) -> sympy.Expr:
    """The definition as a SymPy expression of these arguments."""
    return define(SYMPY, *arguments)


def python_text(define: Callable[..., Any]) -> str:
    """The definition as Python that stands alone, with the numbers it refers to."""
    names = define.__code__.co_names
    numbers = {n: v for n in names if isinstance(v := define.__globals__.get(n), int | float)}
    text = re.sub(r": Any|\s*-> Any", "", inspect.getsource(define))
    head = "".join(f"{n} = {v!r}\n" for n, v in numbers.items())
    return f"{head}\n\n{text}" if head else text
