"""The page of settings lists each class with exactly its fields."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import sjepa


PAGE = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| \{py:class\}`~sjepa\.(\w+)` \|.*\| (.*) \|$", PAGE, re.M))


@pytest.mark.parametrize("name", ROWS)
def test_the_page_has_the_fields_of_a_class(name: str) -> None:
    wanted = {field.name for field in fields(getattr(sjepa, name))}
    assert set(re.findall(r"`(\w+)`", ROWS[name])) == wanted


def test_the_page_has_all_classes() -> None:
    known = {n for n in sjepa.__all__ if issubclass(type(getattr(sjepa, n)), type)}
    parts = {n for n in known if issubclass(getattr(sjepa, n), sjepa.settings.Settings)}
    assert set(ROWS) == parts | {"Budget"}


def test_the_doors_are_no_wider_than_they_must_be_beside_the_data() -> None:
    data = {"self", "x", "t", "u", "x_dot", "feature_names"}
    for door, most in ((sjepa.SJEPA, 12), (sjepa.discover, 15)):
        assert len(set(inspect.signature(door).parameters) - data) <= most
