from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sjepa import Law
from sjepa.data import simulate
from sjepa.errors import ConfigError, SjepaError, UnknownBackend
from sjepa.studies.backends import COLUMNS, benchmark, matrix, plot_results, summary
from sjepa.studies.backends.cells import Cell, field_error, match, run_cell, valid_time


TRUTH = Law.from_string(["p", "-sin(q) - 0.4*p*abs(p)"], ["q", "p"])


@pytest.mark.parametrize(
    ("equations", "recovered", "precision", "recall"),
    [
        (["1.01*p", "-0.97*sin(q) - 0.41*p*abs(p)"], True, 1.0, 1.0),
        (["1.01*p", "-0.97*sin(q) - 0.7*p*abs(p)"], False, 1.0, 1.0),
        (["p", "-sin(q)"], False, 1.0, 2 / 3),
        (["p + 0.1*q", "-sin(q) - 0.4*p*abs(p)"], False, 3 / 4, 1.0),
        (["0", "0"], False, 0.0, 0.0),
    ],
)
def test_matching_counts_pairs_of_output_and_term(
    equations: list[str], recovered: bool, precision: float, recall: float
) -> None:
    found = match(Law.from_string(equations, ["q", "p"]), TRUTH)
    assert (found.recovered, found.precision, found.recall) == (recovered, precision, recall)


def test_the_true_law_has_no_error_and_follows_every_test_trajectory() -> None:
    test = simulate("drag_pendulum", seed=5, trajectories=2)
    assert field_error(TRUTH, TRUTH, np.concatenate(test.x)) == 0.0
    assert valid_time(TRUTH, test) == 1.0
    wrong = Law.from_string(["p", "-2*sin(q)"], ["q", "p"])
    assert field_error(wrong, TRUTH, np.concatenate(test.x)) > 0.3
    assert valid_time(wrong, test) < 0.5


def test_a_diverging_law_is_a_low_score_not_a_crash() -> None:
    test = simulate("drag_pendulum", seed=5, trajectories=1)
    assert valid_time(Law.from_string(["q**3 + 5", "p**5"], ["q", "p"]), test) < 0.5


def test_rows_are_complete_and_written(tmp_path: Path) -> None:
    table = benchmark(["pendulum", "lorenz"], ["stlsq"], [0.0], [0, 1], out=tmp_path)
    assert tuple(table.columns) == COLUMNS and len(table) == 4
    assert table["recovered"].all() and (table["error"] == "").all()
    again = pd.read_parquet(tmp_path / "results.parquet")
    assert again["valid_time"].tolist() == table["valid_time"].tolist()
    assert summary(table)["recovered"].tolist() == [4]
    assert list(matrix(table)["system"]) == ["lorenz", "pendulum"]
    plot_results(table)


def test_a_sweep_that_was_stopped_runs_only_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {
        "systems": ["pendulum", "lorenz"],
        "backends": ["stlsq"],
        "out": tmp_path,
    }

    def stop(row: dict[str, Any], done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        benchmark(**asked, progress=stop)
    ran: list[str] = []

    def watched(cell: Cell) -> dict[str, Any]:
        ran.append(cell.system)
        return run_cell(cell)

    monkeypatch.setattr("sjepa.studies.backends.sweep.run_cell", watched)
    table = benchmark(**asked)
    assert ran == ["lorenz"] and table["recovered"].tolist() == [True, True]
    assert benchmark(**asked).equals(table) and ran == ["lorenz"]
    benchmark(**asked | {"systems": ["pendulum"]}, seconds=30.0)  # another cell
    assert ran == ["lorenz", "pendulum"]
    for file in (tmp_path / "cells").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    benchmark(**asked)
    assert ran == ["lorenz", "pendulum", "pendulum", "lorenz"]


def test_a_failing_backend_is_a_row_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from sjepa_backends.stlsq import STLSQ

    def broken(self: object, problem: object) -> None:
        raise RuntimeError("the backend\nexploded")

    monkeypatch.setattr(STLSQ, "search", broken)
    table = benchmark(["pendulum"], ["stlsq"], [0.0], [0])
    assert table["error"].tolist() == [
        "BackendError: stlsq: the search failed with RuntimeError: the backend"
    ]
    assert not table["recovered"].any()
    plot_results(table)


def test_two_workers_give_the_rows_of_one() -> None:
    columns = ["system", "backend", "noise", "seed", "recovered", "omega_tree", "field_error"]
    alone, pair = (
        benchmark(["pendulum"], ["stlsq", "subset"], [0.0], [0], workers=w)[columns] for w in (1, 2)
    )
    assert alone.equals(pair)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"systems": ["pendlum"]}, SjepaError, "Did you mean 'pendulum'"),
        ({"backends": ["nope"]}, UnknownBackend, "No backend"),
        ({"seeds": []}, ConfigError, "Nothing to run"),
        ({"executor": "slurm"}, ConfigError, "local, dask, ray"),
    ],
)
def test_wrong_requests_are_refused_before_anything_runs(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    given: dict[str, object] = {"systems": ["pendulum"], "backends": ["stlsq"]} | arguments
    with pytest.raises(error, match=message):
        benchmark(**given)  # type: ignore[arg-type]
