"""Fixed-step integrators I_Δt, differentiable, with a step size of its own for every sample.

A field maps inputs (..., d + s), the state joined with exogenous inputs, to velocities (..., d).
Exogenous inputs are held constant during a step.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from sjepa.errors import ConfigError


Field = Callable[[Tensor], Tensor]
# A scheme: the velocity of a state, the state, the length of the step, and the velocity there.
Scheme = Callable[[Field, Tensor, Tensor | float, Tensor], Tensor]


class Integrator(Protocol):
    """One step of length dt, which broadcasts against z[..., :1].

    ``slope`` is the field's value at z, for callers that have it already.
    """

    def __call__(
        self,
        field: Field,
        z: Tensor,
        dt: Tensor | float,
        u: Tensor | None = None,
        slope: Tensor | None = None,
    ) -> Tensor: ...


def join(z: Tensor, u: Tensor | None) -> Tensor:
    """State and exogenous inputs as the one input that laws and networks take."""
    if u is None:
        return z
    return torch.cat([z, u.expand(*z.shape[:-1], u.shape[-1])], dim=-1)


def _euler(velocity: Field, z: Tensor, dt: Tensor | float, k1: Tensor) -> Tensor:
    """Forward Euler, the paper's choice. First order."""
    return z + dt * k1


def _midpoint(velocity: Field, z: Tensor, dt: Tensor | float, k1: Tensor) -> Tensor:
    """The velocity half a step ahead, two evaluations. Second order."""
    return z + dt * velocity(z + 0.5 * dt * k1)


def _rk4(velocity: Field, z: Tensor, dt: Tensor | float, k1: Tensor) -> Tensor:
    """Classical Runge-Kutta, four evaluations. Fourth order."""
    k2 = velocity(z + 0.5 * dt * k1)
    k3 = velocity(z + 0.5 * dt * k2)
    k4 = velocity(z + dt * k3)
    return z + (dt / 6.0) * (k1 + 2.0 * (k2 + k3) + k4)


def _verlet(velocity: Field, z: Tensor, dt: Tensor | float, k1: Tensor) -> Tensor:
    """Velocity Verlet for z = (q, v) with dq/dt = v: two evaluations, second order.

    Only the second half of the field, the acceleration, is used. Energy does not drift when
    the acceleration depends on q alone.
    """
    q, v = z.chunk(2, dim=-1)
    half = v.shape[-1]
    if q.shape[-1] != half:
        raise ConfigError(f"verlet needs positions and velocities, got {z.shape[-1]} coordinates.")
    a0 = k1[..., half:]
    q_next = q + dt * (v + 0.5 * dt * a0)
    # The Euler velocity lets the acceleration depend on v without losing second order.
    a1 = velocity(torch.cat([q_next, v + dt * a0], dim=-1))[..., half:]
    return torch.cat([q_next, v + 0.5 * dt * (a0 + a1)], dim=-1)


def _step(
    scheme: Scheme,
    field: Field,
    z: Tensor,
    dt: Tensor | float,
    u: Tensor | None = None,
    slope: Tensor | None = None,
) -> Tensor:
    def velocity(state: Tensor) -> Tensor:
        return field(join(state, u))

    return scheme(velocity, z, dt, velocity(z) if slope is None else slope)


INTEGRATORS: Mapping[str, Integrator] = {
    "euler": partial(_step, _euler),
    "midpoint": partial(_step, _midpoint),
    "rk4": partial(_step, _rk4),
    "verlet": partial(_step, _verlet),
}
