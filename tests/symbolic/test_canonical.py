import random
import subprocess
import sys

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, strategies as st

from sjepa.symbolic import Law, Library, canonicalize
from sjepa.symbolic.canonical import threshold
from sjepa.symbolic.parse import parse
from sjepa.symbolic.text import to_text
from tests.symbolic import rewrites


NAMES = list(rewrites.VARIABLES)


def canonical(text: str) -> sympy.Expr:
    return canonicalize(parse(text, NAMES))


def _pairs(count: int) -> list[tuple[str, str]]:
    rng = random.Random(7)
    pairs = []
    while len(pairs) < count:
        tree = rewrites.random_tree(rng, depth=rng.choice([2, 3, 3]))
        other = rewrites.rewrite(tree, rng)
        if other != tree:
            pairs.append((rewrites.text(tree), rewrites.text(other)))
    return pairs


EQUAL = _pairs(300)


@pytest.mark.parametrize("block", range(10))
def test_rewritten_expressions_have_one_canonical_form_and_hash(block: int) -> None:
    for a, b in EQUAL[block::10]:
        left, right = canonical(a), canonical(b)
        assert left == right, f"{a}\n{b}\n{to_text(left)}\n{to_text(right)}"
        laws = [Law.from_string(t, NAMES) for t in (a, b)]
        assert laws[0] == laws[1] and hash(laws[0]) == hash(laws[1])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("0.1*x + 0.2*x", "0.3*x"),
        ("(x + 1)*(x + 2)", "x^2 + 3*x + 2"),
        ("x/y", "x*y**-1"),
        ("sin(-x)", "-sin(x)"),
        ("--x", "x"),
        ("1/(x + 1)^2", "1/(x^2 + 2*x + 1)"),
        ("x/(x + 1) + 1/(x + 1)", "1"),
        ("(x^2 - 1)/(x - 1)", "x + 1"),
        ("1/(3 - x)", "-1/(x - 3)"),
        ("2/(2*x + 2)", "1/(x + 1)"),
        ("exp(1)*x", "2.718281828459045*x"),
        ("sqrt(2)*sqrt(2)*x", "2*x"),
        ("x**0.5", "sqrt(x)"),
        ("x^3.0", "cube(x)"),
        ("exp(x)*exp(y)", "exp(x + y)"),
        ("exp(x + 1)", "exp(1)*exp(x)"),
        ("sqrt(x^2)", "abs(x)"),
        ("x*sign(x)", "abs(x)"),
        ("log(x)/log(2)", "log2(x)"),
        ("x/3", "0.3333333333333333*x"),
        ("safe_div(x, 2)", "0.5*x"),
        ("(0.1 + x)*(0.1 - x) + x^2", "0.01"),
        ("where(x > 1 + 1, x, --y)", "where(x > 2, x, y)"),
        ("max(x, y, x)", "max(y, x)"),
        ("2.0*x", "2*x"),
        ("1/((x + 1)*(x + 2))", "1/(x^2 + 3*x + 2)"),
        ("1/((x + 1)*(x + y))^2", "(1/(x^2 + x*y + x + y))^2"),
    ],
)
def test_known_equalities(a: str, b: str) -> None:
    assert canonical(a) == canonical(b)


def test_different_expressions_keep_different_forms() -> None:
    rng = random.Random(11)
    points = np.random.default_rng(0).uniform(-2, 2, (64, 3))
    checked = 0
    while checked < 200:
        a, b = (rewrites.text(rewrites.random_tree(rng, 3)) for _ in range(2))
        laws = [Law.from_string(t, NAMES) for t in (a, b)]
        values = [law.numpy()(points) for law in laws]
        if np.allclose(*values, rtol=1e-6, atol=1e-9):
            continue  # equal by chance
        assert laws[0] != laws[1] and laws[0].expressions != laws[1].expressions
        checked += 1


def test_close_but_different_numbers_are_different_laws() -> None:
    assert Law.from_string("1.000001*x", ["x"]) != Law.from_string("x", ["x"])


trees = st.integers(0, 10**6).map(lambda s: rewrites.random_tree(random.Random(s), 3))


@given(trees)
def test_canonical_form_is_a_fixed_point_and_survives_printing(tree: rewrites.Tree) -> None:
    form = canonical(rewrites.text(tree))
    assert canonicalize(form) == form
    assert canonicalize(parse(to_text(form), NAMES)) == form
    law = Law.from_string(rewrites.text(tree), NAMES, ["f"])
    again = Law.from_json(law.to_json())
    assert again == law and again.expressions == law.expressions


@given(trees, st.integers(0, 2**32 - 1))
def test_canonical_form_keeps_the_value_on_held_out_points(tree: rewrites.Tree, seed: int) -> None:
    expr = parse(rewrites.text(tree), NAMES)
    points = np.random.default_rng(seed).uniform(-2, 2, (20, 3))
    before = Law([expr], NAMES, ["f"], "discrete", canonical=False).numpy()(points)
    after = Law([expr], NAMES, ["f"], "discrete").numpy()(points)
    # Both sides in doubles; sums of up to a few hundred expanded terms lose a few digits, and
    # log_safe and safe_div near their edges magnify that by at most 1/EPS.
    scale = 1 + np.abs(before)
    assert (np.abs(after - before) / scale).max() < 1e-7


def test_a_huge_product_is_left_alone_instead_of_multiplied_out() -> None:
    form = canonical("(x + y + z + 1)^60")
    assert form.is_Pow


def test_thresholding_drops_small_terms_only() -> None:
    expr = parse("0.01*x + 2*y - 0.04*sin(x) + 1", NAMES)
    assert threshold(expr, 0.05) == canonical("2*y + 1")


def test_tiny_units_are_not_mistaken_for_rounding() -> None:
    assert canonical("1e-20*x + 3e-20*y") == canonical("3e-20*y + 1e-20*x") != canonical("0")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("x + 1e-14*y", {"x": 1.0, "y": 1e-14}),
        ("0.5*x - 2e-15*x*y", {"x": 0.5, "x*y": -2e-15}),
        ("(1e9*x - 1)*(1e9*y - 1)", {"x*y": 1e18, "x": -1e9, "y": -1e9, "1": 1.0}),
        ("(x + 1e-30*y)/(z + 1)", {"(x + 1e-30*y)/(z + 1)": 1.0}),
    ],
)
def test_no_term_vanishes_beside_another_one(text: str, terms: dict[str, float]) -> None:
    law = Law.from_string(text, NAMES, ["f"])
    for one in (law, Law.from_json(law.to_json())):
        assert {to_text(t): c for c, t in one.terms[0]} == terms


def test_a_law_from_sums_keeps_terms_of_any_size() -> None:
    library = Library.polynomial(["x", "y"], 2)
    coefficients = np.array([1e20, 1.0, 1e-20, 0.0, 1e-40, 0.0])
    law = Law.of_equations([library.equation(coefficients)], ["x", "y"], ["x"])
    assert library.coefficients(law)[:, 0].tolist() == coefficients.tolist()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("x/3 - 0.3333333333333333*x + 1e-20*y", "1e-20*y"),
        ("pi*x - 3.141592653589793*x + y", "y"),
        ("(x/3 - 0.1)*(3*x + y) - x**2 - 0.3333333333333333*x*y + 0.3*x", "-0.1*y"),
        ("(x + 0.3333333333333333)*(x - 1/3)", "x**2 - 0.11111111111111"),
    ],
)
def test_what_rounding_leaves_of_equal_terms_is_dropped(text: str, left: str) -> None:
    assert canonical(text) == canonical(left)


@pytest.mark.parametrize(
    "text",
    [
        "x**4 - x/((x/(y**2 + 1.5))**2 + 1.5)",
        "z/((z + x + y + log_safe(x)/(z**4 + 1.5))**2 + 1.5)",
        "z/((x/(y**2 + 1.5) + x/(x**2 + 1.5) + y)**2 + 1.5)",
    ],
)
def test_quotients_inside_quotients_are_the_same_after_a_round_trip(text: str) -> None:
    law = Law.from_string(text, NAMES, ["f"])
    again = Law.from_json(law.to_json())
    assert again == law and again.expressions == law.expressions
    points = np.random.default_rng(0).uniform(0.5, 2, (20, 3))
    values = [eval(text, {"log_safe": np.log}, dict(zip(NAMES, p, strict=True))) for p in points]
    np.testing.assert_allclose(again.numpy()(points)[:, 0], values, rtol=1e-9)


FACTORED = [
    ("(x - 1000)**4", 1000.1),
    ("(x - 1)**50", 1.5),
    ("1/(x - 1000)**3", 1000.1),
    ("2.5*x*(x - 1000)*(x - 1000.1)*(x - 999.9)", 1000.01),
    ("sin((x - 1000)**3) + (0.1*x - 100)**5", 1000.3),
    ("where((x - 1000)**3 > 0.0005, (x - 999)**9, x)", 1000.1),
]


@pytest.mark.parametrize(("text", "at"), FACTORED)
def test_powers_of_sums_are_evaluated_without_being_multiplied_out(text: str, at: float) -> None:
    x = sympy.Symbol("x", real=True)
    exact = float(parse(text, ["x"]).subs(x, sympy.Rational(at)).evalf(40))
    slope = float(sympy.diff(parse(text, ["x"]), x).subs(x, sympy.Rational(at)).evalf(40))
    law = Law.from_string(text, ["x"])
    for one in (law, Law.from_json(law.to_json()), law.with_free_terms(), law.canonical()):
        assert one.numpy()([at]) == pytest.approx([exact], rel=1e-9)
        assert one.torch()(torch.tensor([at], dtype=torch.float64)).item() == pytest.approx(
            exact, rel=1e-9
        )
    assert float(law.jacobian()[0].subs(x, at)) == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize(("text", "at"), FACTORED)
def test_factored_and_expanded_laws_are_equal(text: str, at: float) -> None:
    law = Law.from_string(text, ["x"])
    other = Law.from_string(to_text(canonicalize(parse(text, ["x"]))), ["x"])
    assert law == other and hash(law) == hash(other)
    assert law.terms == other.terms
    for measure in ("tree", "terms", "dag"):
        assert law.complexity(measure) == other.complexity(measure)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("(x + y)**2 - x**2 - y**2", "2*x*y"),
        ("y*(1 - x)*(1 + x)", "-x**2*y + y"),
        ("(x**2 - 1)/(x - 1)", "x + 1"),
        ("1.5*(1 - x**2)*y", "-1.5*x**2*y + 1.5*y"),
    ],
)
def test_products_are_multiplied_out_where_that_saves_additions(text: str, shown: str) -> None:
    (form,) = Law.from_string(text, NAMES, ["f"]).expressions
    assert to_text(form) == shown


def test_a_factored_law_is_covered_by_the_library_of_its_terms() -> None:
    library, law = Library.polynomial(["x"], 3), Law.from_string("(x - 2)**3", ["x"])
    assert library.covers(law)
    assert library.coefficients(law)[:, 0].tolist() == [-8.0, 12.0, -6.0, 1.0]


def test_equal_laws_have_equal_keys_in_another_process() -> None:
    code = (
        "from sjepa.symbolic import Law; "
        "print(Law.from_string('(x+1)*(y+0.5)+sin(-x)/z', ['x','y','z']).key)"
    )
    law = Law.from_string("y*x + 0.5*x + y + 0.5 - sin(x)*z**-1", NAMES)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == str(law.key)


def test_equivalence_sees_what_the_form_does_not() -> None:
    a = Law.from_string("sin(x)^2 + cos(x)^2", ["x"])
    b = Law.from_string("1", ["x"])
    assert a != b and a.equivalent(b)
    assert not a.equivalent(Law.from_string("1.001", ["x"]))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("exp(x)", "exp_clip(x)", False),  # differ beyond 20
        ("log(abs(x))", "log_safe(x)", False),  # differ below 0.001
        ("y/x", "safe_div(y, x)", False),
        ("x", "max(x, -10)", False),
        ("where(x > 100, x, y)", "y", False),
        ("log(x*y)", "log(x) + log(y)", True),  # where both are defined
        ("(x - y)**6", "(y - x)**5*(y - x)", True),  # large terms cancel far out
        ("sqrt(x**2)", "abs(x)", True),
    ],
)
def test_laws_are_compared_at_several_scales(a: str, b: str, same: bool) -> None:
    first, second = (Law.from_string(text, ["x", "y"]) for text in (a, b))
    assert first.equivalent(second) is second.equivalent(first) is same


def test_laws_of_many_positive_quantities_are_told_apart() -> None:
    """All eight must be positive, which one random point in 256 is."""
    names = [f"x{i}" for i in range(8)]
    sums = [" + ".join(f"log({n})" for n in names[:k]) for k in (8, 7)]
    product = "log(" + "*".join(names) + ")"
    whole, part, joined = (Law.from_string(t, names, ["y"]) for t in (*sums, product))
    assert not whole.equivalent(part) and whole.equivalent(joined)


@pytest.mark.parametrize(
    ("decimal", "p", "q"),
    [(0.3333333333333333, 1, 3), (0.14285714285714285, 1, 7), (0.333, 333, 1000)],
)
def test_an_exponent_that_was_meant_as_a_fraction_is_one(decimal: float, p: int, q: int) -> None:
    (power,) = Law.from_string(f"x**{decimal!r}", ["x"]).expressions
    if q <= 12:
        assert (
            power.exp == sympy.Rational(p, q)
            and power == Law.from_string(f"x**({p}/{q})", ["x"]).expressions[0]
        )
    else:
        assert power.exp.is_Float and float(power.exp) == p / q
