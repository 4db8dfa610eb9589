"""A law as something that computes in another package: torch, JAX or CasADi."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from sjepa.errors import LawError, MissingDependency
from sjepa.symbolic.definitions import Namespace
from sjepa.symbolic.emit import evaluate, instructions


if TYPE_CHECKING:
    from torch import dtype as torch_dtype

    from sjepa.symbolic.law import Law
    from sjepa.symbolic.torch_law import TorchLaw


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


def jax(law: Law) -> Callable[..., Any]:
    """A pure function ``f(z, coefficients)`` of JAX arrays (..., inputs) to (..., outputs).

    Without `coefficients` it has the law's own; with them it can be fitted by gradients. JAX
    computes in single precision unless ``jax_enable_x64`` is set.
    """
    try:
        import jax.numpy as jnp
    except ImportError:
        raise MissingDependency("law.jax() needs JAX: pip install jax") from None
    program, start = law.program, tuple(law.coefficients.tolist())
    functions = instructions("jax", jnp, jnp.power)

    def compute(z: Any, coefficients: Any = start) -> Any:
        z = jnp.asarray(z)
        columns = [z[..., i] for i in range(program.inputs)]
        rows = evaluate(program, columns, coefficients, functions)
        return jnp.stack([jnp.broadcast_to(r, z.shape[:-1]) for r in rows], axis=-1)

    return compute


def casadi(law: Law, name: str = "law") -> Any:
    """A ``casadi.Function`` from the vector of inputs to the vector of outputs."""
    try:
        import casadi
    except ImportError:
        raise MissingDependency("law.casadi() needs CasADi: pip install casadi") from None
    inputs = casadi.SX.sym("z", len(law.inputs))
    columns = [inputs[i] for i in range(len(law.inputs))]
    rows = evaluate(law.program, columns, law.coefficients.tolist(), _casadi_instructions())
    return casadi.Function(name, [inputs], [casadi.vertcat(*rows)], ["inputs"], ["outputs"])


@cache
def _casadi_instructions() -> dict[str, Any]:
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
