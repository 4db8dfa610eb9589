"""Run a law's instructions on whatever computes, and the law as a numpy function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sjepa.errors import DataError
from sjepa.settings import array_of
from sjepa.symbolic.operators import functions
from sjepa.symbolic.program import Program


# What Python's own signs do on numbers, arrays and tensors alike.
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "and": operator.and_,
    "or": operator.or_,
    "inv": lambda x: 1.0 / x,
}


def instructions(library: str, xp: Any, power: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Every instruction of a program as a library runs it, the operator table's among them."""
    values = functions(library, xp)
    values |= ARITHMETIC | {"square": xp.square, "sqrt": xp.sqrt, "pow": power, "where": xp.where}
    return values


NUMPY = instructions("numpy", np, np.power)


def run(program: Program, memory: list[Any], functions: dict[str, Callable[..., Any]]) -> list[Any]:
    """Execute the instructions on a memory that already holds inputs and numbers."""
    for name, here, operands in program.instructions:
        if len(operands) == 2:
            memory[here] = functions[name](memory[operands[0]], memory[operands[1]])
        elif len(operands) == 1:
            memory[here] = functions[name](memory[operands[0]])
        else:
            memory[here] = functions[name](*[memory[i] for i in operands])
    return [memory[i] for i in program.outputs]


def evaluate(
    program: Program,
    inputs: Any,
    coefficients: Iterable[Any],
    functions: dict[str, Callable[..., Any]],
    constant: Callable[[float], Any] = float,
) -> list[Any]:
    """The outputs at inputs that are one column each, for these coefficients.

    `constant` makes the library's own numbers of Python's, where its functions take no others.
    """
    memory: list[Any] = [None] * program.size
    memory[: program.inputs] = inputs
    for slot, value in program.constants:
        memory[slot] = constant(value)
    for slot, value in zip(program.coefficients, coefficients, strict=True):
        memory[slot] = value
    return run(program, memory, functions)


class NumpyLaw:
    """The law as a function of an array (..., inputs), returning (..., outputs).

    Values follow numpy's own rules outside the domain (NaN, inf) without printing warnings. Holds
    plain data only, so it can be pickled and sent to other processes.
    """

    def __init__(self, program: Program, coefficients: Sequence[float]) -> None:
        self.program = program
        self.coefficients = tuple(float(c) for c in coefficients)

    def __call__(self, z: Any) -> np.ndarray:
        out = self.columns(z)
        return out.transpose(*range(1, out.ndim), 0)

    def columns(self, z: Any, out: np.ndarray | None = None) -> np.ndarray:
        """The same as (outputs, ...), each output in one piece; into `out`, if given."""
        z = array_of(z, "The input of a law")
        program = self.program
        if z.ndim == 0 or z.shape[-1] != program.inputs:
            raise DataError(
                f"Expected an array (..., {program.inputs}) with the inputs last, "
                f"got shape {z.shape}."
            )
        inputs = np.ascontiguousarray(z.transpose(-1, *range(z.ndim - 1)))
        with np.errstate(all="ignore"):
            results = evaluate(program, inputs, self.coefficients, NUMPY)
        if out is None:
            out = np.empty((len(results), *z.shape[:-1]))
        for i, result in enumerate(results):
            out[i] = result
        return out
