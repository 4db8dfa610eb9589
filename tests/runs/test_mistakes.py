"""The most likely mistakes: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sjepa
from sjepa import SJEPA
from sjepa.errors import SjepaError
from sjepa.report import write_report
from sjepa.runs import Run
from sjepa.runs.inspection import inspect
from tests.command import run as command

from .small import oscillators


FIT = ["fit", "data.csv", "--id=run", "--encoder=identity"]


def table(**changes: Callable[[pd.DataFrame], Any]) -> pd.DataFrame:
    frame = oscillators(6, 40, mixed=False)
    return frame.assign(**{name: change(frame) for name, change in changes.items()})


def with_text(frame: pd.DataFrame) -> pd.Series:
    column = frame["q"].astype(object)
    column[17] = "n/a?"
    return column


def with_nan(frame: pd.DataFrame) -> pd.Series:
    column = frame["q"].copy()
    column[[17, 90, 91]] = np.nan
    return column


def backwards(frame: pd.DataFrame) -> pd.Series:
    column = frame["t"].copy()
    column[[5, 6]] = column[[6, 5]].to_numpy()
    return column


# name, table, options after `FIT`, exit code, what the line must say: the fault, and the remedy
MISTAKES: list[tuple[str, pd.DataFrame, list[str], int, str]] = [
    ("text in a column", table(q=with_text), [], 2, "'n/a.' in row 17"),
    ("missing values", table(q=with_nan), [], 2, "row 17 of the table (1 such rows in all); .*out with --missing drop"),
    ("infinite values", table(q=lambda f: f.q.where(f.index != 7, np.inf)), [], 2, "row 7"),
    ("time goes back", table(t=backwards), [], 2, "row 6 of the table.*sort by time"),
    ("no id given", table(), ["--id="], 2, "not strictly increasing.*split into trajectories"),
    ("unknown column", table(), ["--columns=q,pp"], 2, "no column 'pp'. Did you mean 'p'"),
    ("unknown time column", table(), ["--time=tt"], 2, "no column 'tt'. Did you mean 't'"),
    ("no time column", table().drop(columns="t"), [], 2, "give one of these as --time: run, q, p"),
    ("a column in two roles", table(), ["--columns=q,p", "--actions=p"], 2, "'p' is given two roles"),
    ("huge values", table(q=lambda f: f.q * 1e200), [], 2, "rescale the data"),
    ("single precision overflows", table(q=lambda f: f.q * 1e30), ["--encoder=auto", "--search=alternating"], 2, "rescale the data"),
    ("nothing moves", table(q=lambda f: 1.0, p=lambda f: 2.0), [], 2, "does not change at all"),
    ("too many coordinates", table(), ["--encoder=auto", "--latent-dim=7"], 2, "--latent-dim 7 is more than the 2 values"),
    ("unknown backend", table(), ["--backend=stslq"], 2, "Did you mean 'stlsq'.*Known"),
    ("unknown option of a backend", table(), ["--set=backend.treshold=1"], 2, "no option 'treshold'"),
    ("unknown option of a search", table(), ["--encoder=auto", "--set=search.restart=1"], 2, "no field 'restart'. Did you mean 'restarts'"),
    ("option without a value", table(), ["--set=search.restarts"], 2, "name=value"),
    ("unknown search", table(), ["--encoder=auto", "--search=jiont"], 2, "--search is one of 'joint', 'alternating'.*Did you mean 'joint'"),
    ("unknown encoder", table(), ["--encoder=resnet"], 2, "--encoder is 'auto', 'identity'"),
    ("unknown option", table(), ["--latentdim=2"], 2, "--latentdim"),
    ("unknown option in TOML", table(), ["--config=bad.toml"], 2, "no option 'latentdim'. Did you mean 'latent-dim'"),
    ("broken TOML", table(), ["--config=broken.toml"], 2, "not TOML.*line 1"),
    ("unknown name in a term", table(), ["--library=q,sin(r)"], 2, "'r'"),
    ("output folder is a file", table(), ["--out=data.csv/run"], 4, "is a file, not a folder"),
    ("output folder in use", table(), ["--out=mine"], 2, "already holds other things; choose another"),
    ("unwritable output folder", table(), ["--out=/proc/run"], 4, "/proc/run cannot be made.*choose another place"),
    ("an order that does not exist", table(), ["--encoder=auto", "--order=3"], 2, "--order is one of 1, 2, got 3"),
    ("too short for the horizon", table().groupby("run").head(4), ["--encoder=auto", "--search=alternating"], 2, "--set search.horizon=3"),
    ("one row for each trajectory", table().groupby("run").head(1), [], 2, "has one observation"),
    ("wrong number", table(), ["--latent-dim=two"], 2, "--latent-dim"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "options", "code", "part"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES]
)
def test_a_mistake_gives_one_line_that_says_what_to_do(
    frame: pd.DataFrame, options: list[str], code: int, part: str, tmp_path: Path
) -> None:
    frame.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "bad.toml").write_text("latentdim = 2\n")
    (tmp_path / "broken.toml").write_text("latent-dim = = 2\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("")
    given = [a for a in FIT if a.split("=")[0] not in {o.split("=")[0] for o in options}]
    options = [o for o in options if not o.endswith("id=")]
    out = command(*given, *options, cwd=tmp_path)
    said(out, code, part)


def said(out: subprocess.CompletedProcess[str], code: int, part: str) -> None:
    import re

    lines = [line for line in out.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("sjepa: ") and "note:" not in line]
    assert out.returncode == code, out.stderr
    assert len(errors) == 1 and out.stdout == "", out.stderr
    assert re.search(part.replace("(1 such", r"\(\d such").replace("all)", r"all\)"), errors[0]), (
        errors[0]
    )
    assert "Traceback" not in out.stderr


# What works, but is worth a word.
DOUBTS: list[tuple[str, pd.DataFrame, str]] = [
    ("one trajectory", oscillators(1, 120, mixed=False), "one trajectory only"),
    ("time in milliseconds", table(t=lambda f: 1000 * f.t), "milliseconds, divide by 1000"),
    ("a constant column", table(c=lambda f: 3.0), "Column c never changes; leave it out"),
]


@pytest.mark.parametrize(("frame", "part"), [d[1:] for d in DOUBTS], ids=[d[0] for d in DOUBTS])
@pytest.mark.filterwarnings("default::sjepa.errors.NumericalWarning")
def test_a_doubt_gives_one_note(frame: pd.DataFrame, part: str, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = command(*FIT, "--library=q,p", "--out=run", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    notes = [line for line in out.stderr.splitlines() if part in line]
    assert len(notes) == 1 and notes[0].startswith("sjepa: note: "), out.stderr


FILES: list[tuple[str, str, bytes, str]] = [
    ("wrong ending", "data.xlsx", b"PK", "unknown file ending; known are .csv"),
    ("no such file", "nowhere.csv", b"", "there is no such file"),
    ("empty", "data.csv", b"", "the file is empty"),
    ("header only", "data.csv", b"t,x\n", "no rows"),
    ("cut short", "data.npz", b"PK\x03\x04", "not an NPZ archive, or it is cut short"),
    ("not Parquet", "data.parquet", b"hello", "cannot be read as parquet"),
]


@pytest.mark.parametrize(
    ("name", "content", "part"), [f[1:] for f in FILES], ids=[f[0] for f in FILES]
)
def test_a_file_that_cannot_be_read_is_named(
    name: str, content: bytes, part: str, tmp_path: Path
) -> None:
    if content or name == "data.csv":
        (tmp_path / name).write_bytes(content)
    said(command("fit", name, cwd=tmp_path), 2, f"{name}: .*{part}")


T = np.arange(0.0, 4.0, 0.1)
X = np.stack([np.cos(T), -np.sin(T)], axis=1)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("transposed", (X.T, T), {}, r"x looks transposed: rows are times"),
    (
        "a stack of trajectories",
        (np.stack([X] * 3), T),
        {},
        r"stack of trajectories, pass list\(x\)",
    ),
    ("no times", (X,), {}, "Give the times as t"),
    ("one time array too few", ([X, X], [T]), {}, "2 trajectories but 1 time arrays"),
    ("lengths differ", (X, T[:-1]), {}, "40 observations but t has 39 entries"),
    ("a single number", (1.0, 0.1), {}, "single number"),
    ("text", (np.array([["a", "b"]] * 3), 0.1), {}, "holds text"),
    ("a negative step", (X, -0.1), {}, "time step must be positive"),
    ("dates", (X, np.arange(40).astype("datetime64[s]")), {}, "convert to seconds"),
    ("latent_dim a float", (X, T), {"latent_dim": 2.5, "encoder": "auto"}, "whole number"),
    ("callbacks that are none", (X, T), {"verbose": ["loud"]}, "on_start"),
]


@pytest.mark.filterwarnings("ignore::sjepa.errors.DataWarning")  # the data are to be odd
@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")
@pytest.mark.parametrize(
    ("data", "settings", "part"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS]
)
def test_a_mistake_in_python_is_refused_the_same_way(
    data: tuple[Any, ...], settings: dict[str, Any], part: str
) -> None:
    with pytest.raises(SjepaError, match=part) as refused:
        SJEPA(**{"encoder": "identity", **settings}).fit(*data)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["x" * 500, "a\0b"])
def test_a_path_that_no_system_has_is_refused_at_every_door(path: str) -> None:
    x = oscillators(1, 40, mixed=False)[["q", "p"]].to_numpy()
    law = sjepa.Law.from_string(["p", "-q"], ["q", "p"])
    for call in (
        lambda: sjepa.load(path), lambda: law.save(path), lambda: sjepa.Law.load(path),
        lambda: sjepa.Law.from_pysr(path), lambda: sjepa.data.read(path),
        lambda: sjepa.discover(path, 0.1), lambda: sjepa.discover([path, path], 0.1),
        lambda: SJEPA(encoder="identity").fit([x, -x], 0.1, run=path),
        lambda: write_report(law, path, x, 0.1), lambda: Run.open(path), lambda: inspect(path),
    ):  # fmt: skip
        with pytest.raises(SjepaError):
            call()


def test_a_missing_package_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.h5").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "h5py", None)
    said(command("fit", "data.h5", cwd=tmp_path), 3, "pip install h5py")
    table().to_csv(tmp_path / "data.csv", index=False)
    monkeypatch.setattr("sjepa.backend.registry.Source.missing", lambda self: list(self.needs))
    said(command(*FIT, "--backend=operon", cwd=tmp_path), 3, r"pip install pyoperon")


def test_a_full_disk_ends_in_one_line_and_spares_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table().to_csv(tmp_path / "data.csv", index=False)
    model = SJEPA(encoder="identity").fit([X, 2 * X], [T, T])
    model.save(tmp_path / "model")
    before = {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()}

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("sjepa.storage.files.os.fsync", full)
        said(command(*FIT, "--out=run", cwd=tmp_path), 4, "No space left on device.*make room")
        with pytest.raises(OSError, match="No space left"):
            model.save(tmp_path / "model")
    assert {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()} == before
    assert not list(tmp_path.glob(".model*")) and {
        p.name for p in (tmp_path / "run").iterdir()
    } <= {".lock"}
    assert command(*FIT, "--out=run", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of 64 kilobytes: the model does not fit."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small file system")
    try:
        (disk / "filler").write_bytes(b"x" * 45_000)
        table().to_csv(tmp_path / "data.csv", index=False)
        said(command(*FIT, f"--out={disk}/run", cwd=tmp_path), 4, "No space left on device")
        (disk / "filler").unlink()
        assert command("fit", "--resume", disk / "run").returncode == 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_fifty_uneven_trajectories_with_actions_and_holes(tmp_path: Path) -> None:
    """The file of a careful experimenter: refused with the place, or cleaned with a report."""
    rng = np.random.default_rng(0)
    tables = []
    for run in range(50):
        n = int(rng.integers(30, 90))
        t = np.cumsum(rng.uniform(0.02, 0.08, n))
        push = 0.5 * np.sin(2.1 * t + run)
        # x'' = -x + u has the solution below for u = 0.5 sin(2.1 t + run).
        (a, b), w = rng.normal(size=2), 2.1
        x = a * np.cos(t) + b * np.sin(t) + 0.5 / (1 - w**2) * np.sin(w * t + run)
        v = -a * np.sin(t) + b * np.cos(t) + 0.5 * w / (1 - w**2) * np.cos(w * t + run)
        tables.append(pd.DataFrame({"run": f"r{run}", "t": t, "x": x, "v": v, "push": push}))
    frame = pd.concat(tables, ignore_index=True)
    frame.loc[[40, 700, 701], "v"] = np.nan
    frame.to_parquet(tmp_path / "data.parquet")
    fit = [
        "fit",
        "data.parquet",
        "--id=run",
        "--actions=push",
        "--encoder=identity",
        "--library=x,v,push,x**3,1",
    ]
    said(command(*fit, cwd=tmp_path), 2, "trajectory 'r0', row 40 of the table.*--missing drop")
    out = command(*fit, "--missing=drop", "--out=run", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert "3 rows with missing values are left out" in out.stderr
    assert "cut at 2 gaps, 52 remain; --gaps keep leaves them whole" in out.stderr
    assert out.stdout.splitlines() == ["x' = v", "v' = push - x"] or (
        [round(c, 2) for c in _numbers(out.stdout)] == [1.0, -1.0]
    ), out.stdout


def _numbers(text: str) -> list[float]:
    import re

    return [float(n) for n in re.findall(r"-?\d+\.\d+", text)]
