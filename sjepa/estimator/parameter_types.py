"""The types each parameter of an estimator accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np

from sjepa.backend.registry import make_backend
from sjepa.callbacks import read_verbose
from sjepa.errors import ConfigError, LawError, did_you_mean
from sjepa.models.pretrained import ReadOut
from sjepa.settings import check_random_state, number_of
from sjepa.symbolic import Grammar, Library
from sjepa.training import Neural, searches


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Give refusals from deeper down the name of the parameter they are about."""
    try:
        yield
    except ConfigError as error:
        error.argument = error.argument or argument
        raise
    except LawError as error:
        raise ConfigError(f"{argument}: {error}", argument) from None


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _one_of(*known: Any) -> tuple[Callable[[Any], bool], str]:
    def fine(value: Any) -> bool:
        return any(type(value) is type(one) and value == one for one in known)

    return fine, f"one of {', '.join(map(repr, known))}"


def _is_library(value: Any) -> bool:
    terms = isinstance(value, list | tuple) and all(isinstance(term, str) for term in value)
    return value is None or isinstance(value, Library) or (terms and len(value) > 0)


def _is_delta(value: Any) -> bool:
    if isinstance(value, str):
        return value == "auto"
    try:
        return 0 < number_of(value, "delta") < np.inf
    except ConfigError:
        return False


# What each parameter may be, and the words for it.
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "latent_dim": (
        lambda v: _whole(v, 1) or (isinstance(v, str) and v == "auto"),
        "a whole number from 1, or 'auto'",
    ),
    "encoder": (
        lambda v: (
            v in ("auto", "identity")
            if isinstance(v, str)
            else (callable(v) and not isinstance(v, type)) or isinstance(v, ReadOut)
        ),
        "'auto', 'identity', a callable or a module, or a ReadOut of one",
    ),
    "library": (_is_library, "a Library or a list of terms such as ['z1', 'sin(z1)']"),
    "grammar": (lambda v: v is None or isinstance(v, Grammar), "a Grammar"),
    "delta": (_is_delta, "'auto' or a positive number"),
    "order": _one_of(1, 2),
    "history": (
        lambda v: v is None or (isinstance(v, str) and v == "auto") or _whole(v, 2),
        "'auto' or a whole number from 2",
    ),
}
# What is read by others, whose refusals get the parameter's name.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "backend": make_backend, "search": searches.search_of, "correction": Neural.of,
    "random_state": check_random_state, "verbose": read_verbose,
}  # fmt: skip


def is_given(encoder: Any) -> bool:
    """Whether coordinates come from an encoder that is not trained."""
    return not (isinstance(encoder, str) and encoder == "auto")


def is_identity(encoder: Any) -> bool:
    """Whether the observations are the coordinates, apart from a head."""
    return is_given(encoder) and isinstance(ReadOut.of(encoder).encoder, str)


def head_of(encoder: Any) -> str:
    return ReadOut.of(encoder).head if is_given(encoder) else "auto"


def search_of(model: Any) -> Any:
    """The settings of an estimator's search: "joint" is "law" where coordinates are given."""
    learned = head_of(model.encoder) == "learned"
    return searches.search_of(model.search, is_given(model.encoder) and not learned)


def check_each(model: Any) -> None:
    """Refuse a parameter that is not of its kind, by its name."""
    for name, (fine, words) in _KINDS.items():
        if not fine(value := getattr(model, name)):
            hint = did_you_mean(value, _names_in(words)) if isinstance(value, str) else ""
            raise ConfigError(f"{name} is {words}, got {value!r:.60}.{hint}", name)
    for name, read in _READERS.items():
        with naming(name):
            read(getattr(model, name))


def _names_in(words: str) -> list[str]:
    return words.split("'")[1::2]
