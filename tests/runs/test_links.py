"""Run folders that others made: nothing they link to is emptied, appended to, read or awaited."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

import sjepa
from sjepa.errors import ConfigError, FormatError
from sjepa.runs import Run
from tests.command import run as command

from .small import oscillators


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    oscillators(4, 40, mixed=False).to_csv(folder / "data.csv", index=False)
    out = command("fit", "data.csv", "--id=run", "--encoder=identity", "--out=run", cwd=folder)
    assert out.returncode == 0, out.stderr
    return folder / "run"


@pytest.mark.parametrize("name", [".lock", "log.txt"])
@pytest.mark.parametrize("hard", [False, True])
def test_resuming_spares_what_the_folder_links_to(finished: Path, name: str, hard: bool) -> None:
    precious, own = finished.parent / "precious", finished / name
    precious.write_bytes(b"mine")
    before = own.read_bytes()
    own.unlink()
    model, aside = finished / "config.json", finished.parent / "config.json"
    model.rename(aside)  # a run that has yet to finish: it locks and logs
    try:
        os.link(precious, own) if hard else own.symlink_to(precious)
        out = command("fit", f"--resume={finished}")
        assert out.returncode == 2 and name in out.stderr, out.stderr
        assert precious.read_bytes() == b"mine"
    finally:
        own.unlink()
        own.write_bytes(before)
        aside.rename(model)


@pytest.mark.parametrize(
    "name", ["config.json", "law.json", "metrics.parquet", "model.safetensors"]
)
@pytest.mark.parametrize("kind", ["link", "pipe", "device"])
def test_a_model_is_read_from_plain_files_only(finished: Path, name: str, kind: str) -> None:
    own, aside = finished / name, finished.parent / f"aside {name}"
    own.rename(aside)
    try:
        if kind == "pipe":
            os.mkfifo(own)
        else:
            own.symlink_to(aside if kind == "link" else "/dev/zero")
        with pytest.raises(FormatError, match="is a link|not a plain file"):
            sjepa.load(finished)
    finally:
        own.unlink()
        aside.rename(own)


@pytest.mark.parametrize("to", ["itself", "nowhere"])
def test_a_finished_run_whose_model_leads_nowhere_is_not_fitted_again(
    finished: Path, to: str
) -> None:
    model, aside = finished / "config.json", finished.parent / "config.json"
    model.rename(aside)
    try:
        model.symlink_to(model if to == "itself" else finished / "not there")
        before = {p.name: p.lstat().st_mtime_ns for p in finished.iterdir()}
        out = command("fit", f"--resume={finished}")
        assert out.returncode == 2 and "config.json is a link" in out.stderr, out.stderr
        assert {p.name: p.lstat().st_mtime_ns for p in finished.iterdir()} == before
    finally:
        model.unlink()
        aside.rename(model)


def test_laws_and_settings_are_read_from_plain_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "law.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "hall_of_fame.csv")
    os.mkfifo(tmp_path / "fit.toml")
    for given in (
        ("export", "law.json"), ("export", "zero.json"), ("export", "hall_of_fame.csv"),
        ("report", "law.json"), ("simulate", "law.json", "--start=1,0", "--times=0,1"),
        ("fit", "--config=fit.toml"), ("fit", "--config=/dev/zero"),
    ):  # fmt: skip
        out = command(*given, cwd=tmp_path)
        assert out.returncode == 2 and "Traceback" not in out.stderr, out.stderr
        assert "is not a plain file" in out.stderr or "is a link" in out.stderr, out.stderr


def test_of_two_that_begin_at_once_one_begins(tmp_path: Path) -> None:
    """The settings in run.json are those of the process that holds the lock."""
    began: list[Run] = []
    refused: list[Exception] = []
    gate = threading.Barrier(8)

    def begin(i: int) -> None:
        gate.wait()
        try:
            began.append(Run.begin(tmp_path / "run", {"settings": {"random_state": i}}))
        except ConfigError as error:
            refused.append(error)

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(began) == 1 and len(refused) == 7
    with began[0] as run:
        assert Run.open(tmp_path / "run").asked == run.asked


def test_a_locked_folder_is_not_written_to(tmp_path: Path) -> None:
    """Before, run.json was written first and the lock taken later."""
    from sjepa.runs.folder import lock

    (tmp_path / "run").mkdir()
    held = lock(tmp_path / "run")
    with held, pytest.raises(ConfigError, match="Another process"):
        Run.begin(tmp_path / "run", {"settings": {}})
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_run_says_what_it_holds_and_would_read(finished: Path) -> None:
    """Every file with its size, as the system counts it, and the data with their place."""
    out = command("runs", "show", finished, "--json")
    assert out.returncode == 0, out.stderr
    told = json.loads(out.stdout)
    assert told["state"] == "finished" and told["version"] == 1
    assert {n: e["size"] for n, e in told["files"].items()} == {
        p.name: p.stat().st_size for p in finished.iterdir()
    }
    data = finished.parent / "data.csv"
    assert told["data"] == {
        "path": str(data), "kind": "file", "size": data.stat().st_size, "inside": False,
    }  # fmt: skip
    assert told["settings"]["encoder"] == "identity"
    (finished / "extra").symlink_to("/etc/passwd")
    try:
        plain = command("runs", "show", finished).stdout
    finally:
        (finished / "extra").unlink()
    assert f"{data} (file, {data.stat().st_size} bytes, outside this folder)" in plain
    assert "extra (link to /etc/passwd)" in plain


def test_a_run_of_another_user_reads_elsewhere_only_where_told_to(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    out = command("fit", f"--resume={finished}")
    assert out.returncode == 2 and "--trust" in out.stderr and "data.csv" in out.stderr
    assert command("fit", f"--resume={finished}", "--trust").returncode == 0
    assert command("fit", finished.parent / "data.csv", f"--resume={finished}").returncode == 0
