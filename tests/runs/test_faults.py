"""Whatever fails while a run writes its files: it resumes to the same bytes, or says why not."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from sjepa import SJEPA, Alternating, Joint
from sjepa.data import Trajectories
from sjepa.errors import SjepaError
from sjepa.runs import Run

from .faults import Disk, PowerCut
from .small import oscillators


FILES = ("law.json", "model.safetensors", "config.json", "metrics.parquet")
SETTINGS = {
    "alternating": {
        "search": Alternating(
            cycles=2, warm_epochs=1, dynamics_epochs=1, space_epochs=1, horizon=3,
            validate_every=1, batch=64,
        ),
    },
    "joint": {
        "latent_dim": 1,
        "search": Joint(
            structures=2, restarts=1, effort=0.02, finalists=1, refinement=2, rollout=1
        ),
    },
}  # fmt: skip


def data_for(search: str) -> Trajectories:
    if search == "alternating":
        return Trajectories.from_frame(oscillators(6, 12), time="t", id="run")
    t = np.arange(0, 3, 0.1)
    rows = [np.stack([a * np.exp(-t), 2 * a * np.exp(-t) + 1], axis=1) for a in (1.0, 0.5, 2.0)]
    return Trajectories(rows, [t, t, t])


def fit(search: str, folder: Path, apart: float = 1e9) -> None:
    """The same fit every time: checkpoints at the ends of cycles, or so many seconds `apart`."""
    with warnings.catch_warnings(), mock.patch("sjepa.runs.recorder.MIN_SECONDS", apart):
        warnings.simplefilter("ignore")
        model = SJEPA(random_state=0, **SETTINGS[search])  # type: ignore[arg-type]
        model.fit(data_for(search), run=folder)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def inject(search: str, place: Path, cut: bool, faults: int | None = None) -> Counter[str]:
    """Count what becomes of a run when an operation fails: each, or so many of them, spread out."""
    counted = Disk(_new(place / "whole"), cut=cut)
    with counted.plugged_in():
        fit(search, place / "whole" / "run")
    wanted = bytes_of(place / "whole" / "run")
    found: Counter[str] = Counter(operations=len(counted.operations))
    last = len(counted.operations) - 1
    for at in np.linspace(0, last, faults or last + 1).astype(int).tolist():
        disk = Disk(_new(place / f"fault{at}"), at, cut)
        run = disk.root / "run"
        try:
            with disk.plugged_in():
                fit(search, run)
        except PowerCut:
            disk.restore(disk.root)
        except SjepaError as error:
            assert "\n" not in str(error) and str(run) in str(error), error
        except MemoryError:
            assert disk.operations[at].startswith("allocate"), disk.operations[at]
        found["faults"] += 1
        try:
            fit(search, run)
        except SjepaError as error:
            assert "\n" not in str(error), error
            found["refused"] += 1
        else:
            assert bytes_of(run) == wanted, disk.operations[at]
            assert not list(run.glob(".*.unfinished")), disk.operations[at]
            found["resumed"] += 1
    return found


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("cut", [False, True], ids=["error", "power cut"])
@pytest.mark.parametrize("search", list(SETTINGS))
def test_a_fault_of_the_disk_costs_time_but_no_result(
    search: str, cut: bool, tmp_path: Path
) -> None:
    found = inject(search, tmp_path, cut, 4)
    assert found["operations"] > 20 and found["faults"] == found["resumed"], found


def test_a_run_in_folders_that_are_all_new_survives_a_power_cut(tmp_path: Path) -> None:
    """The name of each of them lies in the one above, and each of those has to be flushed."""
    disk, folder = Disk(tmp_path), tmp_path / "a" / "b" / "c"
    with disk.plugged_in(), Run.begin(folder, {"settings": {}}):
        pass
    disk.restore(tmp_path)
    assert Run.open(folder).asked == {"settings": {}}


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True], ids=["error", "power cut"])
@pytest.mark.parametrize("search", list(SETTINGS))
def test_no_fault_of_the_disk_costs_a_result(search: str, cut: bool, tmp_path: Path) -> None:
    found = inject(search, tmp_path, cut)
    assert found["faults"] == found["operations"] == found["resumed"], found
