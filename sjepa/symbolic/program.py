"""Expressions as a short list of instructions that several libraries can run.

A program is plain data: it copies, pickles and moves between devices without holding a closure,
and the same instructions serve numpy, torch and CasADi. Common sub-expressions are computed
once; coefficients enter as symbols of their own, so equal numbers stay different coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy

from sjepa.errors import EmissionError
from sjepa.symbolic.operators import NODES


if TYPE_CHECKING:
    from sjepa.symbolic.equation import Equation


RELATIONS = {sympy.Gt: "gt", sympy.Ge: "ge", sympy.Lt: "lt", sympy.Le: "le"}


@dataclass(frozen=True)
class Program:
    """Slots 0..inputs-1 hold the inputs; every instruction writes one further slot.

    Attributes
    ----------
    constants : (slot, value) pairs that are part of the structure and never trained.
    coefficients : slots of the coefficients, in the order they were given.
    instructions : (name, output slot, operand slots), in order of execution.
    outputs : the slots that hold the results.
    """

    inputs: int
    size: int
    constants: tuple[tuple[int, float], ...]
    coefficients: tuple[int, ...]
    instructions: tuple[tuple[str, int, tuple[int, ...]], ...]
    outputs: tuple[int, ...]


def compile_program(
    expressions: Sequence[sympy.Expr],
    inputs: Sequence[sympy.Symbol],
    coefficients: Sequence[sympy.Symbol] = (),
) -> Program:
    """Lower SymPy expressions of the inputs and the coefficient symbols."""
    return _Compiler(inputs, coefficients).run(expressions)


def compile_sums(equations: Sequence[Equation], inputs: Sequence[sympy.Symbol]) -> Program:
    """The same of sums of terms, each of them times a coefficient, without writing them down."""
    return _Compiler(inputs, ()).sums(equations)


class _Compiler:
    def __init__(
        self, inputs: Sequence[sympy.Symbol], coefficients: Sequence[sympy.Symbol]
    ) -> None:
        self.slot: dict[sympy.Basic, int] = {s: i for i, s in enumerate(inputs)}
        self.size = len(self.slot)
        self.inputs = len(self.slot)
        self.constants: dict[float, int] = {}
        self.instructions: list[tuple[str, int, tuple[int, ...]]] = []
        self.coefficients: list[int] = []
        for s in coefficients:
            self.slot[s] = self.new()
            self.coefficients.append(self.slot[s])

    def run(self, expressions: Sequence[sympy.Expr]) -> Program:
        return self.program([self.visit(e) for e in expressions])

    def sums(self, equations: Sequence[Equation]) -> Program:
        outputs = []
        for equation in equations:
            parts = []
            for _, term in equation.pairs:
                self.coefficients.append(self.new())
                coefficient = self.coefficients[-1]
                parts.append(
                    coefficient if term == 1 else self.emit("mul", self.visit(term), coefficient)
                )
            total = parts[0] if parts else self.constant(0.0)
            for part in parts[1:]:
                total = self.emit("add", total, part)
            outputs.append(total)
        return self.program(outputs)

    def program(self, outputs: Sequence[int]) -> Program:
        return Program(
            self.inputs,
            self.size,
            tuple((slot, value) for value, slot in self.constants.items()),
            tuple(self.coefficients),
            tuple(self.instructions),
            tuple(outputs),
        )

    def new(self) -> int:
        self.size += 1
        return self.size - 1

    def emit(self, name: str, *operands: int) -> int:
        here = self.new()
        self.instructions.append((name, here, operands))
        return here

    def constant(self, value: float) -> int:
        if value not in self.constants:
            self.constants[value] = self.new()
        return self.constants[value]

    def visit(self, node: sympy.Basic) -> int:
        if node in self.slot:
            return self.slot[node]
        self.slot[node] = self.lower(node)
        return self.slot[node]

    def lower(self, node: sympy.Basic) -> int:
        if getattr(node, "is_number", False):
            return self.constant(float(node))
        if node.is_Add:
            return self.add(node)
        if node.is_Mul:
            return self.multiply(node)
        if node.is_Pow:
            return self.power(*node.args)
        if isinstance(node, sympy.Piecewise):
            return self.piecewise(node)
        if node.func in NODES:
            return self.emit(NODES[node.func].name, *(self.visit(a) for a in node.args))
        known = ", ".join(sorted(c.__name__ for c in NODES))
        raise EmissionError(f"Cannot emit {node.func.__name__} in {node}. Known: {known}.")

    def add(self, node: sympy.Expr) -> int:
        # A term -x is subtracted instead of being negated first; start with a term that is not.
        terms = sorted(node.args, key=lambda a: a.as_coeff_Mul()[0] == -1)
        total = self.visit(terms[0])
        for term in terms[1:]:
            coefficient, rest = term.as_coeff_Mul()
            if coefficient == -1:
                total = self.emit("sub", total, self.visit(rest))
            else:
                total = self.emit("add", total, self.visit(term))
        return total

    def multiply(self, node: sympy.Expr) -> int:
        coefficient, rest = node.as_coeff_Mul()
        top: list[int] = []
        bottom: list[int] = []
        for factor in sympy.Mul.make_args(rest):
            if factor.is_Pow and factor.exp.is_Rational and factor.exp.is_negative:
                bottom.append(self.power(factor.base, -factor.exp))
            else:
                top.append(self.visit(factor))
        if coefficient != 1 and coefficient != -1:
            top.append(self.visit(coefficient))
        if not top:
            product = self.emit("inv", self.product(bottom))
        elif bottom:
            product = self.emit("div", self.product(top), self.product(bottom))
        else:
            product = self.product(top)
        return self.emit("neg", product) if coefficient == -1 else product

    def product(self, slots: list[int]) -> int:
        total = slots[0]
        for slot in slots[1:]:
            total = self.emit("mul", total, slot)
        return total

    def power(self, base: sympy.Expr, exponent: sympy.Expr) -> int:
        if base == sympy.E:
            return self.emit("exp", self.visit(exponent))
        slot = self.visit(base)
        if exponent.is_Rational and exponent < 0:
            return self.emit("inv", self.power(base, -exponent))
        if exponent.is_Integer and int(exponent) <= 8:
            return self.whole_power(slot, int(exponent))
        if exponent == sympy.S.Half:
            return self.emit("sqrt", slot)
        return self.emit("pow", slot, self.visit(exponent))

    def whole_power(self, slot: int, n: int) -> int:
        """Repeated squaring: products are cheaper and have cleaner gradients than pow."""
        if n == 1:
            return slot
        half = self.whole_power(slot, n // 2)
        square = self.emit("square", half)
        return self.emit("mul", square, slot) if n % 2 else square

    def piecewise(self, node: sympy.Piecewise) -> int:
        *cases, (last, condition) = node.args
        if condition is not sympy.true:
            raise EmissionError(f"A case distinction must end with an 'else' branch: {node}.")
        total = self.visit(last)
        for value, condition in reversed(cases):
            total = self.emit("where", self.condition(condition), self.visit(value), total)
        return total

    def condition(self, node: sympy.Basic) -> int:
        if isinstance(node, sympy.And | sympy.Or):
            name = "and" if isinstance(node, sympy.And) else "or"
            first, *rest = (self.condition(a) for a in node.args)
            for other in rest:
                first = self.emit(name, first, other)
            return first
        if type(node) in RELATIONS:
            return self.emit(RELATIONS[type(node)], self.visit(node.lhs), self.visit(node.rhs))
        raise EmissionError(f"Cannot emit the condition {node}.")
