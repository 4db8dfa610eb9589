"""The experiments end to end, on budgets that fit into a test."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.paper import PROFILES, Profile, exp1, run
from benchmarks.paper.__main__ import main
from benchmarks.paper.conditions import CONDITIONS, EXPERIMENT_1, EXPERIMENT_2
from benchmarks.paper.paper_figures import AS_PUBLISHED
from benchmarks.paper.tables import number
from sjepa.backend.registry import available_backends
from sjepa.errors import ConfigError, UnknownBackend
from sjepa.symbolic import Law
from sjepa.training.alternating import TrainingConfig


TINY = replace(
    PROFILES["fast"],
    name="tiny",
    cycles=1,
    epochs=dict.fromkeys(CONDITIONS, 1),
    settings=PROFILES["fast"].settings.with_(batching="trajectories", batch=1024, passes=1),
    search_seconds=2.0,
)


def value(frame: pd.DataFrame, condition: str, metric: str) -> float:
    rows = frame[(frame["condition"] == condition) & (frame["metric"] == metric)]
    return float(rows["value"].iloc[0])


def test_our_own_way_recovers_experiment_2_exactly(tmp_path: Path) -> None:
    wanted = ["symbolic_complete", "symbolic_incomplete"]
    if available_backends()["pysindy"]:
        wanted.append("pysindy")
    frame = run("exp2", [7], profile="default", out=tmp_path, conditions=wanted, n_jobs=1)
    for metric, truth in (("coef_q_p", 1.0), ("coef_p_sin", -1.0), ("coef_p_drag", -0.4)):
        assert value(frame, "symbolic_complete", metric) == pytest.approx(truth, rel=1e-3)
    assert value(frame, "symbolic_complete", "test_rollout") <= 1e-6
    assert value(frame, "symbolic_complete", "omega_terms") == 6.0
    assert value(frame, "symbolic_incomplete", "test_rollout") > 0.5

    stored = pd.read_parquet(tmp_path / "metrics.parquet")
    assert list(stored.columns) == ["experiment", "condition", "seed", "metric", "value"]
    pd.testing.assert_frame_equal(stored, frame)
    laws = json.loads((tmp_path / "laws.json").read_text())
    assert {row["condition"] for row in laws} == set(wanted)
    assert Law.from_json(laws[0]["law_json"]).outputs == ("q", "p")
    tables = (tmp_path / "tables.md").read_text()
    assert "| Symbolic, complete | ours |" in tables and "| | paper | 1.57e-06 ±" in tables
    assert (tmp_path / "rollout_error.png").stat().st_size > 10_000
    assert not list(tmp_path.glob(".*"))  # nothing temporary is left behind


def test_experiment_1_runs_through_and_reports_every_metric(tmp_path: Path) -> None:
    frame = run("exp1", [7], profile=TINY, out=tmp_path, n_jobs=1)
    named = {"omega_terms", "omega_tree", "latent_mse", "state_mse", "test_rollout", "ood_rollout",
             "ood_divergence", "probe_r2", "min_std", "cov_trace", "seconds"}  # fmt: skip
    for condition in ("sjepa", "post_hoc", "one_step_collapse", "fixed_point"):
        assert named <= set(frame[frame["condition"] == condition]["metric"])
    assert np.isfinite(frame["value"]).all()
    # The constructed control is constant, predicts itself and knows nothing.
    assert value(frame, "fixed_point", "min_std") < 1e-3
    assert value(frame, "fixed_point", "latent_mse") < 1e-6
    assert value(frame, "fixed_point", "omega_terms") == 0.0
    assert value(frame, "fixed_point", "neighbor") > 0.9
    for name in ("rollout_error", "min_std", "latent_geometry"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    cycles = json.loads((tmp_path / "cycles.json").read_text())
    assert cycles[0]["cycles"][0]["selected"]


def test_results_do_not_depend_on_processes_or_company() -> None:
    wanted = ["one_step_collapse", "fixed_point"]
    with ThreadPoolExecutor(1) as executor:
        alone = run("exp1", [7], profile=TINY, conditions=wanted[:1], executor=executor)
    together = run("exp1", [7], profile=TINY, conditions=wanted, n_jobs=2)
    for metric in ("latent_mse", "min_std", "omega_terms"):
        assert value(alone, wanted[0], metric) == value(together, wanted[0], metric)


def test_a_killed_experiment_goes_on_with_what_it_has_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ["one_step_collapse", "fixed_point", "sjepa"]
    whole = run("exp1", [7], profile=TINY, conditions=wanted, n_jobs=1)
    evaluated: list[str] = []
    result = exp1.SeedRun._result

    def killed(self: exp1.SeedRun, name: str, *rest: object) -> object:
        if evaluated:
            raise KeyboardInterrupt
        evaluated.append(name)
        return result(self, name, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(exp1.SeedRun, "_result", killed)
        with pytest.raises(KeyboardInterrupt):
            run("exp1", [7], profile=TINY, conditions=wanted, n_jobs=1, out=tmp_path)
    assert evaluated == ["sjepa"] and (tmp_path / "parts" / "sjepa_7.safetensors").exists()
    (tmp_path / "parts" / "fixed_point_7.safetensors").write_bytes(b"half a fi")

    with monkeypatch.context() as patch:
        patch.setattr(exp1.SeedRun, "_sjepa", None)  # would be called again
        patch.setattr(exp1.SeedRun, "warm", None)
        frame = run("exp1", [7], profile=TINY, conditions=wanted, n_jobs=1, out=tmp_path)
    apart = frame["metric"] != "seconds"
    pd.testing.assert_frame_equal(frame[apart], whole[apart])
    assert not list((tmp_path / "parts").glob("warm_*"))


def test_more_seeds_join_those_of_a_finished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(seeds: list[int]) -> pd.DataFrame:
        return run("exp1", seeds, profile=TINY, conditions=["fixed_point"], n_jobs=1, out=tmp_path)

    first, trained = made([7]), []
    task = exp1.SeedRun.conditions
    monkeypatch.setattr(
        exp1.SeedRun, "conditions", lambda r, *a: (trained.append(r.seed), task(r, *a))[1]
    )
    both = made([7, 19])
    assert trained == [19]
    pd.testing.assert_frame_equal(both[both["seed"] == 7].reset_index(drop=True), first)


def test_the_hybrids_report_their_allocation(tmp_path: Path) -> None:
    frame = run(
        "exp2", [7], profile=TINY, out=tmp_path, conditions=["hybrid_regularised"], n_jobs=1
    )
    for metric in ("correction_ratio", "residual_corr", "residual_r2", "drag_corr", "drag_r2"):
        assert np.isfinite(value(frame, "hybrid_regularised", metric))
    assert (tmp_path / "correction_residual.png").exists()
    assert (tmp_path / "correction_drag.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "exp3"}, "Known: exp1, exp2"),
        ({"profile": "quick"}, "Known: paper, windows, fast, default"),
        ({"conditions": ["sjepa"]}, "No condition is called 'sjepa'"),
        ({"seeds": []}, "at least one seed"),
    ],
)
def test_wrong_requests_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(**{"name": "exp2", **arguments})  # type: ignore[arg-type]


def test_a_misspelled_backend_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(UnknownBackend, match="stlsq"):
        run("exp2", [7], backend="stslq")


def test_the_command_writes_the_metrics_and_laws_and_refuses_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    given = ["exp2", "--seeds", "7", "7", "--profile", "default", "--jobs", "1", "--out", str(out)]

    def command(condition: str) -> None:
        monkeypatch.setattr(sys, "argv", ["paper", *given, "--conditions", condition])
        main()

    command("symbolic_complete")
    assert "Symbolic, complete" in capsys.readouterr().out
    metrics = pd.read_parquet(out / "metrics.parquet")
    assert list(metrics.columns) == ["experiment", "condition", "seed", "metric", "value"]
    assert metrics["seed"].unique().tolist() == [7]
    (law,) = json.loads((out / "laws.json").read_text())
    assert (law["condition"], law["seed"]) == ("symbolic_complete", 7)
    with pytest.raises(SystemExit) as stop:
        command("no_such_condition")
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_profile_of_windows_is_the_appendix_to_the_letter() -> None:
    windows = PROFILES["windows"]
    assert windows.settings == TrainingConfig() and windows.settings.patience is None
    assert (windows.integrator, windows.cycles, windows.penalized) == ("euler", 4, True)
    for name, row in (EXPERIMENT_1 | EXPERIMENT_2).items():
        assert windows.condition(name) == row


def test_profiles_change_only_what_they_say() -> None:
    paper = PROFILES["paper"]
    assert isinstance(paper, Profile)
    assert all(paper.condition(name) == c for name, c in CONDITIONS.items() if name != "frozen")
    assert paper.integrator == "euler" and not paper.debias
    assert PROFILES["default"].condition("symbolic_complete").symbolic == 0.0
    assert AS_PUBLISHED["exp1"]["sjepa"]["omega_terms"] == (4.67, 2.49)


def test_numbers_are_readable() -> None:
    shown = {0.0: "0", 0.00462: "0.00462", 1.28: "1.28", 4.33e-18: "4.33e-18", 358.9: "359"}
    assert {v: number(v) for v in shown} == shown
