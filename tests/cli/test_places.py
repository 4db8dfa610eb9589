"""What the command line is like to use: quick help, nothing replaced unasked, runs that remember."""

from __future__ import annotations

import importlib
import json
import pkgutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

import sjepa.cli
from sjepa.cli.app import app
from tests.command import run
from tests.runs.small import oscillators


T = np.arange(0.0, 8.0, 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two oscillations under names that no default would find."""
    tables = [
        pd.DataFrame(
            {"clock": T, "run": name, "q": a * np.cos(1.3 * T), "p": -1.3 * a * np.sin(1.3 * T)}
        )
        for name, a in (("exp-A", 1.0), ("exp-B", 0.5))
    ]
    pd.concat(tables).to_csv(tmp_path / "data.csv", index=False)
    law = sjepa.Law.from_string(["p", "-1.69*q"], ["q", "p"])
    (tmp_path / "law.json").write_text(law.to_json())
    return tmp_path


def test_help_needs_none_of_the_heavy_packages() -> None:
    code = (
        "import sys, time, contextlib, io\n"
        "from sjepa.cli import main\n"
        "sys.argv = ['sjepa', '--help']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "heavy = {'torch', 'pandas', 'pyarrow', 'scipy', 'sympy', 'numpy', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert time.process_time() < 2.0\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert "discover" in out.stdout and "benchmark" in out.stdout


def test_every_place_to_write_to_has_the_same_short_name() -> None:
    for module in pkgutil.iter_modules(sjepa.cli.__path__):
        importlib.import_module(f"sjepa.cli.{module.name}")
    commands = getattr(typer.main.get_command(app), "commands", {})
    options = [o for c in commands.values() for o in getattr(c, "params", []) if o.name == "out"]
    assert len(options) >= 7 and {tuple(o.opts) for o in options} == {("--out", "-o")}


def test_the_version_is_printed() -> None:
    out = run("--version")
    assert out.returncode == 0 and out.stdout == f"sjepa {sjepa.__version__}\n"


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", 130, "stopped."),
        ("raise ImportError('no C extension') from KeyboardInterrupt()", 130, "stopped."),
        ("raise MemoryError", 2, "not enough memory to start; close other programs."),
        ("raise ImportError('no C extension') from MemoryError()", 2, "not enough memory to start"),
    ],
)
def test_what_happens_while_it_loads_is_told_in_one_line(
    body: str, code: int, told: str, tmp_path: Path
) -> None:
    """A signal or the end of memory during an import, bare or turned into an ImportError."""
    (tmp_path / "typer.py").write_text(body)
    out = subprocess.run(
        [sys.executable, "-m", "sjepa", "--help"], capture_output=True, text=True,
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "PATH": "/usr/bin"},
        # A shell starts background jobs with Ctrl-C ignored, and Python keeps it so.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert out.returncode == code and out.stderr.startswith(f"sjepa: {told}"), out.stderr
    assert out.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        "export law.json --out mine",
        "report law.json --out mine",
        "discover data.csv --time clock --id run --out mine.json",
        "discover data.csv --time clock --id run --out mine",
        "simulate law.json --start 1,0 --times 0,1 --out mine.csv",
    ],
)
def test_nothing_is_replaced_without_force(folder: Path, command: str) -> None:
    for name in ("mine", "mine.json", "mine.csv"):
        (folder / name).write_text("precious")
    out = run(*command.split(), cwd=folder)
    assert out.returncode == 2 and "mine" in out.stderr and out.stdout == "", out.stderr
    assert {(folder / n).read_text() for n in ("mine", "mine.json", "mine.csv")} == {"precious"}
    if "--out mine" in command and "discover" in command and not command.endswith("json"):
        return  # a file is not replaced by a folder
    out = run(*command.split(), "--force", cwd=folder)
    assert out.returncode == 0, out.stderr
    assert (folder / command.split()[-1]).read_text() != "precious"


def test_force_replaces_a_run_and_only_a_run(folder: Path) -> None:
    found = ("discover", "data.csv", "--time=clock", "--id=run", "--out=out")
    assert run(*found, cwd=folder).returncode == 0
    (folder / "out" / "notes.txt").write_text("precious")
    out = run(*found, "--force", cwd=folder)
    assert out.returncode == 2 and (folder / "out" / "notes.txt").read_text() == "precious"
    (folder / "out" / "notes.txt").unlink()
    assert run(*found, cwd=folder).returncode == 2
    assert run(*found, "--force", cwd=folder).returncode == 0
    assert not list(folder.glob(".*"))


def test_discover_prints_the_front_and_leaves_what_other_commands_read(folder: Path) -> None:
    out = run("discover", "data.csv", "--time=clock", "--id=run", "--out=found", cwd=folder)
    assert out.returncode == 0, out.stderr
    lines = out.stdout.splitlines()
    assert lines[:2] == ["q' = p", "p' = -1.69*q"]
    chosen = [line for line in lines if line.startswith(">")]
    assert len(chosen) == 1 and "p' = -1.69*q" in chosen[0] and "loss" in out.stdout
    model = sjepa.load(folder / "found")
    assert model.law_.lines(4) == lines[:2] and len(model.front_) == sum(
        "; p' = " in line for line in lines
    )
    latex = run("export", "found", "--to", "latex", cwd=folder)
    assert latex.stdout == run("export", "law.json", "--to", "latex", cwd=folder).stdout
    told = json.loads(run("report", "found", "--json", cwd=folder).stdout)
    assert told["laws"] == len(model.front_) and told["score"] > 0.9999
    page = (folder / "report.html").read_text()
    assert 'id="pareto"' in page and "exp-A" in page and "exp-B" in page


@pytest.mark.parametrize("made_by", ["fit --encoder=identity", "discover"])
def test_a_run_remembers_how_its_columns_are_read(folder: Path, made_by: str) -> None:
    given = (*made_by.split(), "data.csv", "--time=clock", "--id=run", "--out=made")
    assert run(*given, cwd=folder).returncode == 0
    coded = run("encode", "made", "data.csv", cwd=folder)
    assert coded.returncode == 0, coded.stderr
    table = pd.read_csv(pd.io.common.StringIO(coded.stdout))
    assert list(table["trajectory"].unique()) == ["exp-A", "exp-B"]
    np.testing.assert_allclose(table["t"], np.concatenate([T, T]))
    moved = run("simulate", "made", "--data", "data.csv", cwd=folder)
    assert moved.returncode == 0, moved.stderr
    path = pd.read_csv(pd.io.common.StringIO(moved.stdout))
    assert list(path["trajectory"].unique()) == ["exp-A", "exp-B"]
    np.testing.assert_allclose(path["q"][: len(T)], np.cos(1.3 * T), atol=1e-3)


def test_brackets_in_a_path_are_no_markup(tmp_path: Path) -> None:
    """Rich would take [/b] for the end of bold and fail after the fit, with its own exception."""
    oscillators(4, 40, mixed=False).to_csv(tmp_path / "data.csv", index=False)
    given = ["fit", "data.csv", "--id=run", "--encoder=identity", "--out=a[/b]"]
    out = run(*given, cwd=tmp_path)
    assert out.returncode == 0 and "a[/b]" in out.stderr, out.stderr
    assert sjepa.load(tmp_path / "a[" / "b]").law_.inputs == ("q", "p")
