"""A law as the text of a vectorised function that needs nothing but numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sjepa.symbolic.export import CallPrinter, local_names
from sjepa.symbolic.functions import CLIP, EPS
from sjepa.symbolic.operators import NODES
from sjepa.symbolic.parse import symbol


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class NumpyPrinter(CallPrinter):
    """Calls of numpy functions and of the helpers in `_PYTHON_HELPERS`."""

    names: ClassVar[dict[str, str]] = {row.name: f"np.{row.name}" for row in NODES.values()} | {
        "safe_div": "safe_div", "exp_clip": "exp_clip", "log_safe": "log_safe",
        "sqrt_safe": "sqrt_safe",
        "asin": "np.arcsin", "acos": "np.arccos", "atan": "np.arctan", "asinh": "np.arcsinh",
        "Abs": "np.abs", "Max": "maximum", "Min": "minimum", "Mod": "np.mod", "sqrt": "np.sqrt",
        "Heaviside": "np.heaviside", "erf": "erf",
    }  # fmt: skip
    conditional = "np.where"


_PYTHON_HELPERS = {
    "safe_div(": f"""def safe_div(a, b):
    inside = np.abs(b) < {EPS!r}
    return np.where(inside, a * b / {EPS!r}**2, a / np.where(inside, 1.0, b))
""",
    "exp_clip(": f"""def exp_clip(x):
    return np.exp(np.clip(x, -{CLIP!r}, {CLIP!r}))
""",
    "log_safe(": f"""def log_safe(x):
    return np.log(np.maximum(np.abs(x), {EPS!r}))
""",
    "sqrt_safe(": f"""def sqrt_safe(x):
    size = np.abs(x)
    return np.where(size < {EPS!r}**2, size / {EPS!r}, np.sqrt(size))
""",
    "erf(": "from scipy.special import erf\n",
    "maximum(": """def maximum(*values):
    return np.maximum.reduce(np.broadcast_arrays(*values))
""",
    "minimum(": """def minimum(*values):
    return np.minimum.reduce(np.broadcast_arrays(*values))
""",
}


def python_source(law: Law, name: str) -> str:
    """A module with one numpy function of an array (..., inputs), free of this package."""
    printer = NumpyPrinter()
    taken = ("z", "np", "zero", name, *(call.rstrip("(") for call in _PYTHON_HELPERS))
    names = local_names(law.inputs, taken)
    local = {old: symbol(new) for old, new in zip(law.symbols, names, strict=True)}
    expressions = [printer.doprint(e.xreplace(local)) for e in law.expressions]
    text = "\n".join(expressions)
    helpers = [source for call, source in _PYTHON_HELPERS.items() if call in text]
    # Constants have no shape of their own; adding zero times an input gives them one.
    rows = ",\n        ".join(f"{e} + zero" for e in expressions)
    unpack = "".join(f"    {n} = z[..., {i}]\n" for i, n in enumerate(names))
    head = "import numpy as np\n\n\n" + "".join(h + "\n\n" for h in helpers)
    return (
        f"{head}def {name}(z):\n"
        f'    """{"; ".join(law.round(6).lines())}"""\n'
        f"    z = np.asarray(z, dtype=float)\n{unpack}"
        f"    zero = np.zeros(z.shape[:-1])\n"
        f"    return np.stack([\n        {rows},\n    ], axis=-1)\n"
    )
