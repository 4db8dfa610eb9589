"""Names of coordinates where the user gave none: x1, x2, ... z1, ... u1, ... and q_dot."""

from __future__ import annotations

from collections.abc import Sequence

from sjepa.errors import ConfigError


def numbered(letter: str, count: int) -> tuple[str, ...]:
    """`count` names counted from 1: x for states, z for latent coordinates, u for actions."""
    return tuple(f"{letter}{i + 1}" for i in range(count))


def with_velocity_names(names: Sequence[str]) -> tuple[str, ...]:
    """Coordinates, then their velocities."""
    return (*names, *(f"{n}_dot" for n in names))


def state_names(inputs: Sequence[str], dim: int, actions: Sequence[str] = ()) -> tuple[str, ...]:
    """Coordinates and velocities of a second-order law; a library may leave the velocities out."""
    own = tuple(inputs)
    if actions and own[-len(actions) :] == tuple(actions):
        own = own[: -len(actions)]
    if len(own) == 2 * dim:
        return own
    if len(own) == dim:
        return with_velocity_names(own)
    raise ConfigError(
        f"A second-order law of {dim} coordinates needs a library of {dim} or {2 * dim} inputs "
        f"(coordinates, then velocities) and its actions, got {len(inputs)}: {', '.join(inputs)}."
    )
