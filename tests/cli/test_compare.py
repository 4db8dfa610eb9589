"""``sjepa benchmark FILE``: backends on one's own table or trajectories."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.command import run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-2, 2, (120, 2)), columns=["a", "b"])
    frame["y"] = 2 * frame["a"] * frame["b"] + frame["b"]
    frame["note"] = "text"
    frame.to_csv(tmp_path / "mine.csv", index=False, sep=";")
    return tmp_path / "mine.csv"


def test_a_table_with_a_target(table: Path, tmp_path: Path) -> None:
    out = run(
        "benchmark", table, "--target", "y", "--backends", "stlsq,subset,nosuch", "--budget", "5",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    assert out.stdout.count("y = 2*a*b + b") == 2
    assert "nosuch: UnknownBackend" in out.stdout
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"comparison.csv", "comparison.html"}
    written = pd.read_csv(tmp_path / "out" / "comparison.csv")
    assert list(written["backend"][:2].sort_values()) == ["stlsq", "subset"]
    assert "mine.csv" in (tmp_path / "out" / "comparison.html").read_text()


def test_trajectories_with_a_time(tmp_path: Path) -> None:
    t = np.arange(0, 12, 0.02)
    frame = pd.DataFrame({"t": t, "q": np.cos(2 * t), "p": -2 * np.sin(2 * t)})
    frame.to_csv(tmp_path / "swing.csv", index=False)
    out = run("benchmark", tmp_path / "swing.csv", "--time", "t", "--backends", "stlsq", "--json")
    assert out.returncode == 0, out.stderr
    (row,) = json.loads(out.stdout)
    assert row["equation"] == "q' = p; p' = -4*q" and row["score"] > 0.9999


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--target", "z"], "no column 'z'; there are a, b, y, note"),
        (["--target", "y", "--columns", "a,y"], "y is a target"),
        (["--target", "y", "--columns", "a,c"], "no column 'c'"),
    ],
)
def test_columns_that_are_not_there_are_said(table: Path, arguments: list[str], part: str) -> None:
    out = run("benchmark", table, *arguments, "--backends", "stlsq")
    assert out.returncode == 2 and part in " ".join(out.stderr.split())


def test_options_for_a_file_need_one() -> None:
    out = run("benchmark", "--target", "y")
    assert out.returncode == 2 and "need a file" in " ".join(out.stderr.split())
    out = run("benchmark", "missing.csv", "--target", "y")
    assert out.returncode == 2 and "no such file" in out.stderr
