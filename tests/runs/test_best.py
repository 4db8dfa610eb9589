"""The best law so far: in the folder of a run while it is at work, kept when it resumes."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sjepa
from sjepa import SJEPA
from sjepa.callbacks import Callback, Step
from sjepa.runs import Run, RunRecorder
from sjepa.runs.best import BestLaw, read_best
from sjepa.runs.inspection import inspect
from tests.command import run as command


SMALL = {"structures": 3, "restarts": 2, "effort": 0.2, "grow": False, "rollout": 5}


def sensors() -> tuple[list[np.ndarray], np.ndarray]:
    """Rotations seen through four sensors."""
    rng, t = np.random.default_rng(0), np.arange(0, 12, 0.1)
    mixing = rng.normal(size=(2, 4))
    starts = rng.uniform(0.5, 2.0, size=(8, 2)) * [1, 3]
    turns = [a * np.stack([np.cos(t + b), -np.sin(t + b)], axis=1) for a, b in starts]
    return [turn @ mixing for turn in turns], t


class Watch(Callback):
    """What stands in the folder at every step; stops a fit at a line that begins so."""

    def __init__(self, folder: Path, stop: str | None = None) -> None:
        self.folder, self.stop = folder, stop
        self.steps: list[Step] = []
        self.files: list[dict[str, Any] | None] = []

    def on_step(self, step: Step) -> None:
        self.steps.append(step)
        self.files.append(read_best(self.folder / "best.json"))
        if self.stop is not None and step.text.startswith(self.stop):
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped when two coordinates had been refined."""
    folder = tmp_path_factory.mktemp("best") / "run"
    with pytest.raises(KeyboardInterrupt):
        SJEPA(2, search=sjepa.Joint(**SMALL), random_state=0, verbose=[Watch(folder, "refined")]).fit(*sensors(), run=folder)  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SJEPA, Watch]:
    """A search for the number of coordinates, and what stood in its folder meanwhile."""
    folder = tmp_path_factory.mktemp("watched") / "run"
    watch = Watch(folder)
    model = SJEPA("auto", search=sjepa.Joint(**SMALL), random_state=0, verbose=[watch])
    return folder, model.fit(*sensors(), run=folder), watch


def test_the_best_law_is_in_the_folder_while_the_search_goes_on(
    watched: tuple[Path, SJEPA, Watch],
) -> None:
    folder, model, watch = watched
    during = [found for found in watch.files[:-1] if found is not None]
    residuals = [found["residual"] for found in during]
    assert len(set(residuals)) > 2 and residuals == sorted(residuals, reverse=True)
    told = {s.risk for s in watch.steps if s.law is not None}
    assert set(residuals) <= told
    assert any(found["noise_floor"] is not None for found in during)
    # In the end it is the model's law, and the folder is a model like any other.
    end = read_best(folder / "best.json")
    assert end is not None and end["law"] == model.law_.lines(digits=6) and end["share"] == 1.0
    assert end["residual"] == model.figures_["residual"]
    assert sjepa.load(folder).law_ == model.law_
    Run.check_free(folder, force=True)  # no file in it is a stranger's


def test_several_numbers_of_coordinates_share_one_progress(
    watched: tuple[Path, SJEPA, Watch],
) -> None:
    steps = watched[2].steps
    shares = [step.share for step in steps]
    assert shares == sorted(shares) and shares[-1] == 1.0
    first = next(i for i, step in enumerate(steps) if step.text == "done")
    assert shares[first] == pytest.approx(1 / 3)


def test_parts_of_parts_take_their_share() -> None:
    seen: list[float] = []

    class Shares(Callback):
        def on_step(self, step: Step) -> None:
            seen.append(step.share)

    recorder = RunRecorder([Shares()])
    with recorder.part(1, 2):
        recorder("half of the second half", 0.5)
        with recorder.part(0, 2):
            recorder("its first half", 1.0)
    recorder("all", 1.0)
    assert seen == [0.75, 0.75, 1.0]


def test_a_shortcut_is_never_the_best(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    SJEPA(1, search=sjepa.Joint(**SMALL), random_state=0, verbose=[watch]).fit(*sensors())
    refused = [step for step in watch.steps if "failed checks" in step.text]
    assert refused and all(step.law is None for step in refused)


def test_a_run_under_way_shows_its_best_law(stopped: Path) -> None:
    found = inspect(stopped)
    assert found["state"] == "resumable" and 0 < found["best"]["share"] < 1
    shown = command("runs", "show", stopped).stdout
    assert "best law so far: 75 % done, residual" in shown and "z1' = " in shown


def test_what_was_found_before_a_stop_is_kept(stopped: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(stopped, run)
    before = read_best(run / "best.json")
    assert before is not None
    recorder = RunRecorder(path=run / "checkpoint.safetensors")
    recorder.report(Step("worse", 0.8, risk=2 * before["residual"], law="z1' = 1", complexity=1))
    assert read_best(run / "best.json") == before | {"share": 0.8}
    recorder.report(Step("better", 0.8, risk=before["residual"] / 2, law="z1' = 2", complexity=1))
    after = read_best(run / "best.json")
    assert after is not None and after["law"] == ["z1' = 2"]


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"format": "sjepa-best", "version": 1, "law": ["\\u001b[2J"]}']
)
def test_a_spoilt_best_law_is_said_and_stops_no_run(content: str, tmp_path: Path) -> None:
    Run.begin(tmp_path / "run", {"settings": {}, "fingerprint": "", "seed": 0})
    path = tmp_path / "run" / "best.json"
    path.write_text(content)
    told = inspect(tmp_path / "run")["best"]
    assert isinstance(told, str) and "best.json" in told and "\n" not in told
    BestLaw(path).offer(Step("found", 0.5, risk=0.1, law="z1' = z1", complexity=1.0))
    assert json.loads(path.read_text())["law"] == ["z1' = z1"]


def test_a_fit_with_a_run_writes_its_log_and_others_hear_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    t = np.arange(0, 10, 0.05)
    x = [a * np.stack([np.cos(t), -np.sin(t)], axis=1) for a in (0.5, 1.0, 1.5)]
    level = logging.getLogger("sjepa").level
    SJEPA(encoder="identity").fit(x, t, run=tmp_path / "run")
    log = (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    assert "fit starts" in log and "100 % " in log and "fit ends: z1' = z2" in log
    assert logging.getLogger("sjepa").level == level
    assert not [r for r in caplog.records if r.levelno < logging.WARNING]


def test_the_log_says_why_a_fit_ended(stopped: Path) -> None:
    log = (stopped / "log.txt").read_text(encoding="utf-8")
    assert log.rstrip().endswith("INFO stopped")
