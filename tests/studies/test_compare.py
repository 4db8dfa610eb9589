"""Backends on one's own data: equal budgets, scores on data left out, failures as rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sjepa
from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError, DataError
from sjepa.studies.compare import Comparison


RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (120, 2))
Y = 2 * X[:, 0] * X[:, 1] + X[:, 1]
T = np.arange(0, 12, 0.02)
SWING = [a * np.stack([np.cos(2 * T), -2 * np.sin(2 * T)], axis=1) for a in (0.5, 1.0, 1.5)]


class Broken(Backend):
    name = "broken"

    def search(self, problem: Problem) -> Any:
        raise RuntimeError("no luck\ntoday")


class Constant(Backend):
    name = "constant"
    budgets: list[Any] = []  # noqa: RUF012  (what every search was given)

    def search(self, problem: Problem) -> Any:
        Constant.budgets.append(problem.budget)
        library = problem.candidate_library
        law = library.law(np.zeros((len(library), 1)), problem.outputs, problem.dynamics)
        return problem.front([law], "constant")


def test_backends_that_agree_are_told_from_one_that_does_not() -> None:
    found = sjepa.compare(X, Y, backends=["stlsq", "subset", Broken, "nosuch"], budget=5)
    table = found.to_frame().set_index("backend")
    assert list(table.index[:2]) in (["stlsq", "subset"], ["subset", "stlsq"])
    for name in ("stlsq", "subset"):
        row = table.loc[name]
        assert row["equation"] == "y = 2*x1*x2 + x2" and row["score"] == pytest.approx(1.0)
        assert row["agreement"] == row["stability"] == 1.0 and row["verdict"] == "adequate"
        assert 0 < row["seconds"] < 5 and row["error"] == ""
    assert "no luck" in table.loc["Broken" if "Broken" in table.index else "broken", "error"]
    assert "No backend is called 'nosuch'" in table.loc["nosuch", "error"]
    assert found.best().lines(4) == ["y = 2*x1*x2 + x2"]
    assert "subset" in repr(found)


def test_the_score_is_of_rows_that_were_left_out() -> None:
    y = Y + 0.5 * RNG.normal(size=120)
    found = sjepa.compare(X, y, backends=["subset"], cv=4)
    (entry,) = found.entries
    assert len(entry.scores) == len(entry.laws) == 4
    from sklearn.model_selection import KFold, cross_val_score

    model = sjepa.SymbolicRegressor("subset", random_state=0)
    folds = KFold(4, shuffle=True, random_state=0)
    np.testing.assert_allclose(entry.scores, cross_val_score(model, X, y, cv=folds))


def test_every_search_has_the_same_cpu_budget() -> None:
    Constant.budgets.clear()
    sjepa.compare(X, Y, backends=[Constant(), Constant()], budget=3.0, cv=2, library=["x1"])
    assert len(Constant.budgets) == 6
    assert {(b.seconds, b.cpu) for b in Constant.budgets} == {(3.0, True)}


def test_names_of_frames_reach_the_laws_and_settings_every_backend() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    found = sjepa.compare(
        frame, pd.Series(Y, name="c"), backends=["stlsq", {"name": "stlsq", "threshold": 0.3}],
        library=["b", "a*b"],
    )  # fmt: skip
    table = found.to_frame()
    assert set(table["backend"]) == {"stlsq", "stlsq(threshold=0.3)"}
    assert set(table["equation"]) == {"c = 2*a*b + b"}


def test_trajectories_are_left_out_whole_or_in_parts() -> None:
    many = sjepa.compare(SWING, t=T, backends=["stlsq", "subset"], feature_names=["q", "p"])
    one = sjepa.compare(SWING[0], t=T, backends=["stlsq"], feature_names=["q", "p"])
    for found in (many, one):
        table = found.to_frame()
        assert set(table["equation"]) == {"q' = p; p' = -4*q"}
        assert (table["score"] > 0.9999).all() and (table["stability"] == 1).all()
    with pytest.raises(DataError, match="too few"):
        raise _cut_error()


def _cut_error() -> DataError:
    found = sjepa.compare(SWING[0][:40], t=0.02, backends=["stlsq"])
    return DataError(found.to_frame()["error"][0])


def test_workers_give_what_one_process_gives() -> None:
    alone = sjepa.compare(X, Y, backends=["stlsq", "subset"]).to_frame()
    both = sjepa.compare(X, Y, backends=["stlsq", "subset"], workers=2).to_frame()
    pd.testing.assert_frame_equal(alone.drop(columns="seconds"), both.drop(columns="seconds"))


def test_the_page_has_the_table_and_every_front(tmp_path: Path) -> None:
    found = sjepa.compare(X, Y, backends=["stlsq", "subset", Broken], budget=5)
    page = found.report(tmp_path / "page.html").read_text()
    assert "no luck" in page and page.count("<math") >= 2 and "Pareto fronts of" in page
    assert "<script" not in page and "120 rows of 2 columns" in page
    with pytest.raises(DataError, match="does not exist"):
        found.report(tmp_path / "none" / "page.html")
    failed = sjepa.compare(X, Y, backends=["nosuch"])
    assert isinstance(failed, Comparison) and failed.report(tmp_path / "p.html").exists()


def test_what_is_missing_is_said_before_any_search() -> None:
    with pytest.raises(DataError, match="Give y for formulas"):
        sjepa.compare(X)
    with pytest.raises(ConfigError, match="not both"):
        sjepa.compare(X, Y, t=0.1)
    with pytest.raises(ConfigError, match="cv"):
        sjepa.compare(X, Y, cv=1)
    with pytest.raises(ConfigError, match="at least one"):
        sjepa.compare(X, Y, backends=[])
