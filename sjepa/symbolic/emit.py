"""Run a law: as a numpy function, a trainable torch module, or CasADi expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.symbolic.operators import NODES
from sjepa.symbolic.program import Program


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


_ARITHMETIC: dict[str, Callable[..., Any]] = {
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
}
NUMPY: dict[str, Callable[..., Any]] = (
    _ARITHMETIC
    | {row.name: row.numpy for row in NODES.values() if row.numpy}
    | {"inv": lambda x: 1.0 / x, "square": np.square, "sqrt": np.sqrt, "pow": np.power}
    | {"where": np.where}
)
TORCH: dict[str, Callable[..., Any]] = (
    _ARITHMETIC
    | {row.name: row.torch for row in NODES.values() if row.torch}
    | {"inv": torch.reciprocal, "square": torch.square, "sqrt": torch.sqrt, "pow": torch.pow}
    | {"where": torch.where}
)


def run(program: Program, memory: list[Any], functions: dict[str, Callable[..., Any]]) -> list[Any]:
    """Execute the instructions on a memory that already holds inputs and numbers."""
    for name, here, operands in program.instructions:
        match operands:
            case (a,):
                memory[here] = functions[name](memory[a])
            case (a, b):
                memory[here] = functions[name](memory[a], memory[b])
            case _:
                memory[here] = functions[name](*[memory[i] for i in operands])
    return [memory[i] for i in program.outputs]


class NumpyLaw:
    """The law as a function of an array (..., inputs), returning (..., outputs).

    Values follow numpy's own rules outside the domain (NaN, inf) without printing warnings. Holds
    plain data only, so it can be pickled and sent to other processes.
    """

    def __init__(self, program: Program, coefficients: Sequence[float]) -> None:
        self.program = program
        self.coefficients = tuple(float(c) for c in coefficients)

    def __call__(self, z: Any) -> np.ndarray:
        z = np.asarray(z, dtype=float)
        program = self.program
        if z.ndim == 0 or z.shape[-1] != program.inputs:
            raise ValueError(
                f"Expected an array (..., {program.inputs}) with the inputs last, "
                f"got shape {z.shape}."
            )
        memory: list[Any] = [None] * program.size
        memory[: program.inputs] = [z[..., i] for i in range(program.inputs)]
        for slot, value in program.constants:
            memory[slot] = value
        for slot, value in zip(program.coefficients, self.coefficients, strict=True):
            memory[slot] = value
        with np.errstate(all="ignore"):
            results = run(program, memory, NUMPY)
        out = np.empty((*z.shape[:-1], len(results)))
        for i, result in enumerate(results):
            out[..., i] = result
        return out


class TorchLaw(nn.Module):
    """The law as a module: inputs (..., d) to outputs (..., k), coefficients in one vector.

    Floats of the law are entries of `coefficients`; whole numbers and exponents are structure and
    stay fixed. ``module.law()`` is the law with the coefficients as they are now.

    Parameters
    ----------
    law : Law
    trainable : bool or array of bool, default=True
        Which coefficients follow the gradient. With an array, the others are frozen.
    dtype : torch.dtype, optional
        Of the stored coefficients; double precision by default, so that nothing is lost between
        training and reading back. Values follow the dtype of the input in any case.
    """

    def __init__(
        self,
        law: Law,
        trainable: bool | Sequence[bool] = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._law = law
        self.program = law.program
        values = torch.tensor(law.coefficients, dtype=dtype or torch.float64)
        self.coefficients = nn.Parameter(values, requires_grad=trainable is not False)
        self.frozen: Tensor | None
        frozen: Tensor | None = None
        if not isinstance(trainable, bool):
            frozen = ~torch.as_tensor(trainable, dtype=torch.bool)
            if frozen.shape != values.shape:
                raise ValueError(
                    f"trainable needs one entry for each of the {len(values)} coefficients, "
                    f"got {tuple(frozen.shape)}."
                )
        self.register_buffer("frozen", frozen, persistent=False)
        # Plain arithmetic takes Python numbers as they are; torch functions want tensors.
        self._tensor_slots = frozenset(
            slot
            for name, _, operands in self.program.instructions
            if name not in _ARITHMETIC
            for slot in operands
        )

    def forward(self, z: Tensor) -> Tensor:
        program = self.program
        if not isinstance(z, Tensor):
            raise TypeError(f"Expected a tensor, got {type(z).__name__}; law.numpy() takes arrays.")
        if z.shape[-1] != program.inputs:
            raise ValueError(
                f"Expected a tensor (..., {program.inputs}) with the inputs last, "
                f"got shape {tuple(z.shape)}."
            )
        memory: list[Any] = [None] * program.size
        memory[: program.inputs] = z.unbind(-1)
        for slot, value in program.constants:
            memory[slot] = z.new_tensor(value) if slot in self._tensor_slots else value
        if program.coefficients:
            coefficients: Tensor = self.coefficients
            if self.frozen is not None:
                coefficients = torch.where(self.frozen, coefficients.detach(), coefficients)
            numbers = coefficients.to(z.dtype).unbind()
            for slot, number in zip(program.coefficients, numbers, strict=True):
                memory[slot] = number
        results = run(program, memory, TORCH)
        shape = z.shape[:-1]
        return torch.stack(
            [(r if isinstance(r, Tensor) else z.new_tensor(r)).expand(shape) for r in results],
            dim=-1,
        )

    def law(self) -> Law:
        """The law with the present values of the coefficients."""
        return self._law.with_coefficients(self.coefficients.detach().double().cpu().numpy())

    def extra_repr(self) -> str:
        return "; ".join(self.law().round(4).lines())


def to_casadi(program: Program, coefficients: Sequence[float], inputs: Any) -> Any:
    """Evaluate the program on a CasADi vector (SX or MX), returning the outputs as a column."""
    import casadi

    from sjepa.symbolic.functions import CLIP, EPS

    def reduce(function: Callable[..., Any]) -> Callable[..., Any]:
        def apply(*values: Any) -> Any:
            total = values[0]
            for value in values[1:]:
                total = function(total, value)
            return total

        return apply

    functions = _ARITHMETIC | {
        "inv": lambda x: 1 / x,
        "square": lambda x: x * x,
        "and": casadi.logic_and,
        "or": casadi.logic_or,
        "where": casadi.if_else,
        "Abs": casadi.fabs,
        "Max": reduce(casadi.fmax),
        "Min": reduce(casadi.fmin),
        "Mod": lambda a, b: a - b * casadi.floor(a / b),
        "Heaviside": lambda x, at_zero=0.5: casadi.if_else(
            x > 0, 1, casadi.if_else(x < 0, 0, at_zero)
        ),
        "safe_div": lambda a, b: casadi.if_else(
            casadi.fabs(b) < EPS, a * b / EPS**2, a / casadi.if_else(casadi.fabs(b) < EPS, 1, b)
        ),
        "exp_clip": lambda x: casadi.exp(casadi.fmin(casadi.fmax(x, -CLIP), CLIP)),
        "log_safe": lambda x: casadi.log(casadi.fmax(casadi.fabs(x), EPS)),
        "sqrt_safe": lambda x: casadi.if_else(
            casadi.fabs(x) < EPS**2,
            casadi.fabs(x) / EPS,
            casadi.sqrt(casadi.if_else(casadi.fabs(x) < EPS**2, 1, casadi.fabs(x))),
        ),
    }
    for row in NODES.values():
        if hasattr(casadi, row.name):
            functions.setdefault(row.name, getattr(casadi, row.name))
    functions |= {"sqrt": casadi.sqrt, "pow": casadi.power}
    memory: list[Any] = [None] * program.size
    memory[: program.inputs] = [inputs[i] for i in range(program.inputs)]
    for slot, value in (*program.constants, *zip(program.coefficients, coefficients, strict=True)):
        memory[slot] = value
    return casadi.vertcat(*run(program, memory, functions))
