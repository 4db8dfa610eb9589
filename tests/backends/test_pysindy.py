"""PySINDy beyond the common contract: its optimisers, its units, its weak form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sjepa.backend import Budget, Problem
from sjepa.errors import BackendError, BackendUnavailable, ConfigError, DataError
from sjepa.symbolic import Law, Library
from sjepa.symbolic.text import to_text


ps = pytest.importorskip("pysindy")

from sjepa_backends import _pysindy_path as path  # noqa: E402
from sjepa_backends.pysindy import PySINDy  # noqa: E402


LIBRARY = Library.from_terms(
    ["1", "q", "p", "sin(q)", "sin(p)", "cos(q)", "q**2", "p**2", "p*Abs(p)", "q*p"], ["q", "p"]
)


def drag(n: int = 400, noise: float = 0.0, **changes: Any) -> Problem:
    rng = np.random.default_rng(0)
    z = rng.uniform(-2.0, 2.0, (n, 2))
    q, p = z.T
    dz = np.stack([p, -np.sin(q) - 0.4 * p * np.abs(p)], axis=1)
    dz = dz + noise * rng.normal(size=dz.shape)
    return Problem(**{"inputs": z, "targets": dz, "library": LIBRARY, **changes})


def used(law: Law) -> list[set[str]]:
    return [{to_text(t) for _, t in pairs} for pairs in law.terms]


DRAG = [{"p"}, {"sin(q)", "p*Abs(p)"}]


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("optimizer", ["STLSQ", "SR3", "SSR", "FROLS"])
def test_every_optimiser_finds_the_drag_pendulum(optimizer: str, noise: float) -> None:
    assert used(PySINDy(optimizer).search(drag(noise=noise)).best()) == DRAG


def test_a_threshold_means_what_it_means_in_pysindy() -> None:
    problem = drag(noise=0.05)
    theta = LIBRARY.numpy()(problem.inputs)
    own = ps.STLSQ(threshold=0.2, alpha=0.05).fit(theta, problem.targets)
    front = PySINDy(options={"threshold": 0.2, "alpha": 0.05}).search(problem)
    longest = LIBRARY.coefficients(front[len(front) - 1].law).T
    # PySINDy unbiases on the rows, we on their sums: rounding of the normal equations.
    np.testing.assert_allclose(longest, own.coef_, rtol=1e-7, atol=1e-12)


def test_without_debias_the_coefficients_are_the_optimisers() -> None:
    problem = drag(noise=0.05)
    options = {"alpha": 50.0, "unbias": False, "threshold": 0.1}
    own = ps.STLSQ(**options).fit(LIBRARY.numpy()(problem.inputs), problem.targets)
    front = PySINDy(options=options, debias=False).search(problem)
    longest = LIBRARY.coefficients(front[len(front) - 1].law).T
    np.testing.assert_allclose(longest, own.coef_, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e-4])
def test_the_default_path_does_not_depend_on_units(scale: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.uniform(-2.0, 2.0, (400, 2))
    dz = np.stack([z[:, 1], -z[:, 0]], axis=1) + 0.02 * rng.normal(size=z.shape)
    problem = Problem(z * scale, dz * 1e-3, library=Library.polynomial(["q", "p"], 3))
    assert used(PySINDy().search(problem).best()) == [{"p"}, {"q"}]


def test_ensembles_repeat_and_leave_the_global_generator_alone() -> None:
    engine = PySINDy(ensemble={"bagging": True, "n_models": 5}, path=(0.05, 0.2))
    problem = drag(noise=0.1, seed=4)
    np.random.seed(1)
    before = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    first, second = engine.search(problem), engine.search(problem)
    assert [c.law for c in first] == [c.law for c in second]
    assert used(first.best()) == DRAG
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # type: ignore[index]


def test_fewer_rows_with_the_same_sums() -> None:
    rng = np.random.default_rng(0)
    theta, y = rng.normal(size=(500, 7)), rng.normal(size=(500, 2))
    a, b = path.compressed(theta, y)
    assert len(a) == 9
    np.testing.assert_allclose(a.T @ a, theta.T @ theta, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(a.T @ b, theta.T @ y, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "STLQS"}, "Did you mean 'STLSQ'"),
        ({"optimizer": "sr3"}, "Did you mean 'SR3'"),
        ({"optimizer": "SSR", "path": [0.1]}, "SSR"),
        ({"path": []}, "at least one"),
    ],
)
def test_settings_are_checked_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PySINDy(**settings)


def test_misspelt_options_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"STLSQ has no argument 'treshold'.*'threshold'"):
        PySINDy(options={"treshold": 0.1}).search(drag())
    with pytest.raises(ConfigError, match="EnsembleOptimizer has no argument 'models'"):
        PySINDy(ensemble={"models": 3}).search(drag())


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ps.optimizers, "ConstrainedSR3", raising=False)
    with pytest.raises(BackendUnavailable, match=r"pip install 'pysindy\[cvxpy\]'"):
        PySINDy("ConstrainedSR3").search(drag())


def test_a_failing_optimiser_is_reported() -> None:
    with pytest.raises(BackendError, match="pysindy: STLSQ failed: alpha cannot be negative"):
        PySINDy(options={"alpha": -1.0}).search(drag())


def test_sums_alone_are_not_enough() -> None:
    problem = drag()
    with pytest.raises(DataError, match="row by row|rows themselves"):
        PySINDy().search(Problem(library=LIBRARY, gram=problem.sums))


def test_constraints_and_masks_exclude_each_other() -> None:
    masked = LIBRARY.with_mask({"q": ["p"]})
    with pytest.raises(ConfigError, match="cannot keep a mask"):
        PySINDy("ConstrainedSR3").search(drag(library=masked))


def test_constraints_hold_in_the_result() -> None:
    pytest.importorskip("cvxpy")
    library = Library.polynomial(["q", "p"], 1)
    left = np.zeros((1, 6))
    left[0, 2] = left[0, 4] = 1.0  # the coefficient of p in q' is minus that of q in p'
    constraint = {"constraint_lhs": left, "constraint_rhs": [0.0], "equality_constraints": True}
    engine = PySINDy("ConstrainedSR3", constraint)
    assert engine == PySINDy("ConstrainedSR3", constraint)
    z = np.random.default_rng(0).normal(size=(300, 2))
    front = engine.search(Problem(z, np.stack([z[:, 1], -1.2 * z[:, 0]], axis=1), library=library))
    found = library.coefficients(front[len(front) - 1].law)
    assert found[2, 0] == pytest.approx(-found[1, 1], rel=1e-3)


def test_a_used_up_budget_leaves_what_was_found() -> None:
    front = PySINDy().search(drag(budget=Budget(seconds=1e-9)))
    assert len(front) and "out of time after 0 of 21" in front.notes[0]


def cubic_oscillator(noise: float) -> tuple[list[np.ndarray], np.ndarray]:
    def field(_: float, z: np.ndarray) -> list[float]:
        return [-0.1 * z[0] ** 3 + 2 * z[1] ** 3, -2 * z[0] ** 3 - 0.1 * z[1] ** 3]

    t = np.linspace(0.0, 10.0, 2001)
    rng = np.random.default_rng(0)
    runs = [
        solve_ivp(field, (0.0, 10.0), z0, t_eval=t, rtol=1e-9, atol=1e-9).y.T
        for z0 in ([2.0, 0.0], [0.0, 1.5], [1.0, -1.0])
    ]
    return [x + noise * x.std(axis=0) * rng.normal(size=x.shape) for x in runs], t


@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_the_weak_form_reads_through_noise_that_defeats_differences(noise: float) -> None:
    runs, t = cubic_oscillator(noise)
    library = Library.polynomial(["x", "y"], 3)
    law = PySINDy().weak_front(runs, [t] * 3, library).best()
    assert used(law) == [{"x**3", "y**3"}, {"x**3", "y**3"}]
    # At 5 % noise the coefficients scatter by about 0.01 over seeds; three times that.
    truth = np.array([[-0.1, -2.0], [2.0, -0.1]])
    found = library.coefficients(law)[[library.names.index(n) for n in ("x**3", "y**3")]]
    np.testing.assert_allclose(found, truth, atol=0.03)
    slopes = np.vstack([np.gradient(x, t, axis=0) for x in runs])
    pointwise = PySINDy().search(Problem(np.vstack(runs), slopes, library=library)).best()
    assert used(pointwise) == [{"y**3"}, {"x**3"}]  # the damping drowns in the noise


def test_the_weak_form_takes_actions_and_unequal_trajectories() -> None:
    rng = np.random.default_rng(0)
    runs, times, actions = [], [], []
    for n in (600, 900):
        t = np.sort(rng.uniform(0.0, n / 50, n))
        # x' = -x + 2 u with u = sin t has this solution.
        runs.append((np.sin(t) - np.cos(t) + 2 * np.exp(-t))[:, None])
        times.append(t)
        actions.append(np.sin(t))
    library = Library.polynomial(["x", "u"], 2)
    law = PySINDy().weak_front(runs, times, library, u=actions, half_width=1.0).best()
    assert law.equivalent(Law.from_string("2*u - x", ["x", "u"]), tolerance=0.01)


def test_the_weak_form_says_what_is_wrong() -> None:
    library = Library.polynomial(["x"], 2)
    t = np.linspace(0.0, 1.0, 50)
    x = np.exp(t)[:, None]
    with pytest.raises(DataError, match="Trajectory 1: x contains"):
        PySINDy().weak_front([x, x * np.nan], [t, t], library)
    with pytest.raises(DataError, match="increasing times"):
        PySINDy().weak_front(x, t[::-1].copy(), library)
    with pytest.raises(DataError, match="2 columns for the inputs x"):
        PySINDy().weak_front(np.hstack([x, x]), t, library)
    with pytest.raises(ConfigError, match="larger than the corresponding grid"):
        PySINDy().weak_front(x, t, library, half_width=3.0)
