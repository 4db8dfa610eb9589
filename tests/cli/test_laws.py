"""Commands that use a law or a run: simulate, encode, report, export."""

from __future__ import annotations

import ast
import ctypes
import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sympy
import torch

import sjepa
from sjepa.runs.inspection import stamped
from sjepa.storage import write_json
from tests.command import run


T = np.arange(0.0, 8.0, 0.05)
STATES = [
    a * np.stack([np.cos(1.3 * T + b), -1.3 * np.sin(1.3 * T + b)], axis=1)
    for a, b in ((0.5, 0.0), (1.0, 1.0), (1.5, 2.0))
]
LAW = sjepa.Law.from_string(["p", "-1.69*q"], ["q", "p"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A law, states in a table, and a damaged and a foreign file."""
    (tmp_path / "law.json").write_text(LAW.to_json())
    rows = [
        pd.DataFrame({"run": i, "t": T, "q": x[:, 0], "p": x[:, 1]}) for i, x in enumerate(STATES)
    ]
    pd.concat(rows).to_csv(tmp_path / "states.csv", index=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text(LAW.to_json()[:40])
    (tmp_path / "force.json").write_text(sjepa.Law.from_string("q*p", ["q", "p"], ["f"]).to_json())
    forced = sjepa.Law.from_string("u - x", ["x", "u"], ["x"])
    (tmp_path / "forced.json").write_text(forced.to_json())
    (tmp_path / "up.json").write_text(sjepa.Law.from_string("x**2", ["x"]).to_json())
    return tmp_path


MIXING = np.random.default_rng(0).normal(size=(2, 5))


@pytest.fixture
def fitted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> sjepa.SJEPA:
    """A run whose encoder undoes a mixing of the states."""
    back = np.linalg.pinv(MIXING)
    observed = [x @ MIXING for x in STATES]
    model = sjepa.SJEPA(encoder=lambda x: np.asarray(x) @ back).fit(observed, T)
    frames = [
        pd.DataFrame({"t": T, "trajectory": i, **{f"s{k}": c for k, c in enumerate(x.T)}})
        for i, x in enumerate(observed)
    ]
    pd.concat(frames).to_parquet(folder / "observed.parquet")
    (folder / "run").mkdir()
    (folder / "run" / "config.json").write_text("{}")
    monkeypatch.setattr(sjepa, "load", lambda path: model, raising=False)
    return model


def test_simulate_follows_a_law_from_a_state(folder: Path) -> None:
    out = run(
        "simulate",
        "law.json",
        "--start",
        "p=0,q=1",
        "--times",
        "0:2:0.1",
        "-o",
        "a.csv",
        cwd=folder,
    )
    assert out.returncode == 0, out.stderr
    table = pd.read_csv(folder / "a.csv")
    assert list(table) == ["trajectory", "t", "q", "p"] and len(table) == 21
    np.testing.assert_allclose(table["q"], np.cos(1.3 * table["t"]), atol=1e-7)
    out = run("simulate", "law.json", "--start", "1,0", "--times", "0,0.5,2", "--json", cwd=folder)
    told = json.loads(out.stdout)
    np.testing.assert_allclose(told["table"]["q"], np.cos(1.3 * np.array([0, 0.5, 2])), atol=1e-7)
    assert told["status"] == ["ok"]


def test_simulate_starts_where_the_data_start(folder: Path) -> None:
    out = run("simulate", "law.json", "--data", "states.csv", "--id", "run", cwd=folder)
    table = pd.read_csv(pd.io.common.StringIO(out.stdout))
    np.testing.assert_allclose(table[["q", "p"]], np.concatenate(STATES), atol=1e-6)


def test_columns_are_found_by_the_names_of_the_law(folder: Path) -> None:
    table = pd.read_csv(folder / "states.csv")
    table = table.assign(noise=1.0)[["noise", "p", "t", "q", "run"]]
    table.to_csv(folder / "mixed.csv", index=False)
    out = run("simulate", "law.json", "--data", "mixed.csv", "--id", "run", cwd=folder)
    found = pd.read_csv(pd.io.common.StringIO(out.stdout))
    np.testing.assert_allclose(found[["q", "p"]], np.concatenate(STATES), atol=1e-6)
    t = np.linspace(0, 3, 301)
    exact = (np.sin(t) - np.cos(t) + np.exp(-t)) / 2  # x' = u - x with u = sin t
    pd.DataFrame({"u": np.sin(t), "x": exact, "t": t}).to_csv(folder / "forced.csv", index=False)
    out = run("simulate", "forced.json", "--data", "forced.csv", cwd=folder)
    found = pd.read_csv(pd.io.common.StringIO(out.stdout))
    # Actions are held for a step of 0.01: on average half a step late, and sin rises by 1 at most.
    np.testing.assert_allclose(found["x"], exact, atol=0.005)


def test_simulate_takes_actions_from_the_line(folder: Path) -> None:
    """x' = u - x from 0: closed forms for a constant, for sin t, and for steps from a file."""

    def path(*u: str) -> pd.DataFrame:
        given = ("simulate", "forced.json", "--start=0", "--times=0:3:0.5", *u)
        out = run(*given, cwd=folder)
        assert out.returncode == 0, out.stderr
        return pd.read_csv(pd.io.common.StringIO(out.stdout))

    table = path("--u", "u=0.5")
    np.testing.assert_allclose(table["x"], 0.5 * (1 - np.exp(-table["t"])), atol=1e-7)
    table = path("--u", "u = sin(t)")  # not held from time to time: exact on a coarse grid
    t = table["t"]
    np.testing.assert_allclose(table["x"], (np.sin(t) - np.cos(t) + np.exp(-t)) / 2, atol=1e-6)
    pd.DataFrame({"t": [0.0, 1.0, 9.0], "u": [1.0, 0.0, 5.0]}).to_csv(folder / "u.csv", index=False)
    table = path("--u", "u.csv")
    rise, fall = 1 - np.exp(-t), (1 - np.exp(-1.0)) * np.exp(1 - t)
    np.testing.assert_allclose(table["x"], np.where(t <= 1, rise, fall), atol=1e-7)


def test_a_pause_in_a_file_of_actions_is_a_value_that_was_held(folder: Path) -> None:
    t = np.concatenate([np.arange(0, 3, 0.1), np.arange(13, 16, 0.1)])
    pd.DataFrame({"t": t, "u": np.where(t < 10, np.sin(t), 1.0)}).to_csv(folder / "u.csv")
    given = ("simulate", "forced.json", "--start=0", "--times=0:15:0.1", "--u", "u.csv")
    out = run(*given, cwd=folder)
    assert out.returncode == 0, out.stderr
    path = pd.read_csv(pd.io.common.StringIO(out.stdout))
    np.testing.assert_allclose(path["x"][125], np.sin(2.9), atol=1e-3)  # what x' = u - x goes to


def test_a_diverging_path_ends_and_is_said(folder: Path) -> None:
    # x' = x² from 1 reaches infinity at t = 1.
    out = run("simulate", "up.json", "--start", "1", "--times", "0:3:0.01", "--json", cwd=folder)
    told = json.loads(out.stdout)
    assert told["status"] == ["diverged"] and told["table"]["t"][-1] == pytest.approx(
        0.99, abs=0.011
    )
    assert "diverges after t = 0.9" in out.stderr and out.returncode == 0


def test_encode_gives_the_coordinates_of_observations(folder: Path, fitted: sjepa.SJEPA) -> None:
    out = run("encode", "run", "observed.parquet", "-o", "z.parquet", "--json", cwd=folder)
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout) == {
        "table": "z.parquet", "coordinates": ["z1", "z2"], "rows": 480, "trajectories": 3,
    }  # fmt: skip
    again = sjepa.data.read(folder / "z.parquet")  # the commands read what the others write
    np.testing.assert_allclose(np.concatenate(again.x), np.concatenate(STATES), atol=1e-9)


def test_simulate_and_report_take_a_run(folder: Path, fitted: sjepa.SJEPA) -> None:
    out = run("simulate", "run", "--data", "observed.parquet", cwd=folder)
    table = pd.read_csv(pd.io.common.StringIO(out.stdout))
    np.testing.assert_allclose(table[["z1", "z2"]], np.concatenate(STATES), atol=1e-2)
    out = run("report", "run", "--data", "observed.parquet", "--json", cwd=folder)
    assert out.returncode == 0, out.stderr
    told = json.loads(out.stdout)
    assert (
        told["page"] == "report.html"
        and told["score"] > 0.999
        and told["laws"] == len(fitted.front_)
    )
    assert "Simulated from the first point" in (folder / "report.html").read_text()


def test_report_finds_the_data_that_a_run_began_with(folder: Path, fitted: sjepa.SJEPA) -> None:
    source = {"path": str(folder / "observed.parquet"), "time": "t", "id": "trajectory"}
    source |= {"columns": None, "actions": [], "missing": "raise", "gaps": "cut"}
    write_json(folder / "run" / "run.json", "sjepa-run", 1, {"asked": {"data": stamped(source)}})
    assert json.loads(run("report", "run", "--json", cwd=folder).stdout)["score"] > 0.999
    write_json(folder / "run" / "run.json", "sjepa-run", 1, {"asked": {}})  # begun in Python
    again = run("report", "run", "--json", "--force", cwd=folder)
    assert json.loads(again.stdout)["score"] is None
    for damaged in ({"path": 3}, {"path": "x"}, {**source, "columns": [3]}, 7):
        write_json(folder / "run" / "run.json", "sjepa-run", 1, {"asked": {"data": damaged}})
        out = run("report", "run", "--json", "--force", cwd=folder)
        assert out.returncode == 2 and "run.json is damaged" in out.stderr


def test_report_of_a_law_without_data_says_what_is_missing(folder: Path) -> None:
    out = run("report", "law.json", "-o", "page.html", "--title", "<i>", cwd=folder)
    assert out.stdout == "Written: page.html\n" and "give a file of states" in out.stderr
    assert "<h1>&lt;i&gt;</h1>" in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("simulate law.json --start 1 --times 0:1:0.1", "the state is q, p"),
        ("simulate law.json --start 1,x --times 0:1:0.1", "not a list of numbers for q, p"),
        ("simulate law.json --start q=1,v=2 --times 0:1:0.1", "must name each of q, p once"),
        ("simulate law.json --start 1,0", "Give the times"),
        ("simulate law.json --times 0:1:0.1", "Give where to start"),
        ("simulate law.json --start 1,0 --data states.csv", "Give where to start"),
        ("simulate law.json --start 1,0 --times 0:1", "start:stop:step"),
        ("simulate law.json --start 1,0 --times 1:0:0.1", "must go forward"),
        ("simulate law.json --start 1,0 --times 0:1:1e-12", "rows, more than"),
        ("simulate law.json --start 1,0 --times 0,2,1", "increasing t"),
        ("simulate law.json --start 1,nan --times 0,1", "z0 must be finite"),
        ("simulate law.json --start 1,0 --times 0,1 --out a.xlsx", "use .csv or .parquet"),
        ("simulate law.json --start 1,0 --times 0,1 --out no/a.csv", "create it first"),
        ("simulate law.json --start 1,0 --times 0,1 --method Euler", "solver"),
        ("simulate law.json --data states.csv --columns q --id run", "not the state q, p"),
        ("simulate force.json --start 1,0 --times 0,1", "outputs must be its first inputs"),
        ("simulate forced.json --start 1 --times 0,1", "has the actions u"),
        ("simulate forced.json --start 1 --times 0,1 --u v=1", "must give each of u once"),
        ("simulate forced.json --start 1 --times 0,1 --u u=1 --u u=2", "must give each of u once"),
        ("simulate forced.json --start 1 --times 0,1 --u u=x", "a formula of t"),
        ("simulate forced.json --start 1 --times 0,1 --u u=open(t)", "a formula of t"),
        ("simulate forced.json --start 1 --times 0,1 --u none.csv", "no such file"),
        ("simulate law.json --start 1,0 --times 0,1 --u u=1", "has no actions"),
        ("simulate law.json --data states.csv --id run --u u=1", "leave --u out"),
        ("simulate broken.json --start 1,0 --times 0,1", "not JSON"),
        ("simulate missing --start 1,0 --times 0,1", "missing does not exist"),
        ("encode missing states.csv", "missing does not exist"),
        ("encode run states.csv --id run", "fitted on 5"),
        ("encode law.json states.csv", "not the folder of a run"),
        ("encode empty states.csv", "not the folder of a run"),
        ("export empty", "neither a law.json nor"),
        ("report empty", "neither a law.json nor"),
        ("report missing", "missing does not exist"),
        ("report law.json -o no/report.html", "create it first"),
        ("report law.json --data states.csv --time when", "when"),
    ],
)
def test_mistakes_end_in_one_line(
    folder: Path, fitted: sjepa.SJEPA, command: str, part: str
) -> None:
    before = {p.name for p in folder.iterdir()}
    out = run(*command.split(), cwd=folder)
    lines = [line for line in out.stderr.splitlines() if line.startswith("sjepa:")]
    assert out.returncode == 2, out.stderr
    assert len(lines) == 1 and part in lines[0]
    assert {p.name for p in folder.iterdir()} == before


# Exports: every text is what it says, checked by running it ------------------------------------

RICH = sjepa.Law.from_string(
    ["p + 0.1*exp(-q**2)", "-0.98*sin(q) - 0.4*p*abs(p) + max(q, 0.3) + q**3/7"], ["q", "p"]
)
POINTS = np.random.default_rng(1).uniform(-2, 2, (40, 2))


def exported(tmp_path: Path, language: str) -> str:
    (tmp_path / "rich.json").write_text(RICH.to_json())
    out = run("export", "rich.json", "--to", language, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    return out.stdout


def values_of(text: str, language: str, folder: Path) -> Any:
    names: dict[str, Any] = {}
    match language:
        case "sympy":
            q, p = sympy.symbols("q p", real=True)
            lines = [sympy.sympify(line, locals={"q": q, "p": p}) for line in text.splitlines()]
            return np.stack([sympy.lambdify((q, p), e)(*POINTS.T) for e in lines], axis=1)
        case "python" | "numpy":
            exec(text, names)
            return names["law"](POINTS)
        case "torch":
            exec(text, names)
            return names["Law"]()(torch.tensor(POINTS)).detach().numpy()
        case "json":
            return sjepa.Law.from_json(text).numpy()(POINTS)
        case "casadi":
            import casadi

            function = casadi.Function.deserialize(text.strip())
            return np.array([np.asarray(function(point))[:, 0] for point in POINTS])
    (folder / "law.c").write_text(text)
    command = [
        "cc",
        "-std=c99",
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
        "law.so",
        "law.c",
        "-lm",
    ]
    subprocess.run(command, check=True, cwd=folder)
    function = ctypes.CDLL(str(folder / "law.so")).law
    rows = []
    for point in POINTS:
        out = (ctypes.c_double * 2)()
        function((ctypes.c_double * 2)(*point), out)
        rows.append(list(out))
    return np.array(rows)


@pytest.mark.parametrize("language", ["sympy", "python", "numpy", "torch", "json", "casadi", "c"])
def test_exported_text_computes_the_law(tmp_path: Path, language: str) -> None:
    if language == "c" and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    values = values_of(exported(tmp_path, language), language, tmp_path)
    np.testing.assert_allclose(values, RICH.numpy()(POINTS), rtol=1e-12, atol=1e-12)


def test_exported_markup_is_well_formed(tmp_path: Path) -> None:
    for line in exported(tmp_path, "mathml").splitlines():
        assert ET.fromstring(line).tag.endswith("math")
    from matplotlib.mathtext import MathTextParser

    for line in exported(tmp_path, "latex").splitlines():
        MathTextParser("agg").parse(f"${line}$")
    # Not run here, but its right-hand sides are also Python once powers are spelled as there.
    julia = exported(tmp_path, "julia").strip().splitlines()[-1]
    assert julia.startswith("law(q, p) = (")
    ast.parse(julia.split(" = ", 1)[1].replace("^", "**"))


def test_a_hall_of_fame_becomes_a_torch_module(tmp_path: Path) -> None:
    csv = 'Complexity,Loss,Equation\n1,0.5,"x0"\n3,1e-12,"square(x0) * 1.5 + cos(x1)"\n'
    (tmp_path / "hall_of_fame.csv").write_text(csv)
    out = run("export", "hall_of_fame.csv", "--to", "torch", "--out", "law.py", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    names: dict[str, Any] = {}
    exec((tmp_path / "law.py").read_text(), names)
    module = names["Law"]()
    assert module.c.requires_grad
    expected = 1.5 * POINTS[:, 0] ** 2 + np.cos(POINTS[:, 1])
    np.testing.assert_allclose(module(torch.tensor(POINTS)).detach().numpy()[:, 0], expected)
