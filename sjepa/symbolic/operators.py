"""The one table of operators: every parser, printer, measure, emitter and backend derives from it.

Adding an operator is adding a row here (or :func:`register` at run time) and, if Julia does not
have it, one line in ``julia/sjepa_julia/operators.jl``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import sympy

from sjepa.errors import LawError, did_you_mean
from sjepa.symbolic import definitions, functions as safe
from sjepa.symbolic.powers import power


@dataclass(frozen=True)
class Operator:
    """One row: what an operator is called, what it costs, and how each backend spells it.

    Parameters
    ----------
    name : str
        Spelling in our text form.
    arity : int
        Number of arguments.
    weight : float
        Cost of one node of this kind in the ``tree`` complexity.
    build : callable
        Makes the SymPy expression from SymPy arguments.
    node : type or None
        The class by which the operator is recognized in a SymPy tree, and which LaTeX and MathML
        are printed from. None for spellings that turn into other nodes at once (``square``
        becomes a power).
    calls : mapping
        What "numpy", "jax", "torch", "casadi" and "c" call it, as far as they have it; a name with dots
        is imported from another package.
    define : callable or None
        Its value where a library does not have it; see :mod:`sjepa.symbolic.definitions`. A node
        that is a :class:`~sjepa.symbolic.functions.DefinedFunction` brings it along.
    pysr : str
        Name in Julia as PySR knows it; empty if PySR is not offered the operator.
    operon : str
        Name of the pyoperon node type; empty if it has none.
    aliases : tuple of str
        Other spellings that are read: PySR's, PySINDy's, numpy's.
    example : tuple of float
        Arguments inside the domain, for self-checks.
    max_arity : int
        Most arguments that are read, where that is more than `arity`.
    """

    name: str
    arity: int
    weight: float
    build: Callable[..., sympy.Expr]
    node: type | None = None
    calls: Mapping[str, str] = field(default_factory=dict)
    define: Callable[..., Any] | None = None
    pysr: str = ""
    operon: str = ""
    aliases: tuple[str, ...] = ()
    example: tuple[float, ...] = (0.7,)
    max_arity: int = 0

    def __post_init__(self) -> None:
        if self.define is None and self.node is not None:
            object.__setattr__(self, "define", getattr(self.node, "define", None))

    @property
    def julia(self) -> str:
        """Name in Julia, also where PySR is not offered the operator."""
        return self.pysr or (self.define.__name__ if self.define else self.name)

    @cached_property
    def numpy(self) -> Callable[..., Any]:
        """Its value on arrays."""
        return self.function("numpy", import_module("numpy"))

    def function(self, library: str, xp: Any) -> Callable[..., Any]:
        """Its value as the library computes it; `xp` is the library, by numpy's names."""
        name = self.calls.get(library)
        if name is not None:
            return partial(_elsewhere, name) if "." in name else getattr(xp, name)  # type: ignore[no-any-return]
        if self.define is None:
            raise LawError(f"{self.name} has no value of its own: it stands for other operators.")
        return partial(self.define, xp)


def _elsewhere(path: str, *arguments: Any) -> Any:
    """Call a function of a package that is imported only now."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)(*arguments)


# Weights of the nodes that are not function calls, on the same scale as the table's. They are
# multiples of one half so that PySR, which rounds complexities to integers, can honor them
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


def _log(x: sympy.Expr, base: sympy.Expr | None = None) -> sympy.Expr:
    return sympy.log(x) if base is None else sympy.log(x) / sympy.log(base)


def _indicator(condition: Any) -> sympy.Expr:
    return where(condition, sympy.S.One, sympy.S.Zero)


def where(condition: Any, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """A case distinction, without SymPy's own treatment of conditions, which may not end."""
    return sympy.Piecewise((a, _apart(condition)), (b, True), evaluate=False)


def _apart(condition: sympy.Basic) -> sympy.Basic:
    """A condition on case distinctions as one on their cases."""
    if isinstance(condition, sympy.And | sympy.Or):
        return condition.func(*map(_apart, condition.args))
    parts = sympy.preorder_traversal(condition)
    node = next((n for n in parts if isinstance(n, sympy.Piecewise)), None)
    if node is None:
        return condition
    cases, none = [], sympy.true
    for value, case in node.args:
        cases.append(sympy.And(none, case, _apart(condition.xreplace({node: value}))))
        none = sympy.And(none, sympy.to_nnf(sympy.Not(case), simplify=False))
    return sympy.Or(*cases)


def _everywhere(
    name: str, node: Any, weight: float = TRANSCENDENTAL, *, operon: bool = True, **row: Any
) -> Operator:
    """A function of one argument that every library has, by its own name by default.

    JAX has numpy's names.
    """
    calls = {library: name for library in ("numpy", "torch", "casadi", "c")} | row.pop("calls", {})
    calls.setdefault("jax", calls["numpy"])
    row = {"build": node, "pysr": name, "operon": name.capitalize() if operon else ""} | row
    return Operator(name, 1, weight, node=node, calls=calls, **row)


_T = TRANSCENDENTAL

_ROWS = (
    # Functions that stay nodes of the tree.
    *(_everywhere(f.__name__, f) for f in (sympy.sin, sympy.cos, sympy.tan, sympy.sinh, sympy.cosh, sympy.tanh)),
    _everywhere("asin", sympy.asin, calls={"numpy": "arcsin"}, aliases=("arcsin",)),
    _everywhere("acos", sympy.acos, calls={"numpy": "arccos"}, aliases=("arccos",)),
    _everywhere("atan", sympy.atan, calls={"numpy": "arctan"}, aliases=("arctan",)),
    _everywhere("asinh", sympy.asinh, calls={"numpy": "arcsinh"}, aliases=("arcsinh",), operon=False),
    _everywhere("exp", sympy.exp, aliases=("safe_exp",)),
    _everywhere("log", sympy.log, build=_log, aliases=("safe_log", "ln"), max_arity=2),
    _everywhere("erf", sympy.erf, calls={"numpy": "scipy.special.erf", "jax": "jax.scipy.special.erf"}, operon=False),
    _everywhere("Abs", sympy.Abs, 1.0, calls={"numpy": "abs", "torch": "abs", "casadi": "fabs", "c": "fabs"}, pysr="abs", aliases=("abs",)),
    _everywhere("sign", sympy.sign, 1.0, operon=False),
    _everywhere("floor", sympy.floor, 2.0),
    _everywhere("ceil", sympy.ceiling, 2.0, aliases=("ceiling",)),
    Operator("Max", 2, 2.0, safe.Max, safe.Max, {"c": "fmax"}, definitions.maximum, "max", "Fmax", ("max", "fmax"), (0.7, -0.2, 1.1), max_arity=64),
    Operator("Min", 2, 2.0, safe.Min, safe.Min, {"c": "fmin"}, definitions.minimum, "min", "Fmin", ("min", "fmin"), (0.7, -0.2, 1.1), max_arity=64),
    Operator("Mod", 2, 2.5, sympy.Mod, sympy.Mod, {"numpy": "mod", "torch": "remainder"}, definitions.floor_mod, "mod", "", ("mod",), (2.7, 0.8)),
    Operator("Heaviside", 1, 2.0, sympy.Heaviside, sympy.Heaviside, {}, definitions.heaviside, "heaviside", "", ("heaviside",), max_arity=2),
    # Domain-safe operators.
    Operator("safe_div", 2, QUOTIENT, safe.safe_div, safe.safe_div, pysr="safe_div", example=(0.7, 1.3)),
    Operator("exp_clip", 1, _T, safe.exp_clip, safe.exp_clip, pysr="exp_clip"),
    Operator("log_safe", 1, _T, safe.log_safe, safe.log_safe, pysr="log_safe"),
    Operator("sqrt_safe", 1, 2.5, safe.sqrt_safe, safe.sqrt_safe, pysr="sqrt_safe"),
    # Spellings that become sums, products and powers at once.
    Operator("sqrt", 1, 2.5, lambda x: power(x, sympy.S.Half), pysr="sqrt", operon="Sqrt", aliases=("safe_sqrt",)),
    Operator("cbrt", 1, 2.5, lambda x: sympy.sign(x) * sympy.Abs(x) ** sympy.Rational(1, 3), pysr="cbrt"),
    Operator("square", 1, POWER, lambda x: power(x, sympy.Integer(2)), pysr="square", operon="Square"),
    Operator("cube", 1, POWER + EXPONENT, lambda x: power(x, sympy.Integer(3)), pysr="cube"),
    Operator("inv", 1, QUOTIENT, lambda x: power(x, sympy.S.NegativeOne), pysr="inv"),
    Operator("neg", 1, 0.5, lambda x: -x, pysr="neg"),
    Operator("relu", 1, 2.0, lambda x: safe.Max(x, sympy.S.Zero), pysr="relu"),
    Operator("add", 2, SUM, lambda a, b: a + b, pysr="+", operon="Add", aliases=("plus",), example=(0.7, 0.2)),
    Operator("sub", 2, SUM, lambda a, b: a - b, pysr="-", operon="Sub", example=(0.7, 0.2)),
    Operator("mul", 2, PRODUCT, lambda a, b: a * b, pysr="*", operon="Mul", aliases=("mult",), example=(0.7, 0.2)),
    Operator("div", 2, QUOTIENT, lambda a, b: a / b, pysr="/", operon="Div", example=(0.7, 0.2)),
    Operator("pow", 2, 2.5, power, pysr="^", operon="Pow", aliases=("safe_pow",), example=(0.7, 1.2)),
    Operator("log2", 1, _T, lambda x: _log(x, sympy.Integer(2)), pysr="log2", aliases=("safe_log2",)),
    Operator("log10", 1, _T, lambda x: _log(x, sympy.Integer(10)), pysr="log10", aliases=("safe_log10",)),
    Operator("log1p", 1, _T, lambda x: sympy.log(1 + x), pysr="log1p", operon="Log1p", aliases=("safe_log1p",)),
    Operator("log_abs", 1, _T, lambda x: sympy.log(sympy.Abs(x)), operon="Logabs"),
    Operator("sqrt_abs", 1, 2.5, lambda x: sympy.sqrt(sympy.Abs(x)), operon="Sqrtabs"),
    Operator("greater", 2, 2.0, lambda a, b: _indicator(a > b), pysr="greater", example=(0.7, 0.2)),
    Operator("less", 2, 2.0, lambda a, b: _indicator(a < b), pysr="less", example=(0.7, 0.2)),
    Operator("greater_equal", 2, 2.0, lambda a, b: _indicator(a >= b), pysr="greater_equal", example=(0.7, 0.2)),
    Operator("less_equal", 2, 2.0, lambda a, b: _indicator(a <= b), pysr="less_equal", example=(0.7, 0.2)),
    Operator("cond", 2, 2.0, lambda a, b: where(a > 0, b, sympy.S.Zero), pysr="cond", example=(0.7, 0.2)),
    Operator("fma", 3, SUM + PRODUCT, lambda a, b, c: a * b + c, aliases=("muladd",), example=(0.7, 0.2, 0.1)),
    Operator("clamp", 3, 2.5, lambda x, a, b: safe.Min(safe.Max(x, a), b), example=(0.7, 0.2, 0.5)),
)  # fmt: skip

OPERATORS: dict[str, Operator] = {}

# Every accepted spelling of a call, ours and other people's.
SPELLINGS: dict[str, Operator] = {}

# Operators that are recognized as nodes of a SymPy tree.
NODES: dict[type, Operator] = {}

# Values by name for each library that has been asked for.
_FUNCTIONS: dict[str, tuple[Any, dict[str, Callable[..., Any]]]] = {}

# The symbols +, -, *, / and ^ as people write them in operator lists.
SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "^": "pow", "**": "pow"}


def register(row: Operator) -> None:
    """Add a row to the table, for every part of the package at once."""
    for spelling in (row.name, *row.aliases):
        if spelling in SPELLINGS:
            raise LawError(f"{spelling!r} is already an operator.")
    OPERATORS[row.name] = row
    SPELLINGS.update(dict.fromkeys((row.name, *row.aliases), row))
    if row.node is not None:
        NODES[row.node] = row
        for library, (xp, values) in _FUNCTIONS.items():
            values[row.name] = row.function(library, xp)


for _row in _ROWS:
    register(_row)
# SymPy's own appear in derivatives, and in expressions that others made.
NODES |= {sympy.Max: OPERATORS["Max"], sympy.Min: OPERATORS["Min"]}


def functions(library: str, xp: Any) -> dict[str, Callable[..., Any]]:
    """The values of all nodes as a library computes them, by name; grows with the table."""
    if library not in _FUNCTIONS:
        values = {row.name: row.function(library, xp) for row in NODES.values()}
        _FUNCTIONS[library] = (xp, values)
    return _FUNCTIONS[library][1]


def operator(name: str) -> Operator:
    """The row called `name`, by any of its spellings or signs."""
    try:
        return SPELLINGS[SIGNS.get(name, name)]
    except KeyError:
        hint = did_you_mean(name, [*SPELLINGS, *SIGNS])
        raise LawError(
            f"No operator is called {name!r}.{hint} Known: + - * / ^ {' '.join(sorted(OPERATORS))}."
        ) from None
