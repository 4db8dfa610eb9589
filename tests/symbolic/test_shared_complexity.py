"""Shared subexpressions counted once, and weights that are code lengths."""

import math

import pytest
import sympy

from sjepa.errors import LawError
from sjepa.symbolic import Law
from sjepa.symbolic.complexity import code_lengths, dag_complexity, tree_complexity


X, Y = sympy.symbols("x y", real=True)


def test_without_repetition_a_dag_is_its_tree() -> None:
    for law in (["y", "-sin(x)"], ["x*y", "x**2 + 0.5"], ["1/x", "exp(x - y)"]):
        found = Law.from_string(law, ["x", "y"])
        assert found.complexity("dag") == found.complexity("tree")


def test_what_repeats_costs_a_name() -> None:
    # sin(x*y) is 3.5 + (1 + 1 + 1.5) = 7 once; in the second equation a reference costs 1.
    law = Law.from_string(["sin(x*y)", "x + sin(x*y)"], ["x", "y"])
    assert law.complexity("tree") == 7.0 + (1 + 1 + 7.0)
    assert law.complexity("dag") == 7.0 + (1 + 1 + 1.0)
    inside = Law.from_string(["sin(x)*exp(sin(x))", "0"], ["x", "y"])
    assert inside.complexity("tree") - inside.complexity("dag") == pytest.approx(4.5 - 1.0)
    # Constants and variables are no cheaper by being named.
    atoms = [2.5 * X, 2.5 * Y + X]
    assert dag_complexity(atoms) == tree_complexity(atoms)


def test_an_unknown_measure_names_all_three() -> None:
    with pytest.raises(LawError, match="tree, terms, dag"):
        Law.from_string(["x"], ["x"]).complexity("dga")


def test_code_lengths_are_logarithms_of_frequencies() -> None:
    corpus = [sympy.sin(X) + Y, sympy.sin(Y), X * Y]
    bits = code_lengths(corpus)
    # Nodes: five variables, two sines, one sum, one product; every kind counted once more.
    kinds = len(bits)
    total = 5 + 2 + 1 + 1 + kinds
    assert bits["sin"] == pytest.approx(-math.log2(3 / total))
    assert bits["variable"] == pytest.approx(-math.log2(6 / total))
    assert bits["cos"] == pytest.approx(-math.log2(1 / total))
    assert sum(2.0**-b for b in bits.values()) == pytest.approx(1.0)
    law = Law.from_string(["sin(x)"], ["x"])
    assert law.complexity("tree", weights=bits) == pytest.approx(bits["sin"] + bits["variable"])
