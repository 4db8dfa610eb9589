"""All the small changes of a source text that a test-suite ought to notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass


OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
# At the edge, and the other way round.
ORDERS: dict[type[ast.AST], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
}  # fmt: skip
NAMES = {"min": "max", "sum": "mean", "any": "all", "argmin": "argmax", "minimum": "maximum"}
NAMES |= {b: a for a, b in NAMES.items()}
# Calls that mean the same with their arguments swapped.
SYMMETRIC = {"min", "max", "minimum", "maximum", "gcd", "isclose", "allclose", "Mul", "Add"}
# The parts of an f-string have no places of their own.
NOT_INSIDE = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.pattern)


@dataclass(frozen=True)
class Mutant:
    """One change: the characters from `start` to `end` of a file become `text`."""

    path: str
    line: int
    statement: int  # line on which the statement around it begins
    start: int
    end: int
    before: str
    text: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]

    def __str__(self) -> str:
        shown = [" ".join(t.split()) for t in (self.before, self.text)]
        return f"{self.path}:{self.line}  {shown[0][:70]}  ->  {shown[1][:70]}"


def mutants(source: str, path: str) -> list[Mutant]:
    """Every mutant of a file, in order; texts, annotations and messages of errors stay."""
    # ast counts columns in bytes.
    raw = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in raw:
        starts.append(starts[-1] + len(line.decode()))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(raw[line - 1][:column].decode())

    found = []
    for node, changed, statement in _changes(ast.parse(source), 1):
        if ast.dump(node) == ast.dump(changed):  # f(0, 0) with swapped arguments
            continue
        start = place(node.lineno, node.col_offset)
        end = place(node.end_lineno, node.end_col_offset)
        text = ast.unparse(changed)
        text = f"({text})" if isinstance(changed, ast.expr) else text
        found.append(Mutant(path, node.lineno, statement, start, end, source[start:end], text))
    return found


def _changes(node: ast.AST, statement: int) -> Iterator[tuple[ast.AST, ast.AST, int]]:
    """(node, what replaces it, line of its statement), outermost first."""
    if isinstance(node, ast.stmt):
        statement = node.lineno
    if isinstance(node, ast.Raise):  # what is raised is wording
        yield node, ast.Pass(), statement
        return
    if isinstance(node, NOT_INSIDE):
        return
    yield from ((node, changed, statement) for changed in _of(node))
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test, ast.UnaryOp(ast.Not(), node.test), statement
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _changes(child, statement)


def _of(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp(left, op, right):
            if type(op) in OPERATORS:
                yield _with(node, op=OPERATORS[type(op)]())
            if isinstance(op, ast.Sub | ast.Div | ast.MatMult | ast.Pow):
                yield _with(node, left=right, right=left)
            yield left
        case ast.BoolOp(op, values):
            yield _with(node, op=OPERATORS[type(op)]())
            yield values[0]
        case ast.Compare(ops=[op]):
            for other in ORDERS.get(type(op), (OPERATORS.get(type(op)),)):
                if other is not None:
                    yield _with(node, ops=[other()])
        case ast.UnaryOp(op, operand) if isinstance(op, ast.Not | ast.USub):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(float(value)):
            yield ast.Constant(2 * value or 1.0)
        case ast.Return(value) if value is not None and not _is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Break() | ast.Continue():
            yield ast.Pass()
        case ast.Call(func, args, keywords):
            starred = any(isinstance(a, ast.Starred) for a in args[:2])
            if len(args) > 1 and not starred and _called(func) not in SYMMETRIC:
                yield _with(node, args=[args[1], args[0], *args[2:]])
            for k in range(len(keywords)):
                yield _with(node, keywords=keywords[:k] + keywords[k + 1 :])
            if isinstance(func, ast.Attribute) and not args and not keywords:
                yield func.value  # x.square() to x
        case ast.Attribute(attr=name) if name in NAMES:
            yield _with(node, attr=NAMES[name])
        case ast.Name(id=name) if name in ("min", "max", "any", "all"):
            yield _with(node, id=NAMES[name])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _called(func: ast.expr) -> str:
    """The last part of a function's name."""
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
