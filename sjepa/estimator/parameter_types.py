"""The types each parameter of an estimator accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sjepa.backend.registry import make_backend
from sjepa.callbacks import check_callbacks
from sjepa.errors import ConfigError, LawError, did_you_mean
from sjepa.models import INTEGRATORS
from sjepa.models.devices import resolve_device
from sjepa.models.pretrained import HEADS
from sjepa.symbolic import Grammar, Library
from sjepa.symbolic.parse import check_names
from sjepa.training import WAYS, CorrectionSettings


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


def draw_seed(random_state: Any) -> int:
    """A seed as scikit-learn takes randomness: fresh for None, drawn from what is a generator."""
    if isinstance(random_state, Integral):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))


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
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf


def _is_random_state(value: Any) -> bool:
    generators = (np.random.RandomState, np.random.Generator)
    return value is None or _whole(value, 0) or isinstance(value, generators)


def _is_names(value: Any) -> bool:
    return value is None or (
        isinstance(value, list | tuple | np.ndarray) and all(isinstance(v, str) for v in value)
    )


# What each parameter may be, and the words for it.
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "latent_dim": (
        lambda v: _whole(v, 1) or (isinstance(v, str) and v == "auto"),
        "a whole number from 1, or 'auto'",
    ),
    "search": _one_of(*WAYS),
    "encoder": (
        lambda v: v in ("auto", "identity") if isinstance(v, str) else callable(v),
        "'auto', 'identity', a callable or a module",
    ),
    "head": _one_of("auto", "none", None, *HEADS, "learned"),
    "library": (_is_library, "a Library or a list of terms such as ['z1', 'sin(z1)']"),
    "grammar": (lambda v: v is None or isinstance(v, Grammar), "a Grammar"),
    "delta": (_is_delta, "'auto' or a positive number"),
    "delta_roll": (lambda v: v is None or (_is_delta(v) and v != "auto"), "a positive number"),
    "select": _one_of(None, "mdl"),
    "dynamics": _one_of("continuous", "discrete"),
    "order": _one_of(1, 2),
    "history": (
        lambda v: v is None or v == "auto" or _whole(v, 2),
        "'auto' or a whole number from 2",
    ),
    "device": (lambda v: isinstance(v, str | torch.device), "'auto', 'cpu', 'cuda' or 'mps'"),
    "integrator": _one_of(*INTEGRATORS),
    "random_state": (_is_random_state, "None, a whole number from 0, or a numpy generator"),
    "progress": (lambda v: v is None or callable(v), "a function of a text and a share"),
    "verbose": _one_of(None, True, False),
    "feature_names": (_is_names, "a list of names"),
    "options": (lambda v: v is None or isinstance(v, Mapping), "a mapping from names to values"),
}
# What is read by others, whose refusals get the parameter's name.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "backend": make_backend,
    "correction": lambda v: None if v is None else CorrectionSettings.of(v),
    "device": resolve_device,
    "feature_names": lambda v: None if v is None else check_names(v, "feature"),
    "callbacks": check_callbacks,
}


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
