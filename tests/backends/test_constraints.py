"""What users know of coefficients is kept, and the search stays exact: against brute force."""

from itertools import chain, combinations

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp
from scipy.optimize import lsq_linear, minimize

import sjepa
from sjepa import Backend, Law, Library, Problem, make_backend
from sjepa.errors import ConfigError, NumericalWarning
from sjepa_backends.supports import signed_solution
from tests.command import run


TERMS = ["x", "y", "x*y", "x**2"]


def problem(seed, noise=0.3, outputs=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 2))
    library = Library.from_terms(TERMS, ["x", "y"])
    true = np.where(rng.random((4, outputs)) < 0.5, rng.normal(size=(4, outputs)), 0.0)
    y = library.numpy()(x) @ true + noise * rng.normal(size=(60, outputs))
    return Problem(x, y, library=library, names=["x", "y"], outputs=["x", "y"][:outputs])


def subsets(items):
    return chain.from_iterable(combinations(items, n) for n in range(len(items) + 1))


def staircase(rows):
    """The lowest loss for every cost, longer ones only if they are better by 1 %."""
    kept = []
    for cost, loss in sorted(rows):
        if not kept or loss < kept[-1][1] * 0.99:
            kept.append((cost, loss))
    return kept


def losses(given, coefficients):
    features, targets = given.feature_rows()
    return ((features @ coefficients - targets) ** 2).mean(axis=0) / targets.var(axis=0)


def exactly(given, texts, adequate=0.0):
    backend = make_backend("subset", adequate=adequate, min_gain=0.0)
    return given.with_(constraints=texts).solve(backend)


@pytest.mark.parametrize("seed", range(8))
def test_signs_against_every_support_with_bounded_least_squares(seed):
    given = problem(seed, outputs=1)
    features, targets = given.feature_rows()
    signs = np.random.default_rng([seed, 1]).choice([-1, 0, 1], size=4)
    texts = [
        f"coef(x', {t}) {'>=' if s > 0 else '<='} 0" for t, s in zip(TERMS, signs, strict=True) if s
    ]
    found = exactly(given, texts or ["coef(x', x) >= 0"])
    signs = signs if texts else np.array([1, 0, 0, 0])
    rows = []
    for chosen in map(list, subsets(range(4))):
        bounds = (np.where(signs > 0, 0, -np.inf)[chosen], np.where(signs < 0, 0, np.inf)[chosen])
        c = np.zeros((4, 1))
        if chosen:
            c[chosen, 0] = lsq_linear(features[:, chosen], targets[:, 0], bounds, tol=1e-14).x
        c[np.abs(c) < 1e-6] = 0
        rows.append((given.library.weights @ (c[:, 0] != 0), float(losses(given, c)[0])))
    ours = [(c.terms, c.loss) for c in found]
    np.testing.assert_allclose(ours, staircase(rows), rtol=1e-4)
    assert all(c.certified for c in found)
    for c in found:
        assert (given.library.coefficients(c.law)[:, 0] * signs >= 0).all()


@pytest.mark.parametrize(
    ("texts", "equations"),
    [
        (["coef(x', y) = 0.5"], [([(1, 0, 1.0)], 0.5)]),
        (["coef(x', x) = -coef(y', y)"], [([(0, 0, 1.0), (1, 1, 1.0)], 0.0)]),
        (["coef(x', x) = 2*coef(x', x**2)"], [([(0, 0, 1.0), (3, 0, -2.0)], 0.0)]),
        (["x' + y' = 0"], [([(i, 0, 1.0), (i, 1, 1.0)], 0.0) for i in range(4)]),
    ],
)
def test_equations_against_every_support_with_lagrange(texts, equations):
    """Ties also across equations: all 256 joint supports, each by its Lagrange conditions."""
    given = problem(3)
    features, targets = given.feature_rows()
    unit = 1 / targets.var(axis=0) / len(targets)
    blocks = np.kron(np.diag(unit), features.T @ features)
    right = (features.T @ targets * unit).T.ravel()
    a = np.zeros((len(equations), 8))
    b = np.array([value for _, value in equations])
    for row, (parts, _) in zip(a, equations, strict=True):
        for i, j, c in parts:
            row[4 * j + i] = c
    rows = []
    for chosen in map(list, subsets(range(8))):
        left = a[:, chosen]
        if len(chosen):
            matrix = np.block(
                [[blocks[np.ix_(chosen, chosen)], left.T], [left, np.zeros((len(b),) * 2)]]
            )
            solved = np.linalg.lstsq(matrix, np.append(right[chosen], b))[0][: len(chosen)]
        else:
            solved = np.zeros(0)
        c = np.zeros(8)
        c[chosen] = np.where(np.abs(solved) < 1e-9, 0.0, solved)
        if np.abs(a @ c - b).max() < 1e-7:
            c = c.reshape(2, 4).T
            rows.append((given.library.weights @ (c != 0).sum(axis=1), losses(given, c).mean()))
    found = exactly(given, texts)
    # Other laws of the front are the best of their length in one of the equations.
    shown = staircase([(c.terms, c.loss) for c in found])
    np.testing.assert_allclose(shown, staircase(rows), rtol=1e-6)
    for c in found:
        own = given.library.coefficients(c.law).T.ravel()
        np.testing.assert_allclose(a @ own, b, atol=1e-9)


def epidemic():
    t = np.linspace(0, 30, 200)
    field = lambda _, s: [-0.6 * s[0] * s[1], 0.6 * s[0] * s[1] - 0.2 * s[1], 0.2 * s[1]]  # noqa: E731
    states = solve_ivp(field, (0, 30), [0.97, 0.03, 0.0], t_eval=t, rtol=1e-9, atol=1e-10).y.T
    return t, states + 0.004 * np.random.default_rng(5).normal(size=states.shape)


@pytest.mark.parametrize("backend", ["subset", "stlsq", "pysindy"])
def test_a_conserved_sum_is_conserved(backend):
    t, x = epidemic()
    library = ["1", "S", "I", "R", "S*I", "I*R"]
    front = sjepa.discover(
        x, t, feature_names=["S", "I", "R"], library=library, backend=backend,
        constraints=["S' + I' + R' = 0"],
    )  # fmt: skip
    for law in (c.law for c in front):
        assert abs(law(np.random.default_rng(0).random((20, 3))).sum(axis=1)).max() < 1e-12
    if backend == "subset":
        terms = [{str(t) for _, t in row} for row in front.best().terms]
        assert terms == [{"I*S"}, {"I*S", "I"}, {"I"}]
    assert "kept: S' + I' + R' = 0" in front.notes


def test_thresholded_least_squares_keeps_signs():
    given = problem(0, outputs=1)
    signs = [f"coef(x', {t}) <= 0" for t in TERMS]
    front = given.with_(constraints=signs).solve(make_backend("stlsq"))
    features, targets = given.feature_rows()
    best = minimize(
        lambda c: ((features @ c - targets[:, 0]) ** 2).mean(), np.zeros(4), bounds=[(None, 0)] * 4
    )
    assert min(c.loss for c in front) == pytest.approx(best.fun / targets.var(), rel=1e-4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("coef(x', z) = 1", "z"),
        ("coef(w', x) = 1", "no equation for 'w'"),
        ("coef(x', x**5) = 1", "not a term of the library"),
        ("coef(x', x) <= 1", "only the sign"),
        ("coef(x', x)**2 = 1", "not linear"),
        ("x' + y' = 1", "add up to 0"),
        ("coef(x' x) = 1", "takes an equation and a term"),
        ("coef(x', x)", "a constraint fixes"),
        ("1 = 1", "names no coefficient"),
        ("coef(x', __import__('os')) = 1", "Constraint"),
    ],
)
def test_what_is_not_a_constraint_is_refused(text, why):
    with pytest.raises(ConfigError, match=why) as caught:
        exactly(problem(0), [text])
    assert "\n" not in str(caught.value)


def test_contradictions_are_named():
    with pytest.raises(ConfigError, match="contradict"):
        exactly(problem(0), ["coef(x', x) = 1", "coef(x', x) = 2"])
    with pytest.raises(ConfigError, match="contradict"):
        exactly(problem(0), ["coef(x', x) = 1", "coef(x', x) <= 0"])


def test_backends_that_cannot_keep_constraints_are_refused_by_name():
    class Free(Backend):
        name = "free"

        def search(self, problem):
            raise AssertionError("never asked")

    with pytest.raises(ConfigError, match="free cannot keep constraints"):
        sjepa.discover(np.ones((50, 1)), 0.1, backend=Free(), constraints=["coef(x1', x1) = 1"])
    with pytest.raises(ConfigError, match="gplearn cannot keep constraints"):
        sjepa.discover(np.ones((50, 1)), 0.1, backend="gplearn", constraints=["coef(x1', x1) = 1"])


def test_constraints_on_the_command_line(tmp_path):
    t = np.arange(0, 12, 0.05)
    path = tmp_path / "data.csv"
    np.savetxt(
        path, np.stack([t, np.cos(t), -np.sin(t)], 1), delimiter=",", header="t,q,p", comments=""
    )
    done = run(
        "discover", path, "--time", "t", "--library", "q,p", "--constraints", "coef(q', p) = 1"
    )
    assert "q' = p\n" in done.stdout and "kept: coef(q', p) = 1" in done.stdout, done.stderr


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_signs_of_nearly_equal_columns_do_not_depend_on_units(unit):
    """Against bounded least squares on the rows themselves."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    x = np.column_stack([x, x[:, 0] + 1e-5 * rng.normal(size=60)])
    y = x @ np.array([2.0, -1.0, 0.5, 1.0])
    signs = np.array([1, -1, -1, 0])
    found = signed_solution(unit**2 * x.T @ x, unit**2 * x.T @ y, signs)
    bounds = (np.where(signs > 0, 0, -np.inf), np.where(signs < 0, 0, np.inf))
    expected = lsq_linear(x, y, bounds, tol=1e-14).x
    np.testing.assert_allclose(x @ found, x @ expected, atol=1e-6 * np.abs(y).max())
    assert (found * signs >= 0).all()


def test_an_equation_of_second_order_is_named_by_two_primes():
    t = np.arange(0, 10, 0.05)
    front = sjepa.discover(
        np.cos(2 * t)[:, None],
        t,
        order=2,
        library=["x1", "x1_dot"],
        constraints=["coef(x1'', x1) = -4"],
    )
    assert front.best().lines(4) == ["x1'' = -4*x1"]


# Equations of one energy --------------------------------------------------------------------------


def swings(law, starts, noise=0.02):
    rng, t = np.random.default_rng(0), np.arange(0, 20, 0.05)
    paths = [law.simulate(start, t).z for start in starts]
    return [x + noise * x.std(axis=0) * rng.normal(size=x.shape) for x in paths]


@pytest.mark.parametrize(
    "equations, pairs, starts",
    [
        (["p", "-sin(q)"], "q, p", [[1.0, 0.0], [2.0, 0.3]]),
        (["p + 0.3*q", "-q - 0.5*q**3 - 0.3*p"], "q, p", [[1.0, 0.0], [1.5, 0.3]]),
        (
            ["v", "-x - 2*x*y", "w", "-y - x**2 + y**2"], "x, v, y, w",
            [[0.3, 0.0, 0.0, 0.2], [0.1, 0.1, 0.3, -0.2]],
        ),
    ],
    ids=["pendulum", "with a mixed term", "Hénon-Heiles"],
)  # fmt: skip
def test_equations_of_one_energy_conserve_it(
    equations: list[str], pairs, starts: list[list[float]]
):
    names = pairs.split(", ")
    front = sjepa.discover(
        swings(Law.from_string(equations, names), starts), 0.05, feature_names=names,
        library=None if len(names) == 2 else sjepa.Library.polynomial(names, 2),
        constraints=[f"hamiltonian({pairs})"],
    )  # fmt: skip
    law = front.best()
    assert front.verdict is not None and front.verdict.adequate
    # The second derivatives of the energy that both equations of a pair imply are the same ones.
    z = np.random.default_rng(1).uniform(-1, 1, (100, len(names)))
    slopes = np.stack([
        [[float(v) for v in law.jacobian().subs(dict(zip(law.symbols, row, strict=True)))]]
        for row in z.tolist()
    ]).reshape(len(z), len(names), len(names))  # fmt: skip
    turn = np.kron(np.eye(len(names) // 2), np.array([[0, -1], [1, 0]]))
    hessian = turn @ slopes
    np.testing.assert_allclose(hessian, np.swapaxes(hessian, 1, 2), atol=1e-9)
    assert law.invariants()
    far = law.simulate(z[0] / 3, np.arange(0, 200, 0.5)).z
    energy = sympy.lambdify(law.symbols, law.invariants()[0])(*far.T)
    assert np.ptp(energy) < 1e-4 * (1 + np.abs(energy).max())


def test_energy_that_is_lost_is_not_explained_by_equations_that_conserve_it():
    damped = swings(Law.from_string(["p", "-sin(q) - 0.2*p"], ["q", "p"]), [[2.0, 0.0], [1.0, 1.0]])
    with pytest.warns(NumericalWarning):
        front = sjepa.discover(
            damped, 0.05, feature_names=["q", "p"], constraints=["hamiltonian(q, p)"]
        )
    assert front.verdict is not None and front.verdict.adequate is False


@pytest.mark.parametrize("names", ["q", "q, q", "q, v", "q, p, v", ""])
def test_an_energy_needs_pairs_of_states(names):
    x = swings(Law.from_string(["p", "-q"], ["q", "p"]), [[1.0, 0.0]])
    with pytest.raises(ConfigError):
        sjepa.discover(
            x, 0.05, feature_names=["q", "p"], constraints=[f"hamiltonian({names})"]
        )  # fmt: skip


def test_terms_of_an_absolute_value_have_an_energy():
    law = Law.from_string(["p", "-q*abs(q)"], ["q", "p"])
    front = sjepa.discover(
        swings(law, [[1.0, 0.0], [1.5, 0.3]], 0.0), 0.05, feature_names=["q", "p"],
        library=["q", "p", "q*abs(q)", "p*abs(p)", "q*abs(p)"], constraints=["hamiltonian(q, p)"],
    )  # fmt: skip
    assert front.best().round(3) == law
