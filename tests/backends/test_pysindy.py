"""PySINDy beyond the common contract: its optimizers, its units, its weak form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sjepa.backend import Budget, Problem
from sjepa.errors import BackendError, BackendUnavailable, ConfigError, DataError
from sjepa.symbolic import Law, Library
from sjepa.symbolic.text import to_text


ps = pytest.importorskip("pysindy")

from sjepa_backends.pysindy import PySINDy, path  # noqa: E402


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
def test_every_optimizer_finds_the_drag_pendulum(optimizer: str, noise: float) -> None:
    assert used(PySINDy(optimizer).search(drag(noise=noise)).best()) == DRAG


def test_a_threshold_means_what_it_means_in_pysindy() -> None:
    problem = drag(noise=0.05)
    theta = LIBRARY.numpy()(problem.inputs)
    own = ps.STLSQ(threshold=0.2, alpha=0.05).fit(theta, problem.targets)
    front = PySINDy(options={"threshold": 0.2, "alpha": 0.05}).search(problem)
    longest = LIBRARY.coefficients(front[len(front) - 1].law).T
    # PySINDy unbiases on the rows, we on their sums: rounding of the normal equations.
    np.testing.assert_allclose(longest, own.coef_, rtol=1e-7, atol=1e-12)


def test_without_debias_the_coefficients_are_the_optimizers() -> None:
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
    backend = PySINDy(ensemble={"bagging": True, "n_models": 5}, path=(0.05, 0.2))
    problem = drag(noise=0.1, seed=4)
    np.random.seed(1)
    before = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    first, second = backend.search(problem), backend.search(problem)
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


def test_misspelled_options_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"STLSQ has no argument 'treshold'.*'threshold'"):
        PySINDy(options={"treshold": 0.1}).search(drag())
    with pytest.raises(ConfigError, match="EnsembleOptimizer has no argument 'models'"):
        PySINDy(ensemble={"models": 3}).search(drag())


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ps.optimizers, "ConstrainedSR3", raising=False)
    with pytest.raises(BackendUnavailable, match=r"pip install 'pysindy\[cvxpy\]'"):
        PySINDy("ConstrainedSR3").search(drag())


def test_a_failing_optimizer_is_reported() -> None:
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
    backend = PySINDy("ConstrainedSR3", constraint)
    assert backend == PySINDy("ConstrainedSR3", constraint)
    z = np.random.default_rng(0).normal(size=(300, 2))
    front = backend.search(Problem(z, np.stack([z[:, 1], -1.2 * z[:, 0]], axis=1), library=library))
    found = library.coefficients(front[len(front) - 1].law)
    assert found[2, 0] == pytest.approx(-found[1, 1], rel=1e-3)


def test_a_used_up_budget_leaves_what_was_found() -> None:
    front = PySINDy().search(drag(budget=Budget(seconds=1e-9)))
    assert len(front) and "out of time after 0 of 21" in front.notes[0]
