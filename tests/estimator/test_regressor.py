"""``y = f(X)`` in scikit-learn's manner, whatever backend searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sympy
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from sjepa import Grammar, Library, SymbolicRegressor
from sjepa.errors import ConfigError, NumericalWarning, SjepaError
from sjepa.estimator.table_space import MAX_TERMS, default_library


RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 3.0, (150, 2))
SMALL_OPERON = {"name": "operon", "runs": 1, "generations": 3, "population": 60}


@pytest.mark.parametrize("backend", ["stlsq", "subset", pytest.param(SMALL_OPERON, id="operon")])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass(backend: Any) -> None:
    if backend is SMALL_OPERON:
        pytest.importorskip("pyoperon")
    results = check_estimator(
        SymbolicRegressor(backend, random_state=0), on_skip=None, on_fail=None
    )
    wrong = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not wrong and sum(r["status"] == "passed" for r in results) > 50


def test_names_come_from_the_frame_and_outputs_from_the_target() -> None:
    frame = pd.DataFrame(X, columns=["mass", "speed"])
    energy = 0.5 * frame["mass"] * frame["speed"] ** 2
    model = SymbolicRegressor("subset").fit(frame, energy.rename("energy"))
    assert model.law_.lines(4) == ["energy = 0.5*mass*speed**2"]
    # A formula for a quantity must not be called like one of its inputs.
    same = SymbolicRegressor("subset").fit(frame, energy.rename("mass"))
    assert same.law_.outputs == ("mass_out",)
    both = pd.DataFrame({"e": energy, "p": frame["mass"] * frame["speed"]})
    assert SymbolicRegressor("subset").fit(frame, both).law_.outputs == ("e", "p")


def test_several_outputs_keep_their_columns() -> None:
    y = np.stack([np.log(X[:, 0]), X[:, 0] * X[:, 1], 1 / X[:, 1]], axis=1)
    model = SymbolicRegressor("stlsq").fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-9)
    assert [str(e) for e in model.sympy()] == ["log(x1)", "x1*x2", "1/x2"]
    assert SymbolicRegressor("stlsq").fit(X, y[:, :1]).predict(X).shape == (150, 1)
    assert SymbolicRegressor("stlsq").fit(X, y[:, 0]).predict(X).shape == (150,)


def test_rows_without_weight_do_not_count() -> None:
    y = 2 * X[:, 0]
    weights = np.ones(150)
    spoilt = y.copy()
    spoilt[:50], weights[:50] = 99.0, 0.0
    model = SymbolicRegressor("subset").fit(X, spoilt, sample_weight=weights)
    assert model.law_.lines(4) == ["y = 2*x1"]


def test_the_table_and_every_way_to_write_a_row_agree() -> None:
    import torch

    y = X[:, 0] ** 2 + 0.3 * np.sin(X[:, 1])
    model = SymbolicRegressor("subset").fit(X, y)
    table = model.equations_
    assert table["chosen"].sum() == 1 and model.get_best()["equation"] == model.law_.lines(5)[0]
    for i in range(len(table)):
        run = sympy.lambdify(model.law_.symbols, model.sympy(i), "numpy")
        expected = np.broadcast_to(run(*X.T), 150)
        np.testing.assert_allclose(model.predict(X, index=i), expected)
        values = model.torch(i).double()(torch.from_numpy(X))
        np.testing.assert_allclose(values.detach().numpy()[:, 0], expected)
        # The table's loss is what predict leaves of the variance.
        left = np.mean((model.predict(X, index=i) - y) ** 2) / y.var()
        assert left == pytest.approx(table["loss"][i], rel=1e-6, abs=1e-12)
    assert "x_{2}" in model.latex() or "x2" in model.latex()


def test_a_report_is_written(tmp_path: Path) -> None:
    page = SymbolicRegressor().fit(X, X[:, 0]).report(tmp_path / "page.html").read_text()
    assert "<math>" in page and "SymbolicRegressor" in page


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_delta_takes_the_simplest_formula_that_is_good_enough() -> None:
    y = X[:, 0] ** 2 + 0.01 * np.sin(5 * X[:, 1])
    loose = SymbolicRegressor("subset", delta=0.2).fit(X, y).law_
    tight = SymbolicRegressor("subset", delta=1e-3).fit(X, y).law_
    assert loose.complexity("terms") < tight.complexity("terms")
    with pytest.warns(NumericalWarning, match="reaches a loss"):
        far = SymbolicRegressor("subset", library=["x2"], delta=1e-9).fit(X, y)
    assert far.law_ == far.front_.best()


def test_libraries_and_grammars_may_be_given() -> None:
    y = np.exp(-X[:, 0]) * X[:, 1]
    names = ["a", "b"]
    model = SymbolicRegressor(library=["a", "b*exp(-a)"], feature_names=names).fit(X, y)
    assert model.law_.lines(4) == ["y = b*exp(-a)"]
    library = Library.from_terms(["b*exp(-a)"], names)
    assert SymbolicRegressor(library=library, feature_names=names).fit(X, y).law_ == model.law_
    grammar = Grammar(["*", "exp"], ["x1", "x2"])
    with pytest.raises(ConfigError, match="not both"):
        SymbolicRegressor(library=["x1"], grammar=grammar).fit(X, y)
    with pytest.raises(ConfigError, match="3 names, X has 2 columns"):
        SymbolicRegressor(feature_names=["a", "b", "c"]).fit(X, y)


def test_the_default_library_stays_small_and_finite() -> None:
    wide = RNG.uniform(-1, 1, (400, 40))
    y = wide[:, 3] - 2 * wide[:, 30]
    model = SymbolicRegressor("stlsq").fit(wide, y)
    assert model.law_.lines(4) == ["y = -2*x31 + x4"]
    for rows, columns in ((400, 3), (400, 8), (400, 15), (20, 3)):
        table = RNG.uniform(1.0, 900.0, (rows, columns))  # exp overflows here
        fitted = SymbolicRegressor("stlsq").fit(table, table[:, 0] / 3)
        assert fitted.law_.lines(4) == ["y = 0.3333*x1"]
    sizes = {
        n: len(default_library([f"x{i}" for i in range(n)], X[:, [0] * n])) for n in range(1, 12)
    }
    assert max(sizes.values()) <= MAX_TERMS and sizes[2] > 20


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_settings_are_chosen_by_cross_validation() -> None:
    y = np.log(X[:, 0]) + X[:, 1]
    grid = {"library": [["x1", "x2"], ["log(x1)", "x2"]]}
    search = GridSearchCV(SymbolicRegressor(), grid, cv=3).fit(X, y)
    assert search.best_params_["library"] == ["log(x1)", "x2"]


def test_a_seed_is_drawn_and_kept() -> None:
    model = SymbolicRegressor(random_state=np.random.RandomState(3)).fit(X, X[:, 0])
    again = SymbolicRegressor(random_state=np.random.RandomState(3)).fit(X, X[:, 0])
    assert model.seed_ == again.seed_ != SymbolicRegressor(random_state=4).fit(X, X[:, 0]).seed_


def test_operon_finds_a_formula_outside_every_library() -> None:
    pytest.importorskip("pyoperon")
    y = X[:, 0] / (1 + X[:, 1] ** 2)
    model = SymbolicRegressor("operon", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.999


@pytest.mark.parametrize(
    ("X", "y", "weight"),
    [
        (np.ones(5), np.ones(5), None),
        (np.full((5, 2), np.nan), np.ones(5), None),
        (np.ones((5, 2)), np.ones(4), None),
        (np.empty((0, 2)), np.empty(0), None),
        ([["a", "b"], ["c", "d"]], [1.0, 2.0], None),
        (np.ones((5, 2)), np.ones(5), -np.ones(5)),
        (np.ones((5, 2)), np.ones(5), "a"),
        ("a", "b", None),
        (None, None, None),
        (scipy.sparse.eye(5), np.ones(5), None),
    ],
)
def test_data_that_scikit_learn_refuses_are_refused_in_our_classes(
    X: Any, y: Any, weight: Any
) -> None:
    with pytest.raises(SjepaError) as caught:
        SymbolicRegressor("subset").fit(X, y, weight)
    assert isinstance(caught.value, ValueError | TypeError)


def test_an_unfitted_regressor_says_so_in_both_classes() -> None:
    with pytest.raises(NotFittedError) as caught:
        SymbolicRegressor().predict(np.ones((3, 1)))
    assert isinstance(caught.value, SjepaError)
