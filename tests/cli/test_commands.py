import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sjepa
from tests.command import run


def test_the_installed_command_answers() -> None:
    out = subprocess.run([sys.executable, "-m", "sjepa", "--help"], capture_output=True, text=True)
    assert out.returncode == 0 and "discover" in out.stdout


@pytest.fixture
def law_file(tmp_path: Path) -> Path:
    path = tmp_path / "law.json"
    path.write_text(sjepa.Law.from_string(["p", "-0.98*sin(q)"], ["q", "p"]).to_json())
    return path


@pytest.mark.parametrize(
    ("language", "part"),
    [
        ("latex", r"\dot{p} = - 0.98 \sin"),
        ("sympy", "-0.98*sin(q)"),
        ("python", "np.sin(q)"),
        ("numpy", "np.sin(q)"),
        ("torch", "torch.sin(q)"),
        ("c", "-0.98*sin(in[0])"),
        ("julia", "law(q, p) = (p, -0.98*sin(q))"),
        ("json", '"format": "sjepa-law"'),
        ("mathml", "<math"),
        ("casadi", "jhpn"),
    ],
)
def test_export_writes_every_language(law_file: Path, language: str, part: str) -> None:
    out = run("export", law_file, "--to", language)
    assert out.returncode == 0, out.stderr
    assert part in out.stdout


def test_export_reads_a_hall_of_fame(tmp_path: Path) -> None:
    path = tmp_path / "hall_of_fame.csv"
    path.write_text('Complexity,Loss,Equation\n1,0.5,"x0"\n3,1e-12,"square(x0) + inv(x1)"\n')
    out = run("export", path, "--to", "sympy", "--inputs", "x0,x1")
    assert out.stdout.strip() == "x0**2 + 1/x1"


def test_discover_reads_a_table_and_prints_the_law(tmp_path: Path) -> None:
    t = np.arange(0, 10, 0.01)
    frame = pd.DataFrame({"t": t, "q": np.cos(2 * t), "p": -2 * np.sin(2 * t)})
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = run("discover", tmp_path / "data.csv", "--time", "t", "--out", tmp_path / "law.json")
    assert out.stdout.split("\n")[:2] == ["q' = p", "p' = -4*q"]
    assert sjepa.Law.from_json((tmp_path / "law.json").read_text()).outputs == ("q", "p")
    out = run("discover", tmp_path / "data.csv", "--library", "q,p,sin(q),max(q,p)", "--json")
    assert json.loads(out.stdout)["law"]["outputs"] == ["q", "p"]


def test_the_report_of_a_discovery_shows_the_command_that_makes_it_again(tmp_path: Path) -> None:
    t = np.arange(0, 3, 0.05)
    frame = pd.DataFrame({"t": t, "q": np.cos(t), "p": -np.sin(t)})
    frame.to_csv(tmp_path / "data.csv", index=False)
    run("discover", "data.csv", "--time", "t", "--library", "q,p", "-o", "found", cwd=tmp_path)
    run("report", "found", cwd=tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "sjepa discover data.csv --time t --library q,p -o found" in page
    assert "SJEPA(" not in page


def test_backends_are_checked_by_a_search() -> None:
    rows = {r["name"]: r for r in json.loads(run("backends", "--check", "--json").stdout)}
    for name in ("stlsq", "subset"):
        assert rows[name]["works"] is True and rows[name]["search"] > 0
    if not rows["pysr"]["installed"]:
        assert "works" not in rows["pysr"]


def test_backends_lists_them_as_json() -> None:
    rows = json.loads(run("backends", "--json").stdout)
    assert {"stlsq", "subset", "pysindy", "operon", "pysr"} <= {row["name"] for row in rows}


def test_benchmark_writes_table_and_plot(tmp_path: Path) -> None:
    out = run(
        "benchmark",
        "--systems",
        "pendulum",
        "--backends",
        "stlsq",
        "--noise",
        "0",
        "--out",
        tmp_path,
    )
    assert out.returncode == 0, out.stderr
    written = {"cells", "results.parquet", "results.csv", "results.png"}
    assert {p.name for p in tmp_path.iterdir()} == written


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["export", "missing.json"], 2, "missing.json"),
        (["export", "law.txt"], 2, "is not a law.json"),
        (["discover", "missing.csv"], 2, "missing.csv"),
        (["discover", "data.csv", "--backend", "stslq"], 2, "Did you mean 'stlsq'"),
        (["discover", "data.csv", "--time", "tme"], 2, "tme"),
        (["discover", "data.csv", "--library", "q,,p"], 2, "empty term"),
        (["discover", "bad.csv"], 2, "row"),
        (["benchmark", "--systems", "pendlum"], 2, "Did you mean 'pendulum'"),
    ],
)
def test_mistakes_end_in_one_line_and_a_code(
    tmp_path: Path, arguments: list[str], code: int, part: str
) -> None:
    (tmp_path / "law.txt").write_text("x")
    t = np.arange(0, 2, 0.01)
    frame = pd.DataFrame({"t": t, "q": np.cos(t), "p": -np.sin(t)})
    frame.to_csv(tmp_path / "data.csv", index=False)
    frame.astype(object).replace({"q": {1.0: "oops"}}).to_csv(tmp_path / "bad.csv", index=False)
    out = run(*arguments, cwd=tmp_path)
    lines = [line for line in out.stderr.splitlines() if line.startswith("sjepa:")]
    assert out.returncode == code, out.stderr
    assert len(lines) == 1 and part in lines[0]


@pytest.mark.slow
def test_demo_prints_the_law() -> None:
    out = run("demo")
    assert out.returncode == 0, out.stderr
    assert "q' = p" in out.stdout and "sin(z1)" in out.stdout


def test_discover_vary_prints_and_keeps_the_coefficients_of_each_trajectory(tmp_path: Path) -> None:
    t, parts = np.arange(0, 10, 0.1), []
    for i, k in enumerate((1.0, 2.0)):
        z = sjepa.Law.from_string(["v", f"-{k}*q"], ["q", "v"]).simulate([1.0, 0.0], t).z
        parts.append(pd.DataFrame({"spring": i, "t": t, "q": z[:, 0], "v": z[:, 1]}))
    pd.concat(parts).to_csv(tmp_path / "springs.csv", index=False)
    asked = ["discover", "springs.csv", "--time", "t", "--id", "spring", "--library", "q,v"]
    done = run(*asked, "--per-trajectory", "auto", "-o", "own.csv", cwd=tmp_path)
    assert done.returncode == 0 and "coefficients that differ" in done.stdout
    own = pd.read_csv(tmp_path / "own.csv")
    np.testing.assert_allclose(own["value"], [-1.0, -2.0], rtol=1e-3)
    told = json.loads(run(*asked, "--vary", "q", "--json", cwd=tmp_path).stdout)
    assert len(told["laws"]) == 2 and {r["term"] for r in told["differing"]} == {"v': q"}


def test_discover_takes_a_known_part(tmp_path: Path) -> None:
    t = np.arange(0, 10, 0.02)
    law = sjepa.Law.from_string(["p", "-sin(q) - 0.3*p*abs(p)"], ["q", "p"])
    frame = pd.DataFrame(law.simulate([1.5, 0.0], t).z, columns=["q", "p"]).assign(t=t)
    frame.to_csv(tmp_path / "data.csv", index=False)
    known = ("--known", "q' = p", "--known", "p' = -sin(q)")
    out = run("discover", tmp_path / "data.csv", "--time", "t", *known)
    assert out.returncode == 0, out.stderr
    assert out.stdout.split("\n")[:2] == ["q' = p", "p' = -0.3*p*Abs(p) - sin(q)"]
    out = run("discover", tmp_path / "data.csv", "--time", "t", "--known", "r' = q")
    assert out.returncode == 2 and "not one equation for one of q, p" in out.stderr
