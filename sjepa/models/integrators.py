"""Fixed-step integrators I_Δt, differentiable, with a step size of its own for every sample.

A field maps inputs (..., d + s), the state joined with exogenous inputs, to velocities (..., d).
Exogenous inputs are held constant during a step. ``slope`` is the field's value at z, for callers
that have it already.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from sjepa.errors import ConfigError


Field = Callable[[Tensor], Tensor]


class Integrator(Protocol):
    """One step of length dt, which broadcasts against z[..., :1]."""

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


def euler(
    field: Field,
    z: Tensor,
    dt: Tensor | float,
    u: Tensor | None = None,
    slope: Tensor | None = None,
) -> Tensor:
    """Forward Euler, the paper's choice: z + Δt V(z). First order."""
    return z + dt * (field(join(z, u)) if slope is None else slope)


def midpoint(
    field: Field,
    z: Tensor,
    dt: Tensor | float,
    u: Tensor | None = None,
    slope: Tensor | None = None,
) -> Tensor:
    """The velocity half a step ahead, two evaluations. Second order."""
    k1 = field(join(z, u)) if slope is None else slope
    return z + dt * field(join(z + 0.5 * dt * k1, u))


def rk4(
    field: Field,
    z: Tensor,
    dt: Tensor | float,
    u: Tensor | None = None,
    slope: Tensor | None = None,
) -> Tensor:
    """Classical Runge-Kutta, four evaluations. Fourth order."""
    k1 = field(join(z, u)) if slope is None else slope
    k2 = field(join(z + 0.5 * dt * k1, u))
    k3 = field(join(z + 0.5 * dt * k2, u))
    k4 = field(join(z + dt * k3, u))
    return z + (dt / 6.0) * (k1 + 2.0 * (k2 + k3) + k4)


def verlet(
    field: Field,
    z: Tensor,
    dt: Tensor | float,
    u: Tensor | None = None,
    slope: Tensor | None = None,
) -> Tensor:
    """Velocity Verlet for z = (q, v) with dq/dt = v: two evaluations, second order.

    Only the second half of the field, the acceleration, is used. Energy does not drift when
    the acceleration depends on q alone.
    """
    q, v = z.chunk(2, dim=-1)
    half = v.shape[-1]
    if q.shape[-1] != half:
        raise ConfigError(f"verlet needs positions and velocities, got {z.shape[-1]} coordinates.")
    a0 = (field(join(z, u)) if slope is None else slope)[..., half:]
    q_next = q + dt * (v + 0.5 * dt * a0)
    # The Euler velocity lets the acceleration depend on v without losing second order.
    a1 = field(join(torch.cat([q_next, v + dt * a0], dim=-1), u))[..., half:]
    return torch.cat([q_next, v + 0.5 * dt * (a0 + a1)], dim=-1)


INTEGRATORS: Mapping[str, Integrator] = {
    "euler": euler,
    "midpoint": midpoint,
    "rk4": rk4,
    "verlet": verlet,
}
