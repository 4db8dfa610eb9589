"""A law is brought into canonical form once, however often it is asked for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import sjepa
from sjepa.symbolic import Grammar, Law, Library, canonical, grammar, law, library


@pytest.mark.parametrize("backend", ["stlsq", "subset"])
def test_a_search_brings_every_equation_into_canonical_form_at_most_twice(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[sympy.Expr] = []

    def counting(real: Callable[[sympy.Expr], Any]) -> Callable[[sympy.Expr], Any]:
        def counted(expr: sympy.Expr) -> Any:
            calls.append(expr)
            return real(expr)

        return counted

    for module in (canonical, library, grammar):
        monkeypatch.setattr(module, "canonicalize", counting(canonical.canonicalize))
    monkeypatch.setattr(law, "factored", counting(canonical.factored))
    t = np.arange(0, 10, 0.01)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    front = sjepa.discover(x, t, feature_names=["q", "p"], backend=backend)
    assert front.best().round(6) == Law.from_string(["p", "-4*q"], ["q", "p"])
    front.to_frame(), repr(front), [c.law.complexity("tree") for c in front]
    equations = sum(len(c.law.outputs) for c in front)
    assert len(front) >= 3 and 0 < len(calls) <= 2 * equations


def test_the_canonical_form_of_a_canonical_law_is_itself() -> None:
    found = Law.from_string("x + 0.5*x", ["x"])
    assert found.canonical() is found
    free = found.with_free_terms()
    assert free.canonical() is free.canonical() and free == found


@pytest.mark.parametrize(
    "text",
    [
        "(0.5 - y/(1 + x**2))*x*exp(-y**2)", "exp(-y)/(x + 2)", "exp(-x*y)*(x + 1)/(y + x**2)",
        "x**0.5*exp(-x)/(1 + y)", "(1 + exp(-x))*(1 + y)/(2 + x)", "2**(-x*y)/(1 + y)",
    ],
)  # fmt: skip
def test_a_law_with_exponentials_over_sums_reads_back_equal(text: str) -> None:
    """SymPy takes exp(-y**2) for a denominator, and multiplied exp(y**2) into the sum below."""
    law = Law.from_string(text, ["x", "y"])
    again = Law.from_json(law.to_json())
    assert again == law and hash(again) == hash(law)
    assert again.lines() == law.lines()


@pytest.mark.parametrize(
    "made",
    [
        Library.default(["a", "b"], ["u"]),
        Library.paper(["a", "b"], ["u"], ["a_dot", "b_dot"]),
        Library.polynomial(["a", "b", "c"], 4),
        Library.paper(["a", "b"]) + Library.polynomial(["a", "b"], 3),
        Grammar(["*", "sin", "abs", "safe_div"], ["a", "b"]).library(["a"]),
    ],
)
def test_libraries_that_are_not_read_from_text_hold_canonical_terms(made: Library) -> None:
    assert list(made.terms) == [canonical.canonicalize(t) for t in made.terms]
