"""What is computed by a shortcut equals what the long way gives."""

import numpy as np
import pytest
import sympy

from sjepa.backend import Problem
from sjepa.data.local_fit import local_polynomial
from sjepa.data.noise import noise_level
from sjepa.symbolic import Gram, Law, Library, canonicalize
from sjepa.symbolic.complexity import split_terms, tree_complexity
from sjepa.symbolic.emit import NumpyLaw
from sjepa.symbolic.equation import Equation
from sjepa.symbolic.program import compile_sums


@pytest.mark.parametrize(
    "library",
    [
        Library.default(["a", "b"], ["u"]),
        Library.polynomial(["a", "b", "c"], 3),
        Library.from_terms(["1/(1 + a)", "a/(1 + a)", "b", "exp(-a)"], ["a", "b"]),
    ],
)
def test_equations_of_a_library_are_written_in_canonical_form(library: Library) -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        c = rng.normal(size=len(library)).round(3) * rng.choice([0, 1, 1, 1e-16], len(library))
        c[rng.integers(len(library))] = rng.choice([1.0, -1.0, 2.0, 0.1 + 0.2])
        parts = [sympy.Float(v) * t for v, t in zip(c.tolist(), library.terms, strict=True)]
        equation, written = library.equation(c), canonicalize(sympy.Add(*parts))
        assert equation.expression == written
        # What is said of an equation before it is written down holds for the expression.
        assert equation.tree == tree_complexity(written)
        assert equation.key == Equation.of(written).key
        assert equation.weight(library.term_weights) == Equation.of(written).weight({})
        assert sorted(equation.pairs, key=str) == sorted(split_terms(written), key=str)


@pytest.mark.parametrize(
    "equations",
    [["b", "-2*sin(a) + a*b - 3"], ["0", "a**2*b + 0.5*a - b"], ["sin(1.5*a) + b", "exp(-0.3*b)"]],
)
def test_free_numbers_have_one_order_however_a_law_is_run(equations: list[str]) -> None:
    free = Law.from_string(equations, ["a", "b"]).with_free_terms()
    names = (free.inputs, free.outputs)
    written = Law(free.expressions, *names, canonical=False)  # numbers in the order of reading
    assert free.coefficients.tolist() == written.coefficients.tolist()
    moved = free.coefficients + np.arange(1, len(free.coefficients) + 1)
    x = np.random.default_rng(0).normal(size=(20, 2))
    wanted = written.with_coefficients(moved).numpy()(x)
    np.testing.assert_allclose(free.with_coefficients(moved).numpy()(x), wanted, rtol=1e-14)
    if free.free:
        summed = NumpyLaw(compile_sums(free.equations, free.symbols), moved)
        np.testing.assert_allclose(summed(x), wanted, rtol=1e-12)


def test_supports_of_several_lengths_are_solved_as_each_alone() -> None:
    rng = np.random.default_rng(3)
    features, y = rng.normal(size=(40, 6)), rng.normal(size=(40, 2))
    features[:, 5] = features[:, 4] + 1e-9 * rng.normal(size=40)  # nearly the same
    gram = Gram.from_features(features, y)
    supports = [(), (2,), (0, 3), (1, 2, 4), (4, 5)]
    index = np.array([[*s, *[-1] * (3 - len(s))] for s in supports])
    for support, found in zip(supports, gram.solve_all(index, 1), strict=True):
        wanted = np.zeros(6)
        wanted[list(support)] = gram.solve(np.array(support, dtype=int), 1)[list(support)]
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
        if support and 5 not in support:
            alone = np.linalg.lstsq(features[:, support], y[:, 1], rcond=None)[0]
            np.testing.assert_allclose(found[list(support)], alone, rtol=1e-9)


def test_laws_that_agree_to_twelve_digits_are_equal_whatever_the_order_of_their_terms() -> None:
    one = Law.from_string("0.3*x*y + sin(x) - 2", ["x", "y"])
    two = Law.from_string("-2 + sin(x) + 0.30000000000001*y*x", ["x", "y"])
    assert one == two and hash(one) == hash(two)
    assert one != Law.from_string("0.3000001*x*y + sin(x) - 2", ["x", "y"])


def test_sums_tell_losses_that_plain_differences_of_sums_cannot() -> None:
    """Residuals of 1e-10: their squares are below the rounding of the sums of squares."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (20_000, 2))
    y = (x[:, 0] * x[:, 1] - 3 * x[:, 0])[:, None] + 1e-10 * rng.normal(size=(20_000, 1))
    library = Library.polynomial(["a", "b"], 3)
    law = Law.from_string("a*b - 3*a", ["a", "b"], ["y"], "discrete")
    coefficients = library.coefficients(law)
    wanted = np.mean((x[:, 0] * x[:, 1] - 3 * x[:, 0] - y[:, 0]) ** 2) / y.var()
    parts = [(x[:5000], y[:5000]), (x[5000:], y[5000:])]
    halves = [Gram.from_chunks(library, [p]) for p in parts]
    for gram in (Gram.from_chunks(library, parts), halves[0] + halves[1]):
        assert gram.loss(coefficients)[0] == pytest.approx(wanted, rel=1e-3)


def test_scores_from_sums_equal_scores_from_rows() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, (500, 2))
    y = np.stack([x[:, 1], -x[:, 0] + 0.1 * rng.normal(size=500)], axis=1)
    weights = rng.uniform(0, 2, 500)
    library = Library.polynomial(["a", "b"], 2)
    laws = [Law.from_string(e, ["a", "b"]) for e in (["b", "-a"], ["a", "b**2 - 0.5*a"])]
    kinds = {"library": library, "weights": weights}
    for law in laws:
        by_rows = Problem(x, y, **kinds).losses(law)
        problem = Problem(x, y, **kinds)
        assert problem.sums.rows == 500  # taken, as a backend does
        assert problem.losses(law) == pytest.approx(by_rows, rel=1e-9, abs=1e-25)


@pytest.mark.parametrize(("n", "half", "degree"), [(500, 4, 8), (500, 6, 4), (7, 6, 4), (9, 4, 8)])
def test_moving_sums_equal_a_polynomial_fit_at_every_point(n: int, half: int, degree: int) -> None:
    t = 0.1 * np.arange(n)
    x = np.stack([np.sin(t), np.cos(3 * t)], axis=1)
    width = min(2 * half + 1, n)
    fit = local_polynomial(t, x, half, degree)
    for i in {0, 1, min(half, n - 1), n // 2, n - 1}:
        first = int(np.clip(i - half, 0, n - width))
        s = np.arange(first, first + width) - i
        reach = np.abs(s).max()
        k = min(degree, width - 1)
        root = (1 - np.abs(s / reach * width / (width + 1)) ** 3) ** 1.5 if k < width - 1 else 1.0
        for j in range(2):
            p = np.polynomial.Polynomial.fit(
                0.1 * s, x[first : first + width, j], k, w=root * np.ones(width)
            )
            assert fit.value[i, j] == pytest.approx(p(0.0), abs=1e-9)
            assert fit.slope[i, j] == pytest.approx(p.deriv()(0.0), abs=1e-7)


def test_noise_of_equal_steps_equals_that_of_steps_that_are_nearly_equal() -> None:
    rng = np.random.default_rng(3)
    t = 0.01 * np.arange(3000)
    x = np.sin(t)[:, None] + 0.02 * rng.normal(size=(3000, 1))
    shaken = t * (1 + 1e-7 * np.sin(t))
    assert noise_level(x, t) == pytest.approx(noise_level(x, shaken), rel=1e-3)
    assert noise_level(x, t) == pytest.approx([0.02], rel=0.1)
