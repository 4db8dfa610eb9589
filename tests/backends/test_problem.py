"""What a problem gives to every backend alike."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sjepa.backend import Budget, Problem
from sjepa.backend.budget import cpu_time
from sjepa.symbolic import Grammar


def test_seconds_are_those_of_the_clock_that_the_budget_names() -> None:
    grammar = Grammar(["+"], ["x"])
    x = np.ones((3, 1))
    assert Problem(x, x, grammar=grammar).clock is time.monotonic
    busy = Problem(x, x, grammar=grammar, budget=Budget(3.0, cpu=True))
    assert busy.clock is cpu_time
    assert busy.with_(budget=Budget(1.0)).clock is cpu_time


@pytest.mark.parametrize(("rows", "least", "most"), [(30, 30, 40), (200, 90, 100), (900, 150, 200)])
def test_a_grammar_becomes_as_many_terms_as_the_rows_can_tell_apart(
    rows: int, least: int, most: int
) -> None:
    names = ["a", "b", "c", "d"]
    grammar = Grammar(["+", "*", "/", "sin", "cos", "exp", "log", "sqrt"], names)
    x = np.random.default_rng(0).uniform(1, 2, (rows, 4))
    assert least <= len(Problem(x, x, grammar=grammar).candidate_library) <= most


def test_terms_that_the_rows_do_not_define_are_not_offered() -> None:
    grammar = Grammar(["+", "*", "/", "log", "exp"], ["a", "b"])
    x = np.array([[-1.0, 2.0], [1.0, 3.0], [0.0, 400.0]])
    names = Problem(x, x, grammar=grammar).candidate_library.names
    assert {"a", "log(b)", "1/b", "exp(a)"} <= set(names)
    assert not {"log(a)", "1/a", "exp(b)"} & set(names)
    # A row without weight defines nothing.
    weighted = Problem(x, x, grammar=grammar, weights=np.array([0.0, 1.0, 0.0]))
    assert {"log(a)", "1/a", "exp(b)"} <= set(weighted.candidate_library.names)
