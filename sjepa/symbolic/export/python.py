"""A law as Python source: a numpy function, or a trainable torch module, free of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import sympy

from sjepa.symbolic.export.calls import PythonPrinter


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class NumpyPrinter(PythonPrinter):
    library: ClassVar[str] = "numpy"
    prefix: ClassVar[str] = "np"
    conditional = "np.where"
    root = "np.sqrt"


def python(law: Law, name: str = "law") -> str:
    """Python source of a vectorized numpy function that does not need this package."""
    printer = NumpyPrinter()
    names, expressions = printer.rows(law, law.expressions, ("z", "zero", "erf", name))
    # Constants have no shape of their own; adding zero times an input gives them one.
    rows = ",\n        ".join(f"{e} + zero" for e in expressions)
    unpack = "".join(f"    {n} = z[..., {i}]\n" for i, n in enumerate(names))
    head = "import numpy as np\n\n\n" + "".join(text + "\n\n" for text in printer.used.values())
    return (
        f"{head}def {name}(z):\n"
        f'    """{"; ".join(law.round(6).lines())}"""\n'
        f"    z = np.asarray(z, dtype=float)\n{unpack}"
        f"    zero = np.zeros(z.shape[:-1])\n"
        f"    return np.stack([\n        {rows},\n    ], axis=-1)\n"
    )


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
    """Python source of a trainable ``nn.Module`` that needs nothing but torch."""
    stripped, coefficients, values = law.with_free_terms().skeleton
    printer = TorchPrinter()
    names, rows = printer.rows(law, stripped, ("z", "c", "zero", "self", "nn", name))
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
