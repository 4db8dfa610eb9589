"""Examples in docstrings run as printed."""

import doctest
import importlib
import pkgutil

import pytest

import sjepa


MODULES = [
    m.name
    for m in pkgutil.walk_packages(sjepa.__path__, "sjepa.")
    if not m.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


@pytest.mark.parametrize("name", sjepa.__all__)
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>>" in getattr(sjepa, name).__doc__
