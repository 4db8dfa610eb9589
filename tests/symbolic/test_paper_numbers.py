"""The figures printed in the paper, as far as they concern equations alone."""

import math

import numpy as np
import pytest

from sjepa.symbolic import Law, Library, operators
from sjepa.symbolic.complexity import description_length


PER_SEED_LAWS = [
    ["-0.806*z2", "0.822*z1 + 0.177 - 0.143*z1^2"],
    ["-0.847*z2 + 0.146 - 0.085*z1^2", "0.811*z1 + 0.185 - 0.143*z1^2 + 0.116*z1*z2"],
    ["0.867*z2", "-0.835*z1"],
]


def test_library_of_experiment_1_has_the_printed_terms_and_weights() -> None:
    library = Library.paper(["z1", "z2"])
    assert library.names == [
        "1", "z1", "z2", "sin(z1)", "sin(z2)", "cos(z1)", "cos(z2)", "z1**2", "z2**2", "z1*z2",
    ]  # fmt: skip
    assert library.weights.tolist() == [0.5, 1, 1, 2, 2, 2, 2, 1.5, 1.5, 2]


def test_mean_complexity_of_the_printed_laws_is_4_67() -> None:
    library = Library.paper(["z1", "z2"])
    laws = [Law.from_string(text, ["z1", "z2"]) for text in PER_SEED_LAWS]
    assert [law.complexity("terms", library) for law in laws] == [4.0, 8.0, 2.0]
    assert np.mean([law.complexity("terms") for law in laws]) == pytest.approx(4.67, abs=0.005)


def test_printed_spread_of_the_complexity_is_reproduced() -> None:
    values = [Law.from_string(t, ["z1", "z2"]).complexity("terms") for t in PER_SEED_LAWS]
    assert np.std(values) == pytest.approx(2.49, abs=0.005)


def test_quadratic_drag_weighs_3_and_the_two_grammars_3_and_6() -> None:
    terms = ["p", "sin(q)", "p*abs(p)"]
    library = Library.from_terms(terms, ["q", "p"])
    assert library.weights.tolist() == [1, 2, 3]
    incomplete = Law.from_string(["0.9607*p", "-0.8382*sin(q)"], ["q", "p"])
    complete = Law.from_string(["0.983*p", "-0.9553*sin(q) - 0.3724*p*abs(p)"], ["q", "p"])
    assert incomplete.complexity("terms", library) == 3
    assert complete.complexity("terms", library) == 6


def test_tree_weights_are_ordered_as_the_paper_asks() -> None:
    nodes = [
        operators.CONSTANT, operators.VARIABLE, operators.PRODUCT, operators.QUOTIENT,
        operators.OPERATORS["sin"].weight,
    ]  # fmt: skip
    assert nodes == sorted(set(nodes))


def test_smallest_expressions_of_each_kind_are_ordered_too() -> None:
    kinds = ["2.5", "x", "x*y", "x/y", "sin(x)"]
    sizes = [Law.from_string(k, ["x", "y"]).complexity("tree") for k in kinds]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2.5", 0.5),
        ("x", 1.0),
        ("-x", 1.0),
        ("x - y", 3.0),
        ("2.5*x", 0.5 + 1.5 + 1.0),
        ("x**2", 1.0 + 1.5),
        ("x**3", 1.0 + 1.5 + 0.5),
        ("1/x", 0.5 + 2.0 + 1.0),
        ("x/(y + 1)", 1.0 + 2.0 + (1.0 + 1.0 + 0.5)),
        ("1/(x*sin(y))", 0.5 + 2.0 + (1.0 + 1.5 + (3.5 + 1.0))),
        ("sin(x) + y", 3.5 + 1.0 + 1.0 + 1.0),
        ("safe_div(x, y)", 2.0 + 1.0 + 1.0),
    ],
)
def test_tree_complexity_adds_up_the_nodes_by_hand(text: str, size: float) -> None:
    assert Law.from_string(text, ["x", "y"]).complexity("tree") == size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        # A branch 2, a comparison 1 with its sides, a number 0.5.
        ("where(x > 0, x, 2.5)", 2.0 + (1.0 + 1.0 + 0.5) + 1.0 + 0.5),
        ("where(x > 0 and y < x, x, y)", 2.0 + (1.0 + 1.0 + 0.5) + (1.0 + 1.0 + 1.0) + 1.0 + 1.0),
        ("where(x > 0, x, where(y < 1, y, 2.5))", 2 * (2.0 + 2.5) + 1.0 + 1.0 + 0.5),
        ("max(x, y, 2.5)", 2 * 2.0 + 1.0 + 1.0 + 0.5),
        ("sqrt(x)", 2.5 + 1.0),
        ("x**2.7", 2.5 + 1.0 + 0.5),
    ],
)
def test_branches_maxima_and_powers_cost_what_their_parts_cost(text: str, size: float) -> None:
    assert Law.from_string(text, ["x", "y"]).complexity("tree") == size


@pytest.mark.parametrize(
    ("term", "weight"),
    [
        ("x/y", 1.0 + (1.0 + 1.0)),
        ("1/y**3", 1.0 + 0.5 * 2 + 1.0),
        ("x**0.7", 1.0 + 1.0),
        ("safe_div(x, y)", 1.0 + 1.0 + 1.0),
        ("x/(y + 1)", 1.0 + (1.0 + 0.5 + 1.0)),
        ("where(x > 0, x, y**2)", 1.0 + 1.0 + 1.5),
        ("where(x > 0, x, where(x < -1, y, 0.5))", 2 * 1.0 + 1.0 + 1.0 + 0.5),
        ("max(x, y)", 1.0 + 1.0 + 1.0),
    ],
)
def test_terms_cost_variables_degrees_and_one_for_each_function(term: str, weight: float) -> None:
    assert Law.from_string(f"3.7*{term}", ["x", "y"]).complexity("terms") == weight


def test_description_length_is_residuals_plus_coefficients_plus_structure() -> None:
    # Half of 100 rows x 3 outputs x log(exp(-2)); half of 4 x log(100); 5 choices among 7.
    expected = -300.0 + 2 * math.log(100) + 5 * math.log(7)
    assert description_length(math.exp(-2), 100, 3, 4, 5, 7) == pytest.approx(expected)
    # An exact fit and an alphabet of one sign stay finite.
    assert description_length(0.0, 2, 1, 0, 1, 1) == pytest.approx(math.log(1e-300) + math.log(2))


def test_the_description_of_a_law_counts_its_parts() -> None:
    law = Law.from_string("0.5*x - sin(x)", ["x"])
    # Two multipliers; +, *, 0.5, x, *, -1, sin, x are eight nodes; one input and the operators.
    nodes = 8 * math.log(1 + len(operators.OPERATORS))
    expected = 0.5 * 50 * math.log(0.01) + 0.5 * 2 * math.log(50) + nodes
    assert law.description_length(0.01, 50) == pytest.approx(expected)
