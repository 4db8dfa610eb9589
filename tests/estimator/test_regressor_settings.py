"""What people type: operators by name, units, constraints, losses, selections, files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sjepa
from sjepa import Budget, SymbolicRegressor
from sjepa.errors import ConfigError, FormatError, LawError, NumericalWarning
from sjepa.estimator.table_search import TREE_SECONDS


RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 3.0, (150, 2))
SMALL: dict[str, Any] = {"name": "operon", "runs": 1, "generations": 3, "population": 100}


def test_operators_by_name_are_all_that_is_written() -> None:
    y = X[:, 0] * X[:, 1] - 2 * X[:, 1]
    for given in (
        {"operators": ["+", "-", "*"]},
        {"binary_operators": ["+", "-", "*"]},
        {"binary_operators": ["plus", "sub", "mult"], "unary_operators": ["sin"]},
    ):
        model = SymbolicRegressor(SMALL, random_state=0, **given).fit(X, y)  # type: ignore[arg-type]
        text = " ".join(model.equations_["equation"])
        assert "exp" not in text and "/" not in text
    model = SymbolicRegressor(operators=["+", "*"], random_state=0).fit(X, y)
    assert model.law_.lines(4) == ["y = x1*x2 - 2*x2"]


def test_operators_that_are_misspelt_or_given_twice_are_refused_by_name() -> None:
    y = X[:, 0]
    with pytest.raises(LawError, match="Did you mean"):
        SymbolicRegressor(operators=["+", "sine"]).fit(X, y)
    with pytest.raises(ConfigError, match="another number of arguments"):
        SymbolicRegressor(unary_operators=["+"]).fit(X, y)
    with pytest.raises(ConfigError, match="not both"):
        SymbolicRegressor(operators=["+"], unary_operators=["sin"]).fit(X, y)
    with pytest.raises(ConfigError, match="library or operators, not both"):
        SymbolicRegressor(operators=["+"], library=["x1"]).fit(X, y)
    with pytest.raises(ConfigError, match="list of names"):
        SymbolicRegressor(operators="+").fit(X, y)


def test_terms_with_free_parameters_are_searched() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (200, 2))
    y = x[:, 0] * np.sin(2.3 * x[:, 1]) + 0.5
    model = SymbolicRegressor("subset", library=["1", "x1*sin(k*x2)"]).fit(x, y)
    assert model.law_.lines(4) == ["y = x1*sin(2.3*x2) + 0.5"]
    # Without any other term.
    model = SymbolicRegressor("subset", library=["x1*sin(k*x2)"]).fit(x, y - 0.5)
    assert model.law_.lines(4) == ["y = x1*sin(2.3*x2)"]


def test_the_extended_library_has_saturation() -> None:
    y = 3 * X[:, 0] / (0.7 + X[:, 0])
    model = SymbolicRegressor("subset", library="wide").fit(X, y)
    assert model.score(X, y) > 1 - 1e-9 and len(model.law_.coefficients) == 2
    with pytest.raises(ConfigError, match="'wide'"):
        SymbolicRegressor(library="large").fit(X, y)
    with pytest.raises(ConfigError, match="combine terms"):
        SymbolicRegressor(SMALL, library="wide").fit(X, y)


def test_units_leave_out_what_cannot_be() -> None:
    pytest.importorskip("pint")
    frame = pd.DataFrame(X, columns=["mass", "speed"])
    y = (0.5 * frame["mass"] * frame["speed"] ** 2).rename("energy")
    units = {"mass": "kg", "speed": "m/s", "energy": "J"}
    model = SymbolicRegressor(units=units).fit(frame, y)
    assert model.law_.lines(4) == ["energy = 0.5*mass*speed**2"]
    assert "sin" not in " ".join(model.equations_["equation"])
    with pytest.raises(ConfigError, match="units lacks energy"):
        SymbolicRegressor(units={"mass": "kg", "speed": "m/s"}).fit(frame, y)


def test_constraints_hold_and_name_the_target() -> None:
    y = 2 * X[:, 0] + 0.3 * X[:, 1] + 0.01 * RNG.normal(size=150)
    model = SymbolicRegressor("subset", library=["x1", "x2"], constraints=["coef(y, x1) = 1.9"])
    assert str(model.fit(X, y).law_.sympy()[0].coeff("x1")) != "2"
    assert dict((str(t), c) for c, t in model.law_.terms[0])["x1"] == pytest.approx(1.9)


@pytest.mark.parametrize("loss", ["huber", "absolute"])
def test_outliers_do_not_bend_a_robust_fit(loss: str) -> None:
    rng = np.random.default_rng(2)
    y = 2 * X[:, 0] * X[:, 1] + 1 + 0.01 * rng.normal(size=150)
    y[::10] += 30 * rng.normal(size=15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        squared = SymbolicRegressor("subset").fit(X, y)
        robust = SymbolicRegressor("subset", loss=loss).fit(X, y)
    terms = {str(t): c for c, t in robust.law_.terms[0]}
    assert terms == {"1": pytest.approx(1, abs=0.02), "x1*x2": pytest.approx(2, abs=0.01)}
    assert squared.law_ != robust.law_
    with pytest.raises(ConfigError, match="loss is one of"):
        SymbolicRegressor(loss="l3").fit(X, y)


def test_each_selection_takes_its_row() -> None:
    y = X[:, 0] ** 2 + 0.2 * X[:, 1] + 0.05 * RNG.normal(size=150)
    fitted = {s: SymbolicRegressor("subset", model_selection=s).fit(X, y) for s in
              ("best", "accuracy", "score")}  # fmt: skip
    table = fitted["best"].equations_
    assert fitted["accuracy"].get_best()["loss"] == table["loss"].min()
    assert fitted["score"].get_best()["score"] == table["score"].max()
    assert fitted["best"].law_ == fitted["best"].front_.best()
    with pytest.raises(ConfigError, match="model_selection is one of"):
        SymbolicRegressor(model_selection="bets").fit(X, y)


def test_print_shows_the_equations_and_repr_the_settings() -> None:
    model = SymbolicRegressor("subset")
    assert str(model) == repr(model) == "SymbolicRegressor(backend='subset')"
    model.fit(X, 2 * X[:, 0])
    assert "y = 2*x1" in str(model) and str(model) == repr(model.equations_)
    assert repr(model) == "SymbolicRegressor(backend='subset')"


def test_print_leaves_out_rows_far_beyond_the_chosen_one() -> None:
    noisy = X[:, 0] + 0.1 * np.random.default_rng(5).normal(size=len(X))
    model = SymbolicRegressor("subset").fit(X, noisy)
    rows = model.equations_["equation"].tolist()
    chosen = int(np.argmax(model.equations_["chosen"]))
    assert len(rows) > chosen + 3
    assert all(text in str(model) for text in rows[: chosen + 1])
    assert str(len(rows) - chosen - 3) in str(model).splitlines()[-1]


def test_a_budget_is_cpu_time_and_trees_have_one_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sjepa.backend import Backend, Problem

    seen: list[Budget] = []

    class Trees(Backend):
        name, trees = "trees", True

        def search(self, problem: Problem) -> Any:
            seen.append(problem.budget)
            return problem.front(
                [sjepa.Law.from_string("x1", problem.names, ["y"], "discrete")], "trees"
            )

    y = X[:, 0]
    for budget in (None, 5, Budget(7), Budget(iterations=3)):
        SymbolicRegressor(Trees, budget=budget).fit(X, y)
    cpu = [(b.seconds, b.iterations, b.cpu) for b in seen]
    assert cpu == [(TREE_SECONDS, None, True), (5, None, True), (7, None, False), (None, 3, False)]


def test_folds_with_a_delta_out_of_reach_take_the_best_and_warn() -> None:
    y = X[:, 0] + 0.1 * RNG.normal(size=150)
    with pytest.warns(NumericalWarning, match="The best law is taken"):
        search = GridSearchCV(SymbolicRegressor("subset"), {"delta": [1e-9, 0.5]}, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_verbose_writes_lines(capsys: pytest.CaptureFixture[str]) -> None:
    SymbolicRegressor(SMALL, verbose=True, random_state=0).fit(X, X[:, 0])
    assert "operon" in capsys.readouterr().err
    SymbolicRegressor(SMALL, verbose=False, random_state=0).fit(X, X[:, 0])
    assert capsys.readouterr().err == ""


def test_a_saved_regressor_comes_back(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    library = sjepa.Library.from_terms(["a", "a*b"], ["a", "b"])
    model = SymbolicRegressor("subset", library=library, delta=0.1).fit(frame, X[:, 0] * X[:, 1])
    model.save(tmp_path / "m")
    again = sjepa.load(tmp_path / "m")
    assert again.law_ == model.law_ and again.front_ == model.front_
    assert again.verdict_ == model.verdict_ and again.seed_ == model.seed_
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert clone(again).fit(frame, X[:, 0] * X[:, 1]).law_ == model.law_
    file = tmp_path / "m" / "regressor.json"
    for key, value in (("settings", []), ("n_features_in", 3), ("single", 1), ("front", None)):
        data = json.loads(file.read_text())
        file.write_text(json.dumps(data | {key: value}))
        with pytest.raises(FormatError):
            sjepa.load(tmp_path / "m")
        file.write_text(json.dumps(data))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(FormatError, match="something else"):
        model.save(tmp_path / "other")


def test_the_page_shows_measured_against_predicted(tmp_path: Path) -> None:
    from sjepa.report import write_report

    y = np.stack([X[:, 0] * X[:, 1], X[:, 1] + 0.1 * RNG.normal(size=150)], axis=1)
    model = SymbolicRegressor("subset").fit(X, y)
    page = model.report(tmp_path / "page.html", X, y).read_text()
    assert "Measured against predicted" in page and "Residuals against" in page
    assert page.count("as measured against") == 2 and "R² on the rows shown" in page
    assert "model.fit(X, y)" in page and "next values" not in page
    assert "Measured against" not in model.report(tmp_path / "bare.html").read_text()
    front = write_report(model.front_, tmp_path / "front.html", X, y).read_text()
    assert "Measured against predicted" in front
    with pytest.raises(sjepa.errors.DataError, match="needs y"):
        model.report(tmp_path / "page.html", X)
    with pytest.raises(sjepa.errors.DataError, match="rows"):
        model.report(tmp_path / "page.html", X, y[:-1])


def test_searches_start_from_guesses() -> None:
    pytest.importorskip("pyoperon")
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (150, 3))
    y = np.sin(1.7 * x[:, 0] * x[:, 1]) / (1.3 + np.cos(x[:, 2]))
    tiny = {"name": "operon", "runs": 1, "generations": 1, "population": 20}
    guess = "sin(1.5*x1*x2)/(1.2 + cos(x3))"
    grammar = sjepa.Grammar(["+", "*", "/", "sin", "cos"], ["x1", "x2", "x3"])
    alone = SymbolicRegressor(tiny, grammar=grammar, random_state=0).fit(x, y)
    helped = SymbolicRegressor(tiny, grammar=grammar, guesses=[guess], random_state=0).fit(x, y)
    assert alone.score(x, y) < 0.9 < 1 - 1e-9 < helped.score(x, y)
    # A library takes a guess in its own terms, and is not stopped by others.
    model = SymbolicRegressor("stlsq", guesses=["x1*x2", guess]).fit(x, 2 * x[:, 0] * x[:, 1])
    assert model.law_.lines(4) == ["y = 2*x1*x2"]


def test_guesses_are_read_and_not_run() -> None:
    both = np.stack([X[:, 0], X[:, 1]], axis=1)
    model = SymbolicRegressor("subset", guesses=[["x1", "x2"]]).fit(X, both)
    assert model.score(X, both) > 1 - 1e-12
    with pytest.raises(ConfigError, match="each of y1, y2"):
        SymbolicRegressor("subset", guesses=["x1"]).fit(X, both)
    with pytest.raises(ConfigError, match="list of formulas"):
        SymbolicRegressor("subset", guesses="x1").fit(X, X[:, 0])
    for text in ("x9 + 1", "__import__('os')", "x1 +"):
        with pytest.raises(sjepa.errors.SjepaError):
            SymbolicRegressor("subset", guesses=[text]).fit(X, X[:, 0])


def test_a_grammar_takes_the_names_of_the_data() -> None:
    pytest.importorskip("pyoperon")
    grammar = sjepa.Grammar(["+", "*", "sin"], nested={"sin": {"sin": 0}})
    tiny = {"name": "operon", "runs": 1, "generations": 5}
    y = X[:, 0] * X[:, 1]
    model = SymbolicRegressor(tiny, grammar=grammar, random_state=0).fit(X, y)
    assert model.law_.lines(4) == ["y = x1*x2"]
    t = np.arange(0, 5, 0.05)
    front = sjepa.discover(
        np.stack([np.cos(t), -np.sin(t)], axis=1), t, feature_names=["q", "p"], grammar=grammar,
        backend=tiny,
    )  # fmt: skip
    assert front.best().lines(3) == ["q' = p", "p' = -q"]
