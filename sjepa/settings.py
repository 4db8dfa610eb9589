"""Settings in typed parts (frozen dataclasses, names as shorthand, plain data), and seeds."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from sjepa.errors import ConfigError, did_you_mean


RandomState = int | np.random.RandomState | np.random.Generator | None
P = TypeVar("P", bound="Settings")
C = TypeVar("C", int, str)
# What a field of these types may be, and the words for it.
_KINDS: Mapping[Any, tuple[type, str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": (bool, "True or False"),
    "str": (str, "a name"),
}


class Settings:
    """Base of frozen dataclasses: a misspelled field is refused with the nearest one.

    `shorthand` is the name that stands for the defaults.
    """

    shorthand: ClassVar[str]

    def __new__(cls, *_: Any, **given: Any) -> Self:
        known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        if unknown := [name for name in given if name not in known]:
            raise ConfigError(
                f"{cls.__name__} has no field {unknown[0]!r}.{did_you_mean(unknown[0], known)} "
                f"Fields: {', '.join(known)}."
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            kind, words = _KINDS.get(str(field.type).removesuffix(" | None"), (object, ""))
            value = getattr(self, field.name)
            if value is None and str(field.type).endswith(" | None"):
                continue
            if not isinstance(value, kind) or (words and isinstance(value, bool) != (kind is bool)):
                raise ConfigError(f"{field.name} is {words}, got {value!r:.60}.")
        if (further := getattr(super(), "__post_init__", None)) is not None:
            further()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.changed().items())
        return f"{type(self).__name__}({fields})"

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their defaults."""
        found = {}
        for field in fields(self):  # type: ignore[arg-type]
            made = field.default_factory
            default = field.default if made is MISSING else made()
            if (value := getattr(self, field.name)) != default:
                found[field.name] = value
        return found

    def refuse(self, names: Iterable[str], where: str) -> None:
        """Refuse the first of these fields that was set: it is not read `where`."""
        changed = self.changed()
        for name in names:
            if name in changed:
                raise ConfigError(f"{name} is not read {where}.")

    def plain(self) -> Any:
        """The name, or a mapping with it and the fields that were set, as a file holds them."""
        changed = self.changed()
        text = json.dumps(
            {"name": self.shorthand, **changed}, allow_nan=False, default=_plain, sort_keys=True
        )
        return json.loads(text) if changed else self.shorthand


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.plain()
    raise TypeError(f"A file cannot hold {value!r:.60}.")


def settings_of(given: Any, argument: str, known: Mapping[str, P]) -> P:
    """The settings that a name stands for, a mapping with a ``"name"``, or settings as given."""
    if isinstance(given, tuple({type(value) for value in known.values()})):
        return given  # type: ignore[return-value]
    if isinstance(given, str) and given in known:
        return known[given]
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        named = settings_of(given["name"], argument, known)
        rest = {k: v for k, v in given.items() if k != "name"}
        try:
            return replace(named, **rest)  # type: ignore[type-var]
        except TypeError as error:  # of fields that may be of several types
            raise ConfigError(f"{argument}: {error}.", argument) from None
    hint = did_you_mean(given, known) if isinstance(given, str) else ""
    kinds = dict.fromkeys(type(v) for v in known.values() if fields(v))  # type: ignore[arg-type]
    classes = ", ".join(f"{kind.__name__}(...)" for kind in kinds)
    raise ConfigError(
        f"{argument} is one of {', '.join(map(repr, known))}, {classes}; got {given!r:.60}.{hint}",
        argument,
    )


def texts_of(given: Any, argument: str, example: str) -> list[str]:
    """The texts of a list, such as names or terms; a text alone is a list of letters."""
    texts = list_of(given, argument, example)
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{argument} is a list of {example}, got {given!r:.60}.", argument)
    return texts


def list_of(given: Any, argument: str, example: str) -> list[Any]:
    """What can be gone through, as a list; a text is one value."""
    try:
        if not isinstance(given, str | bytes):
            return list(given)
    except TypeError:
        pass
    raise ConfigError(f"{argument} is a list of {example}, got {given!r:.60}.", argument)


def choice_of(given: Any, argument: str, known: Sequence[C]) -> C:
    """One of a few values; what only equals one, as an array may, is none of them."""
    for one in known:
        if isinstance(given, type(one)) and not isinstance(given, bool) and given == one:
            return one
    words = " or ".join(map(repr, known))
    raise ConfigError(f"{argument} must be {words}, got {given!r:.60}.", argument)


def array_of(given: Any, argument: str) -> np.ndarray:
    """An array of floats, in which masked values are missing ones: what is under a mask is void."""
    try:
        if isinstance(given, np.ma.MaskedArray):
            given = np.ma.filled(given.astype(float), np.nan)
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{argument} must be numbers, got {given!r:.60}.", argument) from None


def number_of(given: Any, argument: str) -> float:
    """A float; whole numbers that are too large for one are none."""
    try:
        if isinstance(given, Real) and not isinstance(given, bool):
            return float(given)
    except OverflowError:
        pass
    raise ConfigError(f"{argument} is a number, got {given!r:.60}.", argument)


def whole_of(given: Any, argument: str, least: int = 0) -> int:
    whole = isinstance(given, Integral) and not isinstance(given, bool)
    if not whole or not least <= int(given) < 2**63:
        words = f"a whole number from {least}"
        raise ConfigError(f"{argument} is {words}, got {given!r:.60}.", argument)
    return int(given)


def mapping_of(given: Any, argument: str) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{argument} is a mapping, got {given!r:.60}.", argument)
    return given


def path_of(given: Any, argument: str) -> Path:
    """A path that the system can be asked about, whether or not anything is there."""
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(f"{argument} is a path, got {given!r:.60}.", argument)
    path = Path(given)
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # too long, in a forbidden folder, a zero in its name
        reason = getattr(error, "strerror", None) or error
        text = f"{argument}: {str(path)[:200]} cannot be a path ({reason})."
        raise ConfigError(text, argument) from None
    return path


def callable_of(given: Any, argument: str, example: str, count: int) -> Any:
    """A function that takes so many arguments, as far as it says what it takes."""
    if callable(given):
        try:
            inspect.signature(given).bind(*range(count))
            return given
        except ValueError:  # one in C that does not say
            return given
        except TypeError:
            pass
    text = f"{argument} is called as {example}, which {given!r:.60} cannot be."
    raise ConfigError(text, argument)


def check_random_state(random_state: Any) -> None:
    """Refuse what is no source of random numbers."""
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if not (whole and int(random_state) >= 0) and not isinstance(
        random_state, np.random.RandomState | np.random.Generator | None
    ):
        raise ConfigError(
            "random_state is None, a whole number from 0, or a numpy generator, "
            f"got {random_state!r:.60}.",
            "random_state",
        )


def draw_seed(random_state: RandomState) -> int:
    """A seed as scikit-learn takes randomness: fresh for None, drawn from what is a generator."""
    check_random_state(random_state)
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if random_state is None:
        return int(np.random.randint(2**31 - 1))
    return int(random_state.randint(2**31 - 1))
