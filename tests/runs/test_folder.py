"""The folder of a run: where it may be, what it remembers, and what it refuses to resume with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sjepa.data import Trajectories
from sjepa.errors import ConfigError, FormatError, OutputError
from sjepa.runs import Run, fingerprint, folder, writable
from sjepa.storage import write_json


ASKED: dict[str, Any] = {"settings": {"order": 1, "seed": 0}, "fingerprint": "abc"}
SOURCE = {
    "path": "/data.csv", "time": "t", "id": None, "columns": ["q"], "actions": [], "missing": "raise", "gaps": "cut",
}  # fmt: skip


@pytest.mark.parametrize(
    "left", [(), (".lock",), ("log.txt", ".lock"), (".run.json.ab.unfinished",)]
)
def test_a_folder_that_a_killed_start_left_is_free(left: tuple[str, ...], tmp_path: Path) -> None:
    for name in left:
        (tmp_path / name).write_bytes(b"")
    with Run.begin(tmp_path, ASKED):
        pass
    assert Run.open(tmp_path).asked == ASKED
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_run_that_another_process_began_meanwhile_stays_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(place: Path) -> Any:
        (place / "run.json").write_text("theirs")
        return lock(place)

    lock = folder.lock
    monkeypatch.setattr(folder, "lock", late)
    with pytest.raises(ConfigError, match="already holds a run"):
        Run.begin(tmp_path / "run", ASKED)
    assert (tmp_path / "run" / "run.json").read_text() == "theirs"


def test_the_fingerprint_is_that_of_the_numbers_not_of_their_place_in_memory() -> None:
    x = np.random.default_rng(0).normal(size=(8, 6))
    assert fingerprint(Trajectories(x[:, ::2], 0.1)) == fingerprint(
        Trajectories(x[:, ::2].copy(), 0.1)
    )


@pytest.mark.parametrize("name", ["notes.txt", "config.json", "checkpoint.safetensors", ".run"])
def test_a_folder_with_other_things_is_not_free(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    for force in (False, True):
        with pytest.raises(ConfigError, match="already holds other things"):
            Run.check_free(tmp_path, force)
    with pytest.raises(ConfigError, match="already holds other things"):
        Run.check_free(tmp_path / name)


def test_a_run_says_how_to_resume_it_and_yields_to_force(tmp_path: Path) -> None:
    with Run.begin(tmp_path, ASKED):
        pass
    with pytest.raises(ConfigError, match="sjepa fit --resume"):
        Run.check_free(tmp_path)
    Run.check_free(tmp_path, force=True)


def test_other_settings_or_data_are_refused_by_name(tmp_path: Path) -> None:
    run = Run.begin(tmp_path, ASKED)
    run.check({**ASKED, "data": "elsewhere"})
    for settings, part in (
        ({"order": 2, "seed": 0}, "began with order=1, now it is 2"),
        ({"order": 1}, "began with seed=0, now it is None"),
        ({"order": 1, "seed": 0, "new": 3}, "began with new=None, now it is 3"),
    ):
        with pytest.raises(ConfigError, match=part):
            run.check({**ASKED, "settings": settings})
    with pytest.raises(ConfigError, match="The data are not those"):
        run.check({**ASKED, "fingerprint": "abd"})
    with pytest.raises(FormatError, match="holds no settings"):
        Run(tmp_path, {"settings": 3}).check(ASKED)


def test_the_source_of_the_data_is_read_back_and_checked(tmp_path: Path) -> None:
    assert Run(tmp_path, {"data": {**SOURCE, "more": 1}}).source() == SOURCE
    with pytest.raises(ConfigError, match="begun in Python"):
        Run(tmp_path, {}).source()
    for key, wrong in (
        ("path", 3), ("time", []), ("id", 1), ("columns", "q"), ("columns", [1]), ("actions", None),
        ("actions", [None]), ("missing", 1), ("gaps", None),
    ):  # fmt: skip
        with pytest.raises(FormatError, match="does not say where data are"):
            Run(tmp_path, {"data": {**SOURCE, key: wrong}}).source()
    for key in SOURCE:
        with pytest.raises(FormatError, match="does not say where data are"):
            Run(tmp_path, {"data": {k: v for k, v in SOURCE.items() if k != key}}).source()


def test_runs_of_the_first_release_read_their_data_as_they_did(tmp_path: Path) -> None:
    old = {k: v for k, v in SOURCE.items() if k not in ("missing", "gaps")}
    for dropped, missing in ((True, "drop"), (False, "raise")):
        source = Run(tmp_path, {"data": {**old, "drop_nan": dropped}}).source()
        assert source == {**SOURCE, "missing": missing, "gaps": "keep"}


def test_a_folder_without_a_run_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no run.json"):
        Run.open(tmp_path)
    for asked in ([], {"seed": "seven"}, {"seed": None}):
        write_json(tmp_path / "run.json", "sjepa-run", 1, {"asked": asked})
        with pytest.raises(FormatError, match="does not say what was asked"):
            Run.open(tmp_path)
    write_json(tmp_path / "run.json", "sjepa-model", 1, {"asked": {}})
    with pytest.raises(FormatError, match="not a sjepa-run file"):
        Run.open(tmp_path)


def test_the_lock_lasts_as_long_as_the_work(tmp_path: Path) -> None:
    run = Run.begin(tmp_path, ASKED)
    with pytest.raises(ConfigError, match="Another process"), Run.open(tmp_path):
        pass
    with run, pytest.raises(ConfigError, match="Another process"), Run.open(tmp_path):
        pass
    with Run.open(tmp_path):
        pass


def test_the_fingerprint_sees_every_number_and_name() -> None:
    x, t, u = np.arange(8.0).reshape(4, 2), np.arange(4.0), np.ones((4, 1))

    def of(x: Any = x, t: Any = t, u: Any = u, **names: Any) -> str:
        given = {"names": ["q", "p"], "input_names": ["f"], **names}
        return fingerprint(Trajectories(x, t, u, **given))

    other = x.copy()
    other[3, 1] = np.nextafter(7.0, 8.0)
    found = [
        of(), of(x=other), of(t=t + 1), of(u=-u), of(names=["p", "q"]), of(input_names=["g"]),
        of(x=x.astype(np.float32)), of(x=[x[:2], x[2:]], t=[t[:2], t[2:]], u=[u[:2], u[2:]]),
    ]  # fmt: skip
    assert len(set(found)) == len(found) and of() == found[0]


def test_a_place_that_cannot_be_written_is_noticed_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writable(tmp_path / "a" / "b")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="is a file, not a folder"):
        writable(tmp_path / "file" / "run")
    monkeypatch.setattr("sjepa.runs.folder.os.access", lambda path, mode: False)
    with pytest.raises(OutputError, match="cannot be written to"):
        writable(tmp_path / "a")
