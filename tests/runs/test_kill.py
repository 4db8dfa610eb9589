"""A run that is killed at any moment goes on to the result it would have had."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

import sjepa
from sjepa.errors import SjepaError
from tests.command import run as command

from .killing import forked, kill_runs, kill_sweep
from .small import arguments, oscillators


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.csv"
    oscillators().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def undisturbed(data: Path) -> Path:
    """The folder of a run that nobody touched."""
    out = data.parent / "undisturbed"
    finished = command(*arguments(data, out))
    assert finished.returncode == 0, finished.stderr
    return out


def same_result(one: Path, other: Path) -> None:
    for name in ("law.json", "model.safetensors", "config.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    metrics = [pd.read_parquet(folder / "metrics.parquet") for folder in (one, other)]
    pd.testing.assert_frame_equal(*metrics, check_exact=True)


def nothing_half_written(folder: Path) -> None:
    """Whatever is there under its own name can be read, or is not there."""
    if (folder / "checkpoint.safetensors").exists():
        from sjepa.runs.recorder import RunRecorder

        assert RunRecorder(path=folder / "checkpoint.safetensors").restore()
    try:
        sjepa.load(folder)
    except SjepaError as error:
        assert "has not finished" in str(error) or "does not exist" in str(error)
    if folder.exists():
        for name in ("run.json", "config.json"):
            assert not (folder / name).exists() or (folder / name).read_text().endswith("}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_run_killed_twice_comes_to_the_same_result(
    data: Path, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    checkpoint = out / "checkpoint.safetensors"
    for given in (arguments(data, out), ["fit", "--resume", str(out)]):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        child = forked(partial(command, *given))
        while not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "it ended before it left a checkpoint"
            time.sleep(0.005)
        time.sleep(0.1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        nothing_half_written(out)
    finished = command("fit", "--resume", out)
    assert finished.returncode == 0, finished.stderr
    same_result(undisturbed, out)
    assert not [p.name for p in out.iterdir() if p.name.endswith(".unfinished")]


def lines(folder: Path) -> int:
    """How far a run is: its log has at least one line for every epoch."""
    log = folder / "log.txt"
    return log.read_text(encoding="utf-8").count("\n") if log.exists() else 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("moment", range(20))
def test_a_run_killed_at_a_random_moment_comes_to_the_same_result(
    moment: int, data: Path, undisturbed: Path, tmp_path: Path
) -> None:
    """One moment at random in each twentieth of the run, from before its start to its end."""
    out, chance = tmp_path / "run", random.Random(moment)
    wanted = (moment + chance.random()) / 20 * lines(undisturbed)
    child = forked(partial(command, *arguments(data, out)))
    while lines(out) < wanted:
        time.sleep(0.001)
    time.sleep(0.1 * chance.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    nothing_half_written(out)
    left = sorted(p.name for p in out.iterdir()) if out.exists() else []
    print(f"moment {moment}: killed after line {lines(out)} of the log, left {', '.join(left)}")
    again = ["fit", "--resume", str(out)] if (out / "run.json").exists() else arguments(data, out)
    finished = command(*again)
    assert finished.returncode == 0, finished.stderr
    same_result(undisturbed, out)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("search", ["alternating", "joint"])
def test_runs_killed_at_random_moments_come_to_the_same_bytes(search: str, tmp_path: Path) -> None:
    assert kill_runs(search, tmp_path, 12, seed=0)["resumed to the same bytes"] == 12


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_sweep_killed_again_and_again_keeps_what_it_has_finished(tmp_path: Path) -> None:
    assert kill_sweep(tmp_path, 5, seed=0)["cells in all"] == 20


def test_ctrl_c_stops_at_a_checkpoint_and_says_how_to_go_on(
    data: Path,
    undisturbed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sjepa.callbacks import ProgressBar, Step

    out = tmp_path / "run"

    class Impatient(ProgressBar):
        def on_step(self, step: Step) -> None:
            super().on_step(step)
            if step.cycle == 1 and step.epoch == 3:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("sjepa.callbacks.ProgressBar", Impatient)
    stopped = command(*arguments(data, out))
    monkeypatch.undo()
    assert stopped.returncode == 130
    assert f"Resume with: sjepa fit --resume {out}" in stopped.stderr
    assert command("fit", "--resume", out).returncode == 0
    same_result(undisturbed, out)


def test_two_processes_cannot_work_on_one_run(tmp_path: Path) -> None:
    from sjepa.errors import ConfigError
    from sjepa.runs import Run

    first = Run.begin(tmp_path / "run", {"settings": {}})
    with first, pytest.raises(ConfigError, match="Another process"), Run.open(tmp_path / "run"):
        pass
    with Run.open(tmp_path / "run"):
        pass
