"""A law as CasADi expressions, for model-predictive control."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sjepa.symbolic.definitions import Namespace
from sjepa.symbolic.emit import instructions, run
from sjepa.symbolic.program import Program


def to_casadi(program: Program, coefficients: Sequence[float], inputs: Any) -> Any:
    """Evaluate the program on a CasADi vector (SX or MX), returning the outputs as a column."""
    import casadi

    memory: list[Any] = [None] * program.size
    memory[: program.inputs] = [inputs[i] for i in range(program.inputs)]
    for slot, value in (*program.constants, *zip(program.coefficients, coefficients, strict=True)):
        memory[slot] = value
    return casadi.vertcat(*run(program, memory, _instructions()))


@cache
def _instructions() -> dict[str, Any]:
    import casadi

    def clip(x: Any, low: float | None, high: float | None) -> Any:
        x = x if low is None else casadi.fmax(x, low)
        return x if high is None else casadi.fmin(x, high)

    xp = Namespace(
        casadi,
        abs=casadi.fabs,
        where=casadi.if_else,
        maximum=casadi.fmax,
        minimum=casadi.fmin,
        clip=clip,
        square=lambda x: x * x,
    )
    values = instructions("casadi", xp, casadi.power)
    values |= {"and": casadi.logic_and, "or": casadi.logic_or}
    return values
