"""Read an expression from text that may come from anywhere.

The text is parsed by Python's own grammar and the resulting tree is walked against the operator
table; nothing is ever executed, and whatever is not in the table is refused with its column.
Limits on length, nesting and the size of numbers keep the work bounded for any input.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import sympy
from sympy.core.relational import Relational

from sjepa.errors import LawError, ParseError, did_you_mean
from sjepa.symbolic.operators import SPELLINGS, Operator, where
from sjepa.symbolic.powers import MAX_EXPONENT, add, power, tame


MAX_LENGTH = 20_000
MAX_NESTING = 100
MAX_NODES = 4_000
MAX_NUMBER = 1e300
MAX_CASES = 64
MAX_LISTED = 30

CONSTANTS = {"pi": sympy.pi, "E": sympy.E}

_WORD = re.compile(r"[^\W\d]\w*")
_RUN_OF_SIGNS = re.compile(rf"(?:[-+~!]\s*){{{MAX_NESTING},}}")
_MISSING_SIGN = re.compile(r"\d[^\W\d_]|[\w)]\s+[\w(]|\d\(")
_JULIA_FLOAT = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?|\.\d+)f([+-]?\d+)")
_RELATIONS = {ast.Lt: sympy.Lt, ast.LtE: sympy.Le, ast.Gt: sympy.Gt, ast.GtE: sympy.Ge}


def symbol(name: str) -> sympy.Symbol:
    """The symbol for an input. Real, since the derivative of abs needs to know."""
    return sympy.Symbol(name, real=True)


def plain_letters(name: str) -> str:
    """The name as Python would read it: letters that only look different become the same."""
    return unicodedata.normalize("NFKC", name)


def check_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """Names that can stand in an equation, each once, and none that looks like another."""
    try:
        names = (names,) if isinstance(names, str) else tuple(names)
    except TypeError:
        text = f"{what.capitalize()} names are a list of texts, got {names!r:.60}."
        raise LawError(text) from None
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise LawError(
                f"{what.capitalize()} name {name!r} cannot be used in an equation: "
                "use letters, digits and underscores, starting with a letter."
            )
        plain = plain_letters(name)
        if what == "input" and (plain in SPELLINGS or plain == "where" or keyword.iskeyword(plain)):
            raise LawError(f"{name!r} is a function or a reserved word; call the input otherwise.")
        if plain in seen:
            if seen[plain] == name:
                raise LawError(f"The {what} name {name!r} is used twice.")
            raise LawError(
                f"The {what} names {seen[plain]!r} and {name!r} look alike; call one otherwise."
            )
        seen[plain] = name
    if what == "input" and not names:
        raise LawError("A law needs at least one input.")
    return names


def parse(text: str, inputs: Sequence[str], *, indicator: bool = False) -> sympy.Expr:
    """Turn text into a SymPy expression of the given inputs.

    Both ``**`` and ``^`` mean power. Numbers are kept exactly as written. Raises
    :class:`~sjepa.errors.ParseError` with the column for anything else than numbers, the inputs,
    ``+ - * / ** ( )``, calls of known operators and comparisons inside ``where``. With
    `indicator`, a comparison that stands for a value is 1 or 0.

    >>> parse("-sin(z1) - 0.4*z2*abs(z2)", ["z1", "z2"])
    -2*z2*Abs(z2)/5 - sin(z1)
    """
    if not isinstance(text, str):
        raise ParseError(f"An equation must be text, got {type(text).__name__}.")
    if not text.strip():
        raise ParseError(
            "The equation is empty (column 1): expected an expression such as 'sin(x)'."
        )
    if len(text) > MAX_LENGTH:
        raise ParseError(
            f"The equation has {len(text)} characters; it is read up to column {MAX_LENGTH} only."
        )
    _check_characters(text, inputs)
    _check_nesting(text)
    return _Reader(text, inputs, indicator).read()


def _check_characters(text: str, inputs: Sequence[str]) -> None:
    """Refuse look-alikes: a letter outside ASCII counts only inside a name the caller gave."""
    known = set(inputs)
    allowed = {
        i for m in _WORD.finditer(text) if m.group() in known for i in range(m.start(), m.end())
    }
    for i, character in enumerate(text):
        if character == "\n" or (ord(character) < 32 and character != "\t"):
            raise ParseError(
                f"Line breaks and control characters are not allowed (column {i + 1})."
            )
        if ord(character) > 126 and i not in allowed:
            name = unicodedata.name(character, "unnamed")
            raise ParseError(
                f"Character {character!r} ({name}) at column {i + 1} is not allowed; "
                "use plain ASCII."
            )


def _check_nesting(text: str) -> None:
    depth = 0
    for i, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth > MAX_NESTING:
            raise ParseError(f"Nested deeper than {MAX_NESTING} parentheses (column {i + 1}).")
    if run := _RUN_OF_SIGNS.search(text):
        raise ParseError(f"More than {MAX_NESTING} signs in a row (column {run.start() + 1}).")


@cache
def _compares(name: str) -> bool:
    """Whether an operator is a comparison in the shape of a call."""
    row = SPELLINGS[name]
    return row.build(*sympy.symbols(f"x:{row.arity}", real=True)).has(sympy.Piecewise)


class _Reader:
    """Walks one parsed text; holds what error messages need."""

    def __init__(self, text: str, inputs: Sequence[str], indicator: bool) -> None:
        self.text = text
        self.indicator = indicator
        self.inputs = dict.fromkeys(inputs)
        self.nodes = 0

    def read(self) -> sympy.Expr:
        # Julia writes 1.5f-3 for single precision and ^ for powers; Python's ^ binds looser than
        # +, so it has to be replaced in the text. Columns are mapped back in `fail`.
        python = _JULIA_FLOAT.sub(r"\1e\2", self.text).replace("^", "**")
        leading = len(python) - len(python.lstrip())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # "3(x)" warns before it fails
                self.source = python.strip().encode()
                tree = ast.parse(self.source, mode="eval")
        except SyntaxError as error:
            column = self._original((error.offset or 1) + leading)
            hint = " Write products as 2*x." if _MISSING_SIGN.search(self.text) else ""
            raise ParseError(f"Not an expression: {error.msg} (column {column}).{hint}") from None
        except (MemoryError, RecursionError, ValueError, OverflowError):
            raise ParseError("The equation is too deeply nested (column 1).") from None
        self.leading = leading
        return self.expression(tree.body, -1)

    def written(self, node: ast.expr) -> str:
        """A name as it stands in the text; Python's tree has the letters that look like it."""
        return self.source[node.col_offset : node.end_col_offset].decode()

    def _original(self, column: int) -> int:
        """Column in the text as given, for a column after ^ was replaced by **."""
        position = 0
        for original, character in enumerate(self.text, 1):
            position += 2 if character == "^" else 1
            if position >= column:
                return original
        return max(len(self.text), 1)

    def fail(self, node: ast.AST, message: str) -> ParseError:
        before = self.source[: getattr(node, "col_offset", 0)].decode(errors="ignore")
        column = self._original(len(before) + 1 + self.leading)
        return ParseError(f"{message} (column {column}).")

    def visit(self, node: ast.AST, depth: int) -> sympy.Basic:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.fail(node, f"More than {MAX_NODES} parts in one equation")
        if depth > 2 * MAX_NESTING:
            raise self.fail(node, f"Nested deeper than {2 * MAX_NESTING} operations")
        match node:
            case ast.Constant():
                return self.number(node)
            case ast.Name():
                return self.name(node, self.written(node))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.expression(operand, depth)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.expression(operand, depth)
            case ast.BinOp():
                return self.binary(node, depth)
            case ast.Call():
                return self.call(node, depth)
            case ast.Compare():
                return self.comparison(node, depth)
            case ast.BoolOp(op=op, values=values):
                parts = [self.condition(v, depth) for v in values]
                return (sympy.And if isinstance(op, ast.And) else sympy.Or)(*parts)
        what = type(node).__name__
        raise self.fail(
            node, f"{what} is not part of an equation; use numbers, inputs, + - * / ^ and functions"
        )

    def expression(self, node: ast.AST, depth: int) -> sympy.Expr:
        value = self.visit(node, depth + 1)
        if isinstance(value, sympy.Expr):
            return value
        if not self.indicator:
            raise self.fail(node, "A comparison is only allowed as the condition of where(...)")
        return where(value, sympy.S.One, sympy.S.Zero)

    def condition(self, node: ast.AST, depth: int) -> sympy.Basic:
        value = self.visit(node, depth + 1)
        if isinstance(value, sympy.Expr):
            raise self.fail(node, "Expected a comparison such as x > 0")
        return value

    def number(self, node: ast.Constant) -> sympy.Expr:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(node, f"{value!r:.40} is not a real number")
        if not abs(value) <= MAX_NUMBER:  # also true for nan
            raise self.fail(node, f"The number is larger than {MAX_NUMBER:g}")
        # repr is the shortest decimal that means this double: 0.1 becomes exactly 1/10.
        exact = Fraction(value) if isinstance(value, int) else Fraction(repr(value))
        return sympy.Rational(exact.numerator, exact.denominator)

    def name(self, node: ast.AST, name: str) -> sympy.Expr:
        if name in self.inputs:
            return symbol(name)
        if name in CONSTANTS:
            return CONSTANTS[name]
        hint = did_you_mean(name, self.inputs)
        known = ", ".join([*self.inputs][:MAX_LISTED]) or "none"
        known += ", ..." if len(self.inputs) > MAX_LISTED else ""
        raise self.fail(node, f"Unknown name {name!r:.60}.{hint} Inputs are: {known}")

    def binary(self, node: ast.BinOp, depth: int) -> sympy.Expr:
        match node.op:
            case ast.Add() | ast.Sub():
                return self.sum(node, depth)
            case ast.Mult() | ast.Div():
                return self.product(node, depth)
            case ast.Pow():
                base, exponent = (self.expression(n, depth) for n in (node.left, node.right))
                return self.power(node, base, exponent)
        raise self.fail(node, f"Operator {type(node.op).__name__} is not known; use + - * / ^")

    def product(self, node: ast.BinOp, depth: int) -> sympy.Expr:
        """A chain of * and / read at once: SymPy multiplies a number into a sum beside it, and in
        2*(x + 1)*(y + 1) it belongs to neither."""
        number, factors = sympy.S.One, []
        rest: ast.AST = node
        while isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Mult | ast.Div):
            factor = self.expression(rest.right, depth)
            if isinstance(rest.op, ast.Div):
                if factor.is_zero:
                    raise self.fail(rest, "Division by zero")
                factor = 1 / factor
            coefficient, factor = factor.as_coeff_Mul()
            number = self.bounded(rest, number * coefficient)
            factors.append(factor)
            rest = rest.left
        if isinstance(rest, ast.UnaryOp) and isinstance(rest.op, ast.USub):
            number, rest = -number, rest.operand
        return self.bounded(node, sympy.Mul(number, self.expression(rest, depth), *factors[::-1]))

    def sum(self, node: ast.BinOp, depth: int) -> sympy.Expr:
        """A chain of + and - read in a loop, so that long sums do not count as deep nesting."""
        terms: list[sympy.Expr] = []
        rest: ast.AST = node
        while isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Add | ast.Sub):
            term = self.expression(rest.right, depth)
            terms.append(term if isinstance(rest.op, ast.Add) else -term)
            rest = rest.left
        return add([self.expression(rest, depth), *terms])

    def power(self, node: ast.AST, base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
        if exponent.is_Number and abs(exponent) > MAX_EXPONENT:
            raise self.fail(node, f"Exponent larger than {MAX_EXPONENT}")
        if base.is_zero and (exponent.is_negative or not exponent.is_number):
            raise self.fail(node, "Zero to this power is not defined")
        if base.is_number and exponent.is_number:
            if base.is_Rational and exponent.is_Integer:
                return self.bounded(node, base**exponent)
            return self.fold(node, lambda: float(base) ** float(exponent))
        return self.bounded(node, self.built(node, power, base, exponent))

    def call(self, node: ast.Call, depth: int) -> sympy.Expr:
        if not isinstance(node.func, ast.Name):
            raise self.fail(node.func, "Only functions called by name are allowed")
        name = self.written(node.func)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.fail(node, f"{name} takes plain arguments only")
        if name == "where":
            return self.where(node, depth)
        row = SPELLINGS.get(name)
        if row is None:
            hint = did_you_mean(name, SPELLINGS)
            raise self.fail(node, f"Unknown function {name!r:.60}.{hint}")
        self.check_arity(node, row, len(node.args))
        arguments = [self.expression(a, depth) for a in node.args]
        return self.apply(node, row, arguments)

    def check_arity(self, node: ast.AST, row: Operator, given: int) -> None:
        least, max_arity = row.arity, max(row.arity, row.max_arity)
        if not least <= given <= max_arity:
            wanted = f"{least}" if least == max_arity else f"{least} to {max_arity}"
            raise self.fail(node, f"{row.name} takes {wanted} arguments, got {given}")

    def apply(self, node: ast.AST, row: Operator, arguments: list[sympy.Expr]) -> sympy.Expr:
        if row.name == "pow":
            return self.power(node, *arguments)
        if row.name in ("inv", "div") and arguments[-1].is_zero:
            raise self.fail(node, "Division by zero")
        if row.node is not None and all(a.is_number for a in arguments):
            if row.name == "log" and len(arguments) == 2:
                return self.fold(node, lambda: math.log(*(float(a) for a in arguments)))
            return self.fold(node, lambda: row.numpy(*(float(a) for a in arguments)))
        if _compares(row.name):
            self.check_compared(node, arguments)
        return self.bounded(node, self.built(node, row.build, *arguments))

    def check_compared(self, node: ast.AST, parts: Sequence[sympy.Expr]) -> None:
        """Every comparison inside another doubles the work of telling all cases apart."""
        inside = [n for part in parts for n in sympy.preorder_traversal(part)]
        cases = 2 ** len({n for n in inside if isinstance(n, sympy.Piecewise)})
        relations = sum(isinstance(n, Relational) for n in inside)
        if max(cases, relations) > MAX_CASES:
            raise self.fail(node, "Too many comparisons inside a comparison")

    def built(self, node: ast.AST, build: Callable[..., sympy.Expr], *parts: Any) -> sympy.Expr:
        try:
            return build(*parts)
        except LawError as error:
            raise self.fail(node, str(error).rstrip(".")) from None

    def where(self, node: ast.Call, depth: int) -> sympy.Expr:
        if len(node.args) != 3:
            raise self.fail(node, f"where takes 3 arguments, got {len(node.args)}")
        condition = self.condition(node.args[0], depth)
        a, b = (self.expression(n, depth) for n in node.args[1:])
        return where(condition, a, b)

    def comparison(self, node: ast.Compare, depth: int) -> sympy.Basic:
        if len(node.ops) != 1 or type(node.ops[0]) not in _RELATIONS:
            raise self.fail(node, "Conditions compare two values with < <= > >=")
        a = self.expression(node.left, depth)
        b = self.expression(node.comparators[0], depth)
        self.check_compared(node, (a, b))
        return _RELATIONS[type(node.ops[0])](a, b)

    def fold(self, node: ast.AST, compute: object) -> sympy.Expr:
        """Evaluate a call on numbers in floating point: symbolic towers of powers never arise."""
        try:
            with np.errstate(all="ignore"):
                value = compute()  # type: ignore[operator]
        except (OverflowError, ValueError, ZeroDivisionError):
            value = math.nan
        if isinstance(value, complex) or not math.isfinite(value):
            raise self.fail(node, "This constant is not a finite real number")
        return self.bounded(node, sympy.Float(float(value)))

    def bounded(self, node: ast.AST, value: sympy.Expr) -> sympy.Expr:
        if value.is_Number and not (value.is_finite and abs(value) <= MAX_NUMBER):
            raise self.fail(node, f"The number is larger than {MAX_NUMBER:g}")
        value = tame(value)
        if value.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo, sympy.I):
            raise self.fail(node, "This part is not a finite real number")
        return value
