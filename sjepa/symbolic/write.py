"""A law in other people's languages: what :class:`~sjepa.symbolic.law.Law` has as methods.

Printers and other packages are imported at the first use, since few are needed at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sjepa.errors import LawError, MissingDependency


if TYPE_CHECKING:
    from torch import dtype as torch_dtype

    from sjepa.symbolic.law import Law
    from sjepa.symbolic.torch_law import TorchLaw


def notebook_latex(law: Law) -> str:
    from sjepa.symbolic.export.latex import latex_lines

    body = r" \\ ".join(line.replace(" = ", " &= ", 1) for line in latex_lines(law, 4))
    return rf"$\begin{{aligned}} {body} \end{{aligned}}$"


def notebook_html(law: Law) -> str:
    from sjepa.symbolic.export.html import law_html

    return law_html(law)


def latex(law: Law, digits: int = 4, environment: str | None = None) -> str:
    """LaTeX, one equation a line; with `environment` (such as "align") one block."""
    from sjepa.symbolic.export.latex import latex_lines

    lines = latex_lines(law, digits)
    if environment is None:
        return "\n".join(lines)
    body = " \\\\\n".join(line.replace(" = ", " &= ", 1) for line in lines)
    return f"\\begin{{{environment}}}\n{body}\n\\end{{{environment}}}"


def mathml(law: Law, digits: int = 4) -> str:
    """Presentation MathML, one ``<math>`` element for each equation."""
    from sjepa.symbolic.export.mathml import mathml_lines

    return "\n".join(mathml_lines(law, digits))


def c(law: Law, name: str = "law") -> str:
    """C99 source of ``void name(const double *in, double *out)``."""
    from sjepa.symbolic.export.c import c_source

    return c_source(law, name)


def julia(law: Law, name: str = "law") -> str:
    """Julia source of a scalar function of the inputs, returning a tuple."""
    from sjepa.symbolic.export.julia import julia_source
    from sjepa_julia import definitions

    return julia_source(law, name, list(definitions().values()))


def python(law: Law, name: str = "law") -> str:
    """Python source of a vectorized numpy function that does not need this package."""
    from sjepa.symbolic.export.numpy import python_source

    return python_source(law, name)


def modelica(law: Law, name: str = "Law", x0: Sequence[float] | None = None) -> str:
    """Modelica text: states with their derivatives, or results, from inputs.

    `x0` are the states (of a law of second order then the velocities) at the start.
    """
    from sjepa.symbolic.export.modelica import modelica_source

    return modelica_source(law, name, x0)


def sbml(law: Law, name: str = "law", x0: Sequence[float] | None = None) -> str:
    """An SBML document (Level 3 Version 2) with a rate rule for each state.

    `x0` are the states (of a law of second order then the velocities) at the start; inputs are
    parameters of value 0, to be set in the tool.
    """
    from sjepa.symbolic.export.sbml import sbml_document

    return sbml_document(law, name, x0)


def jax(law: Law) -> Callable[..., Any]:
    """A pure function ``f(z, coefficients)`` of JAX arrays (..., inputs) to (..., outputs).

    Without `coefficients` it has the law's own; with them it can be fitted by gradients. JAX
    computes in single precision unless ``jax_enable_x64`` is set.
    """
    try:
        from sjepa.symbolic.export.jax import to_jax

        return to_jax(law.program, law.coefficients.tolist())
    except ImportError:
        raise MissingDependency("law.jax() needs JAX: pip install jax") from None


def torch_source(law: Law, name: str = "Law") -> str:
    """Python source of a trainable ``nn.Module`` that needs nothing but torch."""
    from sjepa.symbolic.export.torch import torch_source as source

    return source(law, name)


def torch(
    law: Law,
    trainable: bool | Literal["terms"] | Sequence[bool] = True,
    dtype: torch_dtype | None = None,
) -> TorchLaw:
    """A differentiable module: tensor (..., inputs) to tensor (..., outputs).

    By default (True, or "terms") the multiplier of every term is trained, also where it is 1
    or another whole number, and so are the doubles inside functions; exponents and integers
    inside functions are part of the structure. A list says which coefficients follow the
    gradient: one entry for each of `coefficients`, or of the default module's. False trains
    nothing.
    """
    from sjepa.symbolic.torch_law import TorchLaw

    if isinstance(trainable, str):
        if trainable != "terms":
            raise LawError(f"trainable is True, False, 'terms' or a list, got {trainable!r}.")
        trainable = True
    given = len(law.coefficients)
    as_it_is = not trainable if isinstance(trainable, bool) else len(trainable) == given
    return TorchLaw(law if as_it_is else law.with_free_terms(), trainable, dtype)


def casadi(law: Law, name: str = "law") -> Any:
    """A ``casadi.Function`` from the vector of inputs to the vector of outputs."""
    try:
        import casadi
    except ImportError:
        raise MissingDependency("law.casadi() needs CasADi: pip install casadi") from None
    from sjepa.symbolic.export.casadi import to_casadi

    inputs = casadi.SX.sym("z", len(law.inputs))
    outputs = to_casadi(law.program, law.coefficients.tolist(), inputs)
    return casadi.Function(name, [inputs], [outputs], ["inputs"], ["outputs"])
