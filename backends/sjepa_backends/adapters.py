"""What the adapters for objects of other packages share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sjepa.errors import ConfigError, LawError
from sjepa.symbolic import Grammar
from sjepa.symbolic.operators import operator


def defaults(thing: object) -> dict[str, Any]:
    """The parameters of an object's class with their defaults."""
    parameters = inspect.signature(type(thing).__init__).parameters.values()
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {p.name: p.default for p in parameters if p.name != "self" and p.kind not in kinds}


def changed(thing: object) -> dict[str, Any]:
    """The parameters of an object that differ from their defaults."""
    return {k: v for k, v in params(thing).items() if not _same(v, defaults(thing)[k])}


def params(thing: object) -> dict[str, Any]:
    """All parameters of an object."""
    return {name: getattr(thing, name) for name in defaults(thing)}


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and repr(value) == repr(default))


def refuse(package: str, settings: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Refuse settings that cannot be kept, each with what to do about it."""
    for name, remedy in names.items():
        if name in settings:
            raise ConfigError(f"{package}'s {name} cannot be kept here: {remedy}.", "backend")


def known_operators(package: str, names: Iterable[Any]) -> tuple[str, ...]:
    """Operators in our spelling; one that we do not have is refused."""
    found = []
    for name in names:
        try:
            found.append(operator(name).name)
        except (LawError, TypeError):
            raise ConfigError(
                f"{package}'s operator {name!r:.80} has no counterpart here; leave it out, or "
                "add it by sjepa.symbolic.operators.register.", "backend",
            ) from None  # fmt: skip
    return tuple(dict.fromkeys(found))


def grammar_of(operators: Sequence[str] | None, names: Sequence[str]) -> Grammar | None:
    return None if operators is None else Grammar(list(operators), names)
