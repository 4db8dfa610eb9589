"""A law as the text of a torch module that needs nothing but torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import sympy

from sjepa.symbolic.export import CallPrinter, local_names
from sjepa.symbolic.functions import CLIP, EPS
from sjepa.symbolic.operators import NODES
from sjepa.symbolic.parse import symbol


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


# Torch functions that accept tensors only, so that numbers among their arguments are wrapped.
_TENSORS_ONLY = {"Max", "Min", "Mod", "Heaviside", "safe_div"}


class TorchPrinter(CallPrinter):
    """Calls of torch functions and of the helpers below."""

    names: ClassVar[dict[str, str]] = {row.name: f"torch.{row.name}" for row in NODES.values()} | {
        "safe_div": "safe_div", "exp_clip": "exp_clip", "log_safe": "log_safe",
        "sqrt_safe": "sqrt_safe", "Abs": "torch.abs", "Max": "maximum", "Min": "minimum",
        "Mod": "torch.remainder", "sqrt": "torch.sqrt", "Heaviside": "heaviside",
    }  # fmt: skip
    conditional = "torch.where"

    def _print_Function(self, expr: sympy.Expr) -> str:
        if expr.is_number:
            return repr(float(expr))
        row = NODES.get(expr.func)
        if row is None or row.name not in _TENSORS_ONLY:
            return super()._print_Function(expr)
        return f"{self.names[row.name]}({', '.join(self._tensor(a) for a in expr.args)})"

    _print_Abs = _print_sign = _print_Max = _print_Min = _print_Mod = _print_Function
    _print_ceiling = _print_Heaviside = _print_exp = _print_Function

    def _print_Pow(self, expr: sympy.Expr, rational: bool = False) -> str:
        return repr(float(expr)) if expr.is_number else super()._print_Pow(expr, rational)

    def _tensor(self, expr: sympy.Expr) -> str:
        return f"zero + {self._print(expr)}" if expr.is_number else self._print(expr)

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, _) = expr.args
        text = self._tensor(last)
        for value, condition in reversed(cases):
            text = f"torch.where({self._condition(condition)}, {self._tensor(value)}, {text})"
        return text


_HELPERS = {
    "safe_div": f"""def safe_div(a, b):
    inside = b.abs() < {EPS!r}
    return torch.where(inside, a * b / {EPS!r}**2, a / torch.where(inside, torch.ones_like(b), b))
""",
    "exp_clip": f"""def exp_clip(x):
    return torch.exp(torch.clamp(x, -{CLIP!r}, {CLIP!r}))
""",
    "log_safe": f"""def log_safe(x):
    return torch.log(torch.clamp(x.abs(), min={EPS!r}))
""",
    "sqrt_safe": f"""def sqrt_safe(x):
    size = x.abs()
    inside = size < {EPS!r}**2
    root = torch.sqrt(torch.where(inside, torch.ones_like(size), size))
    return torch.where(inside, size / {EPS!r}, root)
""",
    "maximum": """def maximum(first, *others):
    for other in others:
        first = torch.maximum(first, other)
    return first
""",
    "minimum": """def minimum(first, *others):
    for other in others:
        first = torch.minimum(first, other)
    return first
""",
    "heaviside": """def heaviside(x, at_zero):
    return torch.where(x > 0, torch.ones_like(x), torch.where(x < 0, torch.zeros_like(x), at_zero))
""",
}


def torch_source(law: Law, name: str = "Law") -> str:
    """A module (..., inputs) -> (..., outputs) with the coefficients as one parameter vector."""
    stripped, coefficients, values = law.skeleton
    names = local_names(law.inputs, ("z", "c", "zero", "self", "torch", "nn", name, *_HELPERS))
    local = {old: symbol(new) for old, new in zip(law.symbols, names, strict=True)}
    printer = TorchPrinter()
    rows = [printer.doprint(e.xreplace(local)) for e in stripped]
    helpers = [source for call, source in _HELPERS.items() if any(f"{call}(" in r for r in rows)]
    lines = law.lines(digits=6)
    sides = ", ".join(law.left_side(i) for i in range(len(law.outputs)))
    text = ["import torch", "from torch import nn", "", ""]
    for helper in helpers:
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
