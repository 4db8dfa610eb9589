"""Estimators of other packages as backends: found by their package, read by our adapter for it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from sjepa.backend.base import Backend


# Of each package the function that makes a backend of one of its objects. Strings, not functions:
# whoever holds such an object has imported its package, everybody else need not.
ADAPTERS: Mapping[str, str] = {
    "gplearn": "sjepa_backends.gplearn_adapter:from_object",
    "pyoperon": "sjepa_backends.operon.adapter:from_object",
    "pysindy": "sjepa_backends.pysindy.adapter:from_object",
    "pysr": "sjepa_backends.pysr.adapter:from_object",
}


def backend_of_object(thing: object) -> Backend | None:
    """A backend with the settings of an object of PySR, PySINDy, pyoperon or gplearn.

    None for anything else. What the object sets stays set; what cannot be kept is refused by name.
    """
    if isinstance(thing, type):
        return None
    for cls in type(thing).__mro__:
        if target := ADAPTERS.get(cls.__module__.partition(".")[0]):
            module, _, name = target.partition(":")
            backend: Any = getattr(importlib.import_module(module), name)(thing)
            assert isinstance(backend, Backend)
            return backend
    return None
