"""Names of coordinates: symbols for what users call them, and x1, x2, ... where they do not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from sjepa.errors import ConfigError, LawError
from sjepa.symbolic.names import velocity_of
from sjepa.symbolic.parse import check_names


# A unit at the end of a label, as in "Level 1 (cm)" or "p [bar]".
_UNIT = re.compile(r"\s*[(\[]\s*([^()\[\]]*?)\s*[)\]]\s*$")


def numbered(letter: str, count: int) -> tuple[str, ...]:
    """`count` names counted from 1: x for states, z for latent coordinates, u for actions."""
    return tuple(f"{letter}{i + 1}" for i in range(count))


def split_unit(label: str) -> tuple[str, str]:
    """What a column is called, and the unit in brackets behind it, or nothing.

    >>> split_unit("Level 1 (cm)"), split_unit("q")
    (('Level 1', 'cm'), ('q', ''))
    """
    match = _UNIT.search(label)
    if match is None or not match.start():
        return label, ""
    return label[: match.start()].strip(), match[1]


def symbols_for(labels: Sequence[str]) -> tuple[str, ...]:
    """A name for each label that can stand in an equation; those that can already stay.

    >>> symbols_for(["q", "Level 1 (cm)", "flow rate", "lambda"])
    ('q', 'Level_1', 'flow_rate', 'lambda_')
    """
    found = [label if _can_stand(label) else "" for label in labels]
    for i, label in enumerate(labels):
        if not found[i]:
            short, long = _symbol(split_unit(label)[0]), _symbol(label)
            tries = (short, long, *(f"{long}_{k}" for k in range(2, len(labels) + 2)))
            found[i] = next(name for name in tries if name not in found)
    return tuple(found)


def _symbol(label: str) -> str:
    words = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", label)).strip("_")
    name = words if words[:1].isalpha() else f"x{words}"
    return name if _can_stand(name) else f"{name}_"


def _can_stand(name: str) -> bool:
    try:
        return bool(check_names([name], "input"))
    except LawError:
        return False


def with_velocity_names(names: Sequence[str]) -> tuple[str, ...]:
    """Coordinates, then their velocities."""
    return (*names, *map(velocity_of, names))


def state_names(inputs: Sequence[str], dim: int, actions: Sequence[str] = ()) -> tuple[str, ...]:
    """Coordinates and velocities of a second-order law; a library may leave the velocities out."""
    states = tuple(inputs)
    if actions and states[-len(actions) :] == tuple(actions):
        states = states[: -len(actions)]
    if len(states) == 2 * dim:
        return states
    if len(states) == dim:
        return with_velocity_names(states)
    raise ConfigError(
        f"A second-order law of {dim} coordinates needs a library of {dim} or {2 * dim} inputs "
        f"(coordinates, then velocities) and its actions, got {len(inputs)}: {', '.join(inputs)}."
    )
