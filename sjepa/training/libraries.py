"""Default libraries and grammars of a law, and the names of its coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sjepa.data import Trajectories
from sjepa.data.names import numbered, with_velocity_names
from sjepa.errors import ConfigError
from sjepa.symbolic import Grammar, Library


def as_library(
    space: Library | Grammar | Sequence[str] | None,
    states: Sequence[str],
    actions: Sequence[str] = (),
) -> Library | Grammar | None:
    """A list of terms as a library of these names; velocities are z1_dot, ... where they occur."""
    if space is None or isinstance(space, Library | Grammar):
        return space
    moving = any("_dot" in term for term in space)
    return Library.of(space, [*(with_velocity_names(states) if moving else states), *actions])


def coordinate_grammar(inputs: Sequence[str], latent_dim: int, order: int) -> Grammar:
    """What trees in learned coordinates, which come before the actions, are made of.

    Their origin is free, so that quotients and exponentials are there whatever their sign.
    """
    states, actions = inputs[:latent_dim], inputs[latent_dim:]
    states = with_velocity_names(states) if order == 2 else states
    functions = ["sin", "cos", "exp", "tanh"]
    return replace(
        Grammar.default(states, actions),
        operators=["+", "-", "*", "/", "abs", *functions],
        nested={f: dict.fromkeys(functions, 0) for f in functions},
    )


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
) -> list[str]:
    """Names of given coordinates: those of the library, those of the data, or z1, z2, ..."""
    if space is not None:
        return list(space.inputs[:size])
    if isinstance(encoder, str) and trajectories.names is not None:
        return list(trajectories.names)
    return list(numbered("z", size))


def check_width(
    space: Library | Grammar | None, size: int, order: int, trajectories: Trajectories
) -> None:
    """Say so before a backend does if a library was made for another number of coordinates."""
    actions = len(trajectories.input_names or ())
    if space is not None and len(space.inputs) not in (size + actions, order * size + actions):
        raise ConfigError(
            f"The embedding has {size} values, the library or grammar is for "
            f"{len(space.inputs)} inputs; choose a head (pca, whiten, slow, learned) or a library "
            "of that size."
        )
