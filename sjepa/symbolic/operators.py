"""The one table of operators: every parser, printer, measure, emitter and engine derives from it.

Adding an operator is adding a row here and, if it is not built into Julia, one line in
``julia/sjepa_julia/operators.jl``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
import sympy
import torch
from torch import Tensor

from sjepa.errors import LawError, did_you_mean
from sjepa.symbolic import functions as safe


@dataclass(frozen=True)
class Operator:
    """One row: what an operator is called, what it costs, and how each engine spells it.

    Parameters
    ----------
    name : str
        Spelling in our text form.
    arity : int or None
        Number of arguments; None means one or more.
    weight : float
        Cost of one node of this kind in the ``tree`` complexity.
    build : callable
        Makes the SymPy expression from SymPy arguments.
    node : type or None
        The class by which the operator is recognised in a SymPy tree. None for spellings that
        turn into other nodes at once (``square`` becomes a power).
    numpy, torch : callable or None
        Value on arrays and tensors; None together with `node`.
    pysr : str
        Name in Julia as PySR knows it; empty if PySR is not offered the operator.
    operon : str
        Name of the pyoperon node type; empty if it has none.
    aliases : tuple of str
        Other spellings that are read: PySR's, PySINDy's, numpy's.
    example : tuple of float
        Arguments inside the domain, for self-checks.
    """

    name: str
    arity: int | None
    weight: float
    build: Callable[..., sympy.Expr]
    node: type | None = None
    numpy: Callable[..., Any] | None = None
    torch: Callable[..., Tensor] | None = None
    pysr: str = ""
    operon: str = ""
    aliases: tuple[str, ...] = ()
    example: tuple[float, ...] = (0.7,)


# Weights of the nodes that are not function calls, on the same scale as the table's. They are
# multiples of one half so that PySR, which rounds complexities to integers, can honour them
# doubled. The order constant < variable < product < quotient < transcendental holds for
# nodes and for the smallest expression of each kind: 0.5 < 1 < 3.5 < 4 < 4.5.
CONSTANT = 0.5
VARIABLE = 1.0
SUM = 1.0
PRODUCT = 1.5
QUOTIENT = 2.0
POWER = 1.5  # of a square; each further unit of an integer exponent adds EXPONENT
EXPONENT = 0.5
TRANSCENDENTAL = 3.5


def _np_safe_div(a: Any, b: Any) -> Any:
    inside = np.abs(b) < safe.EPS
    return np.where(inside, a * b / safe.EPS**2, a / np.where(inside, 1.0, b))


def _torch_safe_div(a: Tensor, b: Tensor) -> Tensor:
    inside = b.abs() < safe.EPS
    # The inner where keeps 1/0 out of the backward pass, which would turn 0 * inf into NaN.
    return torch.where(inside, a * b / safe.EPS**2, a / torch.where(inside, torch.ones_like(b), b))


def _np_exp_clip(x: Any) -> Any:
    return np.exp(np.clip(x, -safe.CLIP, safe.CLIP))


def _torch_exp_clip(x: Tensor) -> Tensor:
    return torch.exp(torch.clamp(x, -safe.CLIP, safe.CLIP))


def _np_log_safe(x: Any) -> Any:
    return np.log(np.maximum(np.abs(x), safe.EPS))


def _torch_log_safe(x: Tensor) -> Tensor:
    return torch.log(torch.clamp(x.abs(), min=safe.EPS))


def _np_sqrt_safe(x: Any) -> Any:
    size = np.abs(x)
    return np.where(size < safe.EPS**2, size / safe.EPS, np.sqrt(size))


def _torch_sqrt_safe(x: Tensor) -> Tensor:
    size = x.abs()
    inside = size < safe.EPS**2
    return torch.where(
        inside, size / safe.EPS, torch.sqrt(torch.where(inside, torch.ones_like(size), size))
    )


def _np_max(*a: Any) -> Any:
    return np.maximum.reduce(np.broadcast_arrays(*a))


def _np_min(*a: Any) -> Any:
    return np.minimum.reduce(np.broadcast_arrays(*a))


def _torch_max(*a: Tensor) -> Tensor:
    out = a[0]
    for other in a[1:]:
        out = torch.maximum(out, other)
    return out


def _torch_min(*a: Tensor) -> Tensor:
    out = a[0]
    for other in a[1:]:
        out = torch.minimum(out, other)
    return out


def _np_heaviside(x: Any, at_zero: Any = 0.5) -> Any:
    return np.heaviside(x, at_zero)


def _torch_heaviside(x: Tensor, at_zero: Tensor | float = 0.5) -> Tensor:
    at_zero = torch.as_tensor(at_zero, dtype=x.dtype, device=x.device)
    return torch.where(x > 0, torch.ones_like(x), torch.where(x < 0, torch.zeros_like(x), at_zero))


def _log(x: sympy.Expr, base: sympy.Expr | None = None) -> sympy.Expr:
    return sympy.log(x) if base is None else sympy.log(x) / sympy.log(base)


def _indicator(condition: Any) -> sympy.Expr:
    return sympy.Piecewise((sympy.S.One, condition), (sympy.S.Zero, True))


def _where(condition: Any, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    return sympy.Piecewise((a, condition), (b, True))


_T = TRANSCENDENTAL

_ROWS = (
    # Functions that stay nodes of the tree.
    Operator("sin", 1, _T, sympy.sin, sympy.sin, np.sin, torch.sin, "sin", "Sin"),
    Operator("cos", 1, _T, sympy.cos, sympy.cos, np.cos, torch.cos, "cos", "Cos"),
    Operator("tan", 1, _T, sympy.tan, sympy.tan, np.tan, torch.tan, "tan", "Tan"),
    Operator("sinh", 1, _T, sympy.sinh, sympy.sinh, np.sinh, torch.sinh, "sinh", "Sinh"),
    Operator("cosh", 1, _T, sympy.cosh, sympy.cosh, np.cosh, torch.cosh, "cosh", "Cosh"),
    Operator("tanh", 1, _T, sympy.tanh, sympy.tanh, np.tanh, torch.tanh, "tanh", "Tanh"),
    Operator("asin", 1, _T, sympy.asin, sympy.asin, np.arcsin, torch.asin, "asin", "Asin", ("arcsin",)),
    Operator("acos", 1, _T, sympy.acos, sympy.acos, np.arccos, torch.acos, "acos", "Acos", ("arccos",)),
    Operator("atan", 1, _T, sympy.atan, sympy.atan, np.arctan, torch.atan, "atan", "Atan", ("arctan",)),
    Operator("asinh", 1, _T, sympy.asinh, sympy.asinh, np.arcsinh, torch.asinh, "asinh", "", ("arcsinh",)),
    Operator("exp", 1, _T, sympy.exp, sympy.exp, np.exp, torch.exp, "exp", "Exp", ("safe_exp",)),
    Operator("log", None, _T, _log, sympy.log, np.log, torch.log, "log", "Log", ("safe_log", "ln")),
    Operator("erf", 1, _T, sympy.erf, sympy.erf, scipy.special.erf, torch.erf, "erf"),
    Operator("Abs", 1, 1.0, sympy.Abs, sympy.Abs, np.abs, torch.abs, "abs", "Abs", ("abs",)),
    Operator("sign", 1, 1.0, sympy.sign, sympy.sign, np.sign, torch.sign, "sign"),
    Operator("floor", 1, 2.0, sympy.floor, sympy.floor, np.floor, torch.floor, "floor", "Floor"),
    Operator("ceil", 1, 2.0, sympy.ceiling, sympy.ceiling, np.ceil, torch.ceil, "ceil", "Ceil", ("ceiling",)),
    Operator("Max", None, 2.0, sympy.Max, sympy.Max, _np_max, _torch_max, "max", "Fmax", ("max", "fmax"), (0.7, -0.2, 1.1)),
    Operator("Min", None, 2.0, sympy.Min, sympy.Min, _np_min, _torch_min, "min", "Fmin", ("min", "fmin"), (0.7, -0.2, 1.1)),
    Operator("Mod", 2, 2.5, sympy.Mod, sympy.Mod, np.mod, torch.remainder, "mod", "", ("mod",), (2.7, 0.8)),
    Operator("Heaviside", None, 2.0, sympy.Heaviside, sympy.Heaviside, _np_heaviside, _torch_heaviside, "", "", ("heaviside",)),
    # Domain-safe operators (see functions.py).
    Operator("safe_div", 2, QUOTIENT, safe.safe_div, safe.safe_div, _np_safe_div, _torch_safe_div, "safe_div", "", (), (0.7, 1.3)),
    Operator("exp_clip", 1, _T, safe.exp_clip, safe.exp_clip, _np_exp_clip, _torch_exp_clip, "exp_clip"),
    Operator("log_safe", 1, _T, safe.log_safe, safe.log_safe, _np_log_safe, _torch_log_safe, "log_safe"),
    Operator("sqrt_safe", 1, 2.5, safe.sqrt_safe, safe.sqrt_safe, _np_sqrt_safe, _torch_sqrt_safe, "sqrt_safe"),
    # Spellings that become sums, products and powers at once.
    Operator("sqrt", 1, 2.5, sympy.sqrt, pysr="sqrt", operon="Sqrt", aliases=("safe_sqrt",)),
    Operator("cbrt", 1, 2.5, lambda x: sympy.sign(x) * sympy.Abs(x) ** sympy.Rational(1, 3), pysr="cbrt"),
    Operator("square", 1, POWER, lambda x: x**2, pysr="square", operon="Square"),
    Operator("cube", 1, POWER + EXPONENT, lambda x: x**3, pysr="cube"),
    Operator("inv", 1, QUOTIENT, lambda x: 1 / x, pysr="inv"),
    Operator("neg", 1, 0.5, lambda x: -x, pysr="neg"),
    Operator("relu", 1, 2.0, lambda x: sympy.Max(x, sympy.S.Zero), pysr="relu"),
    Operator("add", 2, SUM, lambda a, b: a + b, pysr="+", operon="Add", aliases=("plus",), example=(0.7, 0.2)),
    Operator("sub", 2, SUM, lambda a, b: a - b, pysr="-", operon="Sub", example=(0.7, 0.2)),
    Operator("mul", 2, PRODUCT, lambda a, b: a * b, pysr="*", operon="Mul", aliases=("mult",), example=(0.7, 0.2)),
    Operator("div", 2, QUOTIENT, lambda a, b: a / b, pysr="/", operon="Div", example=(0.7, 0.2)),
    Operator("pow", 2, 2.5, lambda a, b: a**b, pysr="^", operon="Pow", aliases=("safe_pow",), example=(0.7, 1.2)),
    Operator("log2", 1, _T, lambda x: _log(x, sympy.Integer(2)), pysr="log2", aliases=("safe_log2",)),
    Operator("log10", 1, _T, lambda x: _log(x, sympy.Integer(10)), pysr="log10", aliases=("safe_log10",)),
    Operator("log1p", 1, _T, lambda x: sympy.log(1 + x), pysr="log1p", operon="Log1p", aliases=("safe_log1p",)),
    Operator("log_abs", 1, _T, lambda x: sympy.log(sympy.Abs(x)), operon="Logabs"),
    Operator("sqrt_abs", 1, 2.5, lambda x: sympy.sqrt(sympy.Abs(x)), operon="Sqrtabs"),
    Operator("greater", 2, 2.0, lambda a, b: _indicator(a > b), pysr="greater", example=(0.7, 0.2)),
    Operator("less", 2, 2.0, lambda a, b: _indicator(a < b), pysr="less", example=(0.7, 0.2)),
    Operator("greater_equal", 2, 2.0, lambda a, b: _indicator(a >= b), pysr="greater_equal", example=(0.7, 0.2)),
    Operator("less_equal", 2, 2.0, lambda a, b: _indicator(a <= b), pysr="less_equal", example=(0.7, 0.2)),
    Operator("cond", 2, 2.0, lambda a, b: _where(a > 0, b, sympy.S.Zero), pysr="cond", example=(0.7, 0.2)),
    Operator("fma", 3, SUM + PRODUCT, lambda a, b, c: a * b + c, aliases=("muladd",), example=(0.7, 0.2, 0.1)),
    Operator("clamp", 3, 2.5, lambda x, a, b: sympy.Min(sympy.Max(x, a), b), example=(0.7, 0.2, 0.5)),
)  # fmt: skip

OPERATORS: dict[str, Operator] = {row.name: row for row in _ROWS}

# Every accepted spelling of a call, ours and other people's.
SPELLINGS: dict[str, Operator] = {
    spelling: row for row in _ROWS for spelling in (row.name, *row.aliases)
}

# The symbols +, -, *, / and ^ as people write them in operator lists.
SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "^": "pow", "**": "pow"}

# Operators that are recognised as nodes of a SymPy tree.
NODES: dict[type, Operator] = {row.node: row for row in _ROWS if row.node is not None}


def operator(name: str) -> Operator:
    """The row called `name`, by any of its spellings or signs."""
    try:
        return SPELLINGS[SIGNS.get(name, name)]
    except KeyError:
        hint = did_you_mean(name, [*SPELLINGS, *SIGNS])
        raise LawError(
            f"No operator is called {name!r}.{hint} Known: + - * / ^ {' '.join(sorted(OPERATORS))}."
        ) from None
