"""A law as a function of JAX arrays, to be differentiated, vectorized and compiled there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sjepa.symbolic.emit import instructions, run
from sjepa.symbolic.program import Program


def to_jax(program: Program, coefficients: Sequence[float]) -> Callable[..., Any]:
    """A pure function of an array (..., inputs) and, if they move, of the coefficients."""
    import jax.numpy as jnp

    start = tuple(coefficients)

    def law(z: Any, coefficients: Any = start) -> Any:
        z = jnp.asarray(z)
        memory: list[Any] = [None] * program.size
        memory[: program.inputs] = [z[..., i] for i in range(program.inputs)]
        for slot, value in program.constants:
            memory[slot] = value
        for i, slot in enumerate(program.coefficients):
            memory[slot] = coefficients[i]
        rows = run(program, memory, _instructions())
        return jnp.stack([jnp.broadcast_to(r, z.shape[:-1]) for r in rows], axis=-1)

    return law


@cache
def _instructions() -> dict[str, Any]:
    import jax.numpy as jnp

    return instructions("jax", jnp, jnp.power)
