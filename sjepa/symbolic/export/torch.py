"""A law as the text of a torch module that needs nothing but torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import sympy

from sjepa.symbolic.export.calls import PythonPrinter, local_names
from sjepa.symbolic.parse import symbol


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class TorchPrinter(PythonPrinter):
    library: ClassVar[str] = "torch"
    prefix: ClassVar[str] = "torch"
    conditional = "torch.where"
    root = "torch.sqrt"

    def _print(self, expr: Any, **options: Any) -> str:
        if isinstance(expr, sympy.Expr) and expr.is_number and not expr.is_Number:
            return repr(float(expr))
        return super()._print(expr, **options)

    def value(self, expr: sympy.Expr) -> str:
        """Torch functions want tensors, so that numbers among their arguments get a shape."""
        return f"zero + {self._print(expr)}" if expr.is_number else self._print(expr)


def torch_source(law: Law, name: str = "Law") -> str:
    """A module (..., inputs) -> (..., outputs) with the coefficients as one parameter vector."""
    stripped, coefficients, values = law.with_free_terms().skeleton
    printer = TorchPrinter()
    taken = ("z", "c", "zero", "self", "nn", name, *printer.reserved())
    names = local_names(law.inputs, taken)
    local = {old: symbol(new) for old, new in zip(law.symbols, names, strict=True)}
    rows = [printer.doprint(e.xreplace(local)) for e in stripped]
    lines = law.lines(digits=6)
    sides = ", ".join(law.left_side(i) for i in range(len(law.outputs)))
    text = ["import torch", "from torch import nn", "", ""]
    for helper in printer.used.values():
        text += [*helper.splitlines(), "", ""]
    text += [
        f"class {name}(nn.Module):",
        f'    """{lines[0]}',
        *(f"    {line}" for line in lines[1:]),
        "",
        f"    Takes (..., {len(names)}) with {', '.join(law.inputs)} last; gives {sides}.",
        '    """',
        "",
    ]
    if coefficients:
        numbers = ", ".join(repr(float(v)) for v in values)
        text += [
            "    def __init__(self):",
            "        super().__init__()",
            f"        self.c = nn.Parameter(torch.tensor([{numbers}], dtype=torch.float64))",
            "",
        ]
    text += ["    def forward(self, z):"]
    text += ["        c = self.c.to(z.dtype)"] if coefficients else []
    text += [
        f"        {', '.join(names)}{',' if len(names) == 1 else ''} = z.unbind(-1)",
        f"        zero = torch.zeros_like({names[0]})",
        "        return torch.stack([",
        *(f"            {row} + zero," for row in rows),
        "        ], dim=-1)",
        "",
    ]
    return "\n".join(text)
