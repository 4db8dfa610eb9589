"""The default search of a table: nothing in noise, and more than terms where terms do not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sjepa import SymbolicRegressor
from sjepa.backend import Backend, Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.symbolic import Front


def _fit(x: np.ndarray, y: np.ndarray, **settings: Any) -> SymbolicRegressor:
    return SymbolicRegressor(random_state=0, **settings).fit(x, y)


@pytest.mark.parametrize("columns", [3, 12])
@pytest.mark.parametrize("seed", range(4))
def test_noise_is_a_constant_and_said_to_be(columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = _fit(rng.uniform(-2, 2, (400, columns)), rng.normal(size=400) + 1)
    assert not model.sympy().free_symbols and model.verdict_ is not None  # type: ignore[union-attr]
    assert model.verdict_.adequate is None


@pytest.mark.parametrize(("rows", "columns"), [(629, 6), (80, 8), (400, 20)])
def test_trees_are_not_searched_where_no_column_has_an_effect(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows)
    model = _fit(rng.normal(size=(rows, columns)), rng.normal(size=rows))
    assert not model.sympy().free_symbols  # type: ignore[union-attr]
    assert set(model.equations_["backend"]) <= {"subset", "stlsq"}
    assert model.verdict_ is not None and model.verdict_.adequate is None
    assert "No structure was found" in model.verdict_.reasons[0]


def test_noise_does_not_make_terms_that_cancel() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (60, 3))
    y = 2 * x[:, 0] * x[:, 1] + x[:, 2]
    model = _fit(x, y + 0.3 * y.std() * rng.normal(size=60))
    assert [str(t) for _, t in model.law_.terms[0]] == ["x3", "x1*x2"]


@pytest.mark.parametrize(("rows", "reach"), [(200, 2), (1000, 3)])
def test_a_frequency_inside_a_product_is_found_by_trees(rows: int, reach: float) -> None:
    pytest.importorskip("pyoperon")
    rng = np.random.default_rng(0)
    x = rng.uniform(-reach, reach, (rows, 2))
    model = _fit(x, x[:, 0] * np.sin(2.3 * x[:, 1]))
    assert model.law_.lines(4) == ["y = x1*sin(2.3*x2)"]
    assert model.verdict_ is not None and model.verdict_.adequate
    assert model.get_best()["backend"] == "operon"


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
@pytest.mark.parametrize("rows", [200, 1000])
def test_products_are_searched_among_many_columns(rows: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (rows, 30))
    model = _fit(x, x[:, 3] * x[:, 7] + 2 * x[:, 11])
    assert model.law_.lines(4) == ["y = 2*x12 + x4*x8"]
    assert len(model.law_.inputs) == 30 and model.score(x, model.predict(x)) == 1.0
    assert "only x4, x8, x12" in model.front_.notes[0]
    # Trees of a named backend are searched in the same few columns.
    small = {"name": "operon", "runs": 1, "generations": 3, "population": 100}
    trees = _fit(x, x[:, 3] * x[:, 7] + 2 * x[:, 11], backend=small)
    used = {str(s) for c in trees.front_ for s in c.law.expressions[0].free_symbols}
    assert used <= {"x4", "x8", "x12"} and trees.predict(x).shape == (rows,)


@pytest.mark.parametrize("seed", [1, 2])
def test_whole_exponents_are_compared_with_those_that_were_fitted(seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    x = rng.uniform(1, 5, (300, 2))
    y = x[:, 0] / x[:, 1]
    verdict = _fit(x, y + 0.1 * y.std() * rng.normal(size=300)).verdict_
    assert verdict is not None
    laws = [verdict.law, *(rival.law for rival in verdict.rivals)]
    assert ["x1/x2"] in [[str(t) for _, t in law.terms[0]] for law in laws]


class _UntilTheEnd(Backend):
    """Finds what stlsq finds, and takes all the time there is."""

    name = "slow"

    def search(self, problem: Problem) -> Front:
        end = problem.deadline()
        front = make_backend("stlsq").search(problem.with_(budget=Budget()))
        while problem.clock() < end:
            pass
        return front


def test_the_laws_of_a_table_are_compared_even_when_the_time_is_up() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 2, (400, 3))
    y = 3 * x[:, 0] + x[:, 1] + 1.5 * rng.normal(size=400)
    model = _fit(x, y, backend=_UntilTheEnd(), budget=0.05)
    assert model.verdict_ is not None and model.verdict_.figures["laws_compared"] > 3
    assert model.law_.complexity("terms") < 10
    assert not any("failed" in note for note in model.front_.notes)


def test_terms_that_do_take_no_time_for_trees() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (200, 2))
    model = _fit(x, x[:, 0] ** 2 + 3 * x[:, 1])
    assert set(model.equations_["backend"]) == {"subset"}


def test_without_operon_the_front_says_that_trees_were_not_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sjepa.estimator.table_search.available_backends", dict)
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (200, 2))
    model = _fit(x, x[:, 0] * np.sin(2.3 * x[:, 1]))
    assert any("trees were not searched" in note for note in model.front_.notes)


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_trees_are_searched_where_terms_do_not_reach_delta() -> None:
    pytest.importorskip("pyoperon")
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 3, (200, 2))
    y = x[:, 0] / (1 + x[:, 1] ** 2)
    model = _fit(x, y, delta=1e-9)
    assert model.get_best()["loss"] <= 1e-9 and model.get_best()["backend"] == "operon"
    loose = _fit(x, y, delta=0.2)
    assert set(loose.equations_["backend"]) == {"subset"}
