"""A law as the text of a vectorized function that needs nothing but numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sjepa.symbolic.export.calls import PythonPrinter, local_names
from sjepa.symbolic.parse import symbol


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


class NumpyPrinter(PythonPrinter):
    library: ClassVar[str] = "numpy"
    prefix: ClassVar[str] = "np"
    conditional = "np.where"
    root = "np.sqrt"


def python_source(law: Law, name: str) -> str:
    """A module with one numpy function of an array (..., inputs), free of this package."""
    printer = NumpyPrinter()
    names = local_names(law.inputs, ("z", "zero", "erf", name, *printer.reserved()))
    local = {old: symbol(new) for old, new in zip(law.symbols, names, strict=True)}
    expressions = [printer.doprint(e.xreplace(local)) for e in law.expressions]
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
