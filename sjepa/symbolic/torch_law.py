"""The law as a trainable torch module. The only part of the symbolic core that imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sjepa.symbolic.emit import ARITHMETIC, instructions, run


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


TORCH = instructions("torch", torch, torch.pow)
TORCH["inv"] = torch.reciprocal


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
            if name not in ARITHMETIC
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
        return "; ".join(self.law().lines(digits=4))
