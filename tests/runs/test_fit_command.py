"""``sjepa fit``: from a file to a law, with options from the line or from a file."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch

import sjepa
from sjepa import Law
from sjepa.cli.settings import in_options, number_or_name, pairs_of
from sjepa.errors import ConfigError, DataError
from sjepa.training.rollout_fit import refine
from tests.command import run as command

from .small import oscillators


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    oscillators(6, 40, mixed=False).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path


def test_fit_prints_the_law_and_leaves_a_model(folder: Path) -> None:
    out = command("fit", "data.csv", "--id=run", "--encoder=identity", "--out=my_run", cwd=folder)
    assert out.returncode == 0, out.stderr
    assert out.stdout.splitlines() == ["q' = 1.3*p", "p' = -1.3*q"]
    assert "Written to my_run" in out.stderr
    model = sjepa.load(folder / "my_run")
    assert model.law_.lines(2) == out.stdout.splitlines()
    metrics = model.history_.set_index("metric")["value"]
    assert metrics["omega_terms"] == 2.0 and metrics["front_size"] == len(model.front_)
    assert "fit ends: q' = 1.3*p" in (folder / "my_run" / "log.txt").read_text()
    assert logging.getLogger("sjepa").handlers == []


def test_options_come_from_a_file_and_the_line_comes_first(folder: Path) -> None:
    (folder / "fit.toml").write_text(
        'data = "data.csv"\nid = "run"\nencoder = "identity"\nlibrary = ["q", "p", "q**3"]\n'
        'random-state = 5\ndelta = 0.5\nbackend = { name = "stlsq", threshold = 0.2 }\nout = "from_file"\n'
    )
    out = command(
        "fit", "--config=fit.toml", "--delta=auto", "--random-state=7",
        "--set=backend.ridge=1e-9", "--json", cwd=folder,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout)
    assert result["equations"] == ["q' = 1.3*p", "p' = -1.3*q"]
    assert result["score"] > 0.999 and result["run"] == "from_file"
    assert {"complexity", "loss", "equation"} <= result["front"][0].keys()
    asked = json.loads((folder / "from_file" / "run.json").read_text())["asked"]["settings"]
    assert asked["random_state"] == 7
    assert asked["backend"] == {"name": "stlsq", "threshold": 0.2, "ridge": 1e-9}


def test_a_finished_run_is_not_done_again(folder: Path) -> None:
    given = ["fit", "data.csv", "--id=run", "--encoder=identity", "--out=my_run"]
    first = command(*given, cwd=folder)
    written = (folder / "my_run" / "config.json").stat().st_mtime_ns
    again = command("fit", "--resume=my_run", cwd=folder)
    assert again.returncode == 0 and again.stdout == first.stdout
    assert (folder / "my_run" / "config.json").stat().st_mtime_ns == written


def test_data_that_moved_can_be_named_and_other_data_are_refused(folder: Path) -> None:
    command("fit", "data.csv", "--id=run", "--encoder=identity", "--out=my_run", cwd=folder)
    (folder / "data.csv").rename(folder / "moved.csv")
    out = command("fit", "--resume=my_run", cwd=folder)
    assert out.returncode == 2 and "sjepa fit DATA --resume my_run" in out.stderr
    assert command("fit", "moved.csv", "--resume=my_run", cwd=folder).returncode == 0
    oscillators(5, 40, mixed=False).to_csv(folder / "other.csv", index=False)
    out = command("fit", "other.csv", "--resume=my_run", cwd=folder)
    assert out.returncode == 2 and "The data are not those" in out.stderr


def test_values_on_the_line() -> None:
    given = ["a=1", "b=0.5", "c=True", "d=SR3", "e=[1, 2]", "f="]
    expected = {"a": 1, "b": 0.5, "c": True, "d": "SR3", "e": [1, 2], "f": ""}
    assert pairs_of(given, "--set") == expected
    assert (number_or_name("0.01"), number_or_name("t"), number_or_name(None)) == (0.01, "t", None)


FIT = {"latent_dim", "missing", "encoder", "time", "columns", "library", "search", "order"}


@pytest.mark.parametrize(
    ("message", "argument", "said"),
    [
        ("leave them out: missing='drop'.", "missing", "leave them out: --missing drop."),
        ("latent_dim must be 1, got 0.", "latent_dim", "--latent-dim must be 1, got 0."),
        ("latent_dim=7 is too many.", "latent_dim", "--latent-dim 7 is too many."),
        ("use encoder='auto'.", "encoder", "use --encoder auto."),
        ("none is a time; give time=...: a, b.", "time", "none is a time; give --time: a, b."),
        ("name some: columns=[...].", "columns", "name some: --columns."),
        ("use horizon=3 or less.", "horizon", "use --set search.horizon=3 or less."),
        ("Too many for the library.", "library", "Too many for the library. See --library."),
        ("A library of order 2.", "order", "A library of order 2. See --order."),
        ("No argument: order=2.", None, "No argument: order=2."),
    ],
)
def test_messages_name_the_option_to_change(message: str, argument: str | None, said: str) -> None:
    assert in_options(ConfigError(message, argument), FIT) == said
    assert in_options(DataError(message, argument), set()) == message


def test_a_refined_law_is_the_same_every_time() -> None:
    """Nearly equal terms make the equations of refinement singular: rounding decides there."""
    t = torch.linspace(0, 2, 60, dtype=torch.float64)
    z = 1e-3 * torch.stack([t.sin(), t.cos()], dim=-1)[None]
    law = Law.from_string(["z2 + 0.1*z1 - 0.1*sin(z1)", "-z1 + 0.1*z1 - 0.2*sin(z1)"], ["z1", "z2"])
    law = law.with_free_terms()
    junk, found = [], set()
    for i in range(12):
        junk.append(torch.full((7 + i,), i))  # memory with something in it
        found.add(refine(law, z.clone(), t.diff()[None].clone(), iterations=3).to_json())
    assert len(found) == 1


def test_a_correction_and_maps_are_reached_from_the_line(folder: Path) -> None:
    given = ["fit", "data.csv", "--id=run", "--encoder=identity", "--json"]
    out = command(*given, "--correction=neural", "--set=correction.updates=3", cwd=folder)
    assert out.returncode == 0, out.stderr
    assert any(line.startswith("rho_corr") for line in json.loads(out.stdout)["diagnostics"])
    out = command(*given, "--set=search.derivatives=discrete", cwd=folder)
    assert out.returncode == 2 and "A map needs equal steps" in out.stderr  # it was read
    out = command(*given, "--set=correction.updates=3", cwd=folder)
    assert out.returncode == 2 and "needs --correction" in out.stderr
