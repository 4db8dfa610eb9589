"""Known structure: a formula with unknown functions in it, and the laws that come out of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from sjepa.errors import ConfigError, ParseError
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.imports.pysr import parse_pysr
from sjepa.symbolic.parse import check_names, parse, symbol


@dataclass(frozen=True)
class PySRTemplate:
    """The part of an equation that is known; PySR searches for the rest.

    Parameters
    ----------
    combine : str
        The right-hand side in the problem's input names, with unknown functions and parameters:
        ``"f(q) + p[1] * g(v)"``. Counting starts at 1, as in Julia. ``D(f, 1)(q)`` is the
        derivative of f by its first argument. Its operators must be in the grammar.
    expressions : list of str
        The unknown functions: ``["f", "g"]``.
    parameters : mapping, optional
        Unknown numbers, by name and count: ``{"p": 1}``.

    Examples
    --------
    >>> template = PySRTemplate("f(q) + p[1] * g(v)", ["f", "g"], {"p": 1})
    >>> template.expression("f = sin(#1); g = #1 * #1; p = [0.5]", ["q", "v"])
    0.5*v**2 + sin(q)
    """

    combine: str
    expressions: Sequence[str]
    parameters: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "expressions", check_names(self.expressions, "function"))
        set_(self, "parameters", {str(k): int(v) for k, v in self.parameters.items()})
        check_names([*self.expressions, *self.parameters], "template")
        if not self.expressions:
            raise ConfigError("A template needs at least one unknown function.")

    def check(self, names: Sequence[str]) -> sympy.Expr:
        """The formula with simple functions put in; raises if it cannot be read."""
        for name in (*self.expressions, *self.parameters):
            if name in names:
                raise ConfigError(f"The template's {name!r} is also the name of an input.")
        row = [f"{f} = #1" for f in self.expressions]
        row += [f"{p} = {[1.5] * n}" for p, n in self.parameters.items()]
        try:
            return canonicalize(self.expression("; ".join(row), names))
        except ParseError as error:
            raise ConfigError(f"The template {self.combine!r} cannot be read: {error}") from None

    def request(self, names: Sequence[str]) -> dict[str, Any]:
        """Arguments of PySR's ``TemplateExpressionSpec``."""
        return {
            "combine": self.combine,
            "expressions": list(self.expressions),
            "variable_names": list(names),
            "parameters": dict(self.parameters) or None,
        }

    def expression(self, row: str, names: Sequence[str]) -> sympy.Expr:
        """A row such as ``f = sin(#1); p = [0.5]`` put into the formula."""
        parts = dict(_split(part) for part in row.split(";"))
        if missing := {*self.expressions, *self.parameters} - parts.keys():
            raise ParseError(f"The row {row!r:.80} does not say what {sorted(missing)[0]} is.")
        numbers = {p: _numbers(parts[p]) for p in self.parameters}
        bodies = {f: _body(parts[f]) for f in self.expressions}
        return _Combiner(self, names, bodies, numbers).read()


class _Combiner(ast.NodeTransformer):
    """Takes calls of unknown functions and parameters out of a formula, so that the rest is text
    for the safe parser, and puts their values in afterwards."""

    def __init__(
        self,
        template: PySRTemplate,
        names: Sequence[str],
        bodies: Mapping[str, sympy.Expr],
        numbers: Mapping[str, Sequence[float]],
    ) -> None:
        self.template, self.bodies, self.numbers = template, bodies, numbers
        self.names = list(names)
        self.values: dict[sympy.Symbol, sympy.Expr] = {}

    def read(self) -> sympy.Expr:
        try:
            tree = ast.parse(self.template.combine.strip().replace("^", "**"), mode="eval")
        except SyntaxError as error:
            raise ParseError(f"Not a formula: {error.msg} (column {error.offset}).") from None
        return self._value(self.visit(tree.body))

    def _value(self, node: ast.AST) -> sympy.Expr:
        return parse(ast.unparse(node), self.names).xreplace(self.values)

    def _placeholder(self, value: sympy.Expr) -> ast.Name:
        name = f"template_{len(self.values)}_"
        self.names.append(name)
        self.values[symbol(name)] = value
        return ast.Name(name)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        body = self._function(node.func)
        if body is None:
            return self.generic_visit(node)
        arguments = [self._value(self.visit(a)) for a in node.args]
        given = {symbol(f"arg{i}"): a for i, a in enumerate(arguments, 1)}
        if body.free_symbols - given.keys():
            raise ParseError(f"{ast.unparse(node)} has too few arguments for {body}.")
        return self._placeholder(body.xreplace(given))

    def _function(self, node: ast.AST) -> sympy.Expr | None:
        match node:
            case ast.Name(id=name) if name in self.bodies:
                return self.bodies[name]
            case ast.Call(
                func=ast.Name(id="D"), args=[ast.Name(id=name), ast.Constant(value=int(i))]
            ) if name in self.bodies:
                return sympy.diff(self.bodies[name], symbol(f"arg{i}"))
        return None

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(i))):
                values = self.numbers.get(name, ())
                if 1 <= i <= len(values):
                    return self._placeholder(sympy.Float(values[i - 1]))
        raise ParseError(f"{ast.unparse(node)} is not one of the parameters.")


def _split(part: str) -> tuple[str, str]:
    name, sign, value = part.partition("=")
    if not sign:
        raise ParseError(f"Expected 'name = expression', got {part.strip()!r:.80}.")
    return name.strip(), value.strip()


def _body(text: str) -> sympy.Expr:
    text = re.sub(r"#(\d+)", r"arg\1", text)
    return parse_pysr(text, sorted(set(re.findall(r"\barg\d+\b", text))))


def _numbers(text: str) -> list[float]:
    decimal = re.sub(r"(?<=\d)f(?=[-+\d])", "e", text)  # Julia's single precision: 1.5f-3
    try:
        return [float(v) for v in decimal.strip("[] ").split(",") if v.strip()]
    except ValueError:
        raise ParseError(f"Expected a list of numbers, got {text!r:.80}.") from None
