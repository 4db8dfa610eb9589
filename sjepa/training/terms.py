"""What a law may be made of, and in which names, where the user did not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sjepa.data import Trajectories
from sjepa.data.names import numbered, with_velocity_names
from sjepa.errors import ConfigError
from sjepa.symbolic import Grammar, Library


def written(
    space: Library | Grammar | Sequence[str] | None,
    states: Sequence[str],
    actions: Sequence[str] = (),
) -> Library | Grammar | None:
    """A list of terms as a library of these names; velocities are z1_dot, ... where they occur."""
    if space is None or isinstance(space, Library | Grammar):
        return space
    moving = any("_dot" in term for term in space)
    return Library.of(space, [*(with_velocity_names(states) if moving else states), *actions])


def library_for(space: Library | Grammar | None, latent_dim: int) -> Library:
    """A library for a search that needs one."""
    if isinstance(space, Library):
        return space
    if space is not None:
        return space.library(space.inputs[:latent_dim])
    return Library.paper(numbered("z", latent_dim))


def coordinate_names(
    encoder: Any,
    trajectories: Trajectories,
    space: Library | Grammar | None,
    size: int,
    given: Sequence[str] | None,
) -> list[str]:
    """Names of given coordinates: the user's, those of the library, those of the data, or z1..."""
    if given is not None:
        if len(given) != size:
            raise ConfigError(f"{len(given)} feature_names for {size} coordinates.")
        return list(given)
    if space is not None:
        return list(space.inputs[:size])
    if isinstance(encoder, str) and trajectories.names is not None:
        return list(trajectories.names)
    return list(numbered("z", size))


def check_width(
    space: Library | Grammar | None, size: int, order: int, trajectories: Trajectories
) -> None:
    """Say so before a backend does if a library was made for another number of coordinates."""
    actions = len(trajectories.action_names or ())
    if space is not None and len(space.inputs) not in (size + actions, order * size + actions):
        raise ConfigError(
            f"The embedding has {size} values, the library or grammar is for "
            f"{len(space.inputs)} inputs; choose a head (pca, whiten, slow, learned) or a library "
            "of that size."
        )
