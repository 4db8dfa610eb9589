"""With a real Julia: the operators and a real search. Elsewhere only the looking for it."""

import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sjepa.backend import Budget, Problem
from sjepa.errors import BackendError, ConfigError
from sjepa.symbolic import Grammar, Law, Library
from sjepa.symbolic.operators import OPERATORS
from sjepa_backends.pysr import PySR, PySRTemplate, julia_available, stop_workers
from sjepa_backends.pysr.julia import announce_download, find_julia
from sjepa_julia import definitions


JULIA, WHY_NOT = find_julia()
needs_julia = pytest.mark.skipif(not JULIA, reason=WHY_NOT)
needs_pysr = pytest.mark.skipif(not julia_available()[0], reason=julia_available()[1])

FOLDER = Path(str(files("sjepa_julia")))


def run_julia(*arguments: str) -> str:
    command = [JULIA, "--startup-file=no", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


def program(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No Julia in any of the places where it is looked for."""
    for name in ("PYTHON_JULIAPKG_EXE", "JULIA_DEPOT_PATH", "PYTHON_JULIACALL_EXE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHON_JULIAPKG_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("JULIAUP_DEPOT_PATH", str(tmp_path / "juliaup"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_julia_is_looked_for_where_juliapkg_looks(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_julia()[0] == "" and find_julia()[1].startswith("no Julia:")
    old = program(nowhere / "julia", "echo julia version 1.6.7")
    assert "1.6.7, which PySR does not run on" in find_julia()[1]
    installed = nowhere / "project" / "pyjuliapkg" / "install" / "bin"
    installed.mkdir(parents=True)
    good = program(installed / "julia", "echo julia version 1.10.10")
    assert find_julia() == (str(good), "")
    monkeypatch.setenv("PYTHON_JULIAPKG_EXE", str(nowhere / "nosuch"))
    assert "nosuch is not a Julia executable" in find_julia()[1]  # juliapkg stops there too
    monkeypatch.setenv("PYTHON_JULIAPKG_EXE", str(good))
    assert find_julia()[0] == str(good) != str(old)


def test_what_juliacall_is_told_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = program(nowhere / "theirs", "echo julia version 1.10.10")
    ours = program(nowhere / "ours", "echo julia version 1.11.1")
    monkeypatch.setenv("PYTHON_JULIAPKG_EXE", str(theirs))
    monkeypatch.setenv("PYTHON_JULIACALL_EXE", str(ours))
    assert find_julia()[0] == str(theirs)  # without a project, juliacall asks juliapkg
    monkeypatch.setenv("PYTHON_JULIACALL_PROJECT", str(nowhere))
    assert find_julia()[0] == str(ours)
    ours.unlink()
    assert "not a Julia executable" in find_julia()[1]


def test_the_reason_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert julia_available() == (False, "pysr is not installed (pip install pysr)")


def test_a_download_of_julia_is_announced_once_and_only_where_it_happens(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    announce_download.cache_clear()
    with pytest.warns(UserWarning, match="operon"):
        announce_download()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        announce_download()
        announce_download.cache_clear()
        program(nowhere / "julia", "echo julia version 1.10.10")
        announce_download()


@pytest.mark.julia
@needs_julia
def test_the_julia_test_file_passes() -> None:
    run_julia(str(FOLDER / "runtests.jl"))


@pytest.mark.julia
@needs_julia
@pytest.mark.parametrize("name", sorted(set(definitions()) & set(OPERATORS)))
def test_operators_have_the_same_values_in_julia_and_python(name: str) -> None:
    row = OPERATORS[name]
    edges = [0.0, 1e-7, 5e-4, 1e-3, 0.7, 1.3, 19.0, 25.0]
    grid = np.array([s * x for s in (-1, 1) for x in edges])
    points = np.stack(np.meshgrid(*[grid] * (row.arity or 1)), -1).reshape(-1, row.arity or 1)
    calls = [f"{name}({', '.join(map(repr, p))})" for p in points.tolist()]
    code = definitions()[name] + "; foreach(println, [" + ", ".join(calls) + "])"
    values = np.array(run_julia("-e", code).split(), dtype=float)
    # Both are double precision; exp and log may differ in the last digit.
    np.testing.assert_allclose(values, row.numpy(*points.T), rtol=1e-14, atol=0)


@pytest.fixture(scope="module")
def worker() -> Iterator[None]:
    yield
    stop_workers()


def pendulum(**changes: Any) -> Problem:
    z = np.random.default_rng(0).uniform(-2, 2, (300, 2))
    dz = np.column_stack([z[:, 1], -np.sin(z[:, 0])])
    return Problem(z, dz, ["q", "p"], budget=Budget(seconds=120), **changes)


PENDULUM = Law.from_string(["p", "-sin(q)"], ["q", "p"])
SMALL = PySR(niterations=12, populations=6, maxsize=8)


@pytest.mark.julia
@needs_pysr
def test_a_real_search_finds_the_pendulum_twice_alike(worker: None) -> None:
    lines: list[str] = []
    problem = pendulum(
        grammar=Grammar(["+", "-", "*", "sin", "safe_div", "exp_clip"], ["q", "p"]),
        progress=lambda line, _: lines.append(line),
    )
    front = SMALL.search(problem)
    assert front.best() == PENDULUM
    assert any("Complexity" in line for line in lines)
    assert [c.law for c in SMALL.search(problem)] == [c.law for c in front]
    warm = SMALL.search(problem.with_(warm=front))
    assert warm.best() == PENDULUM


@pytest.mark.julia
@needs_pysr
def test_a_real_search_keeps_to_masks(worker: None) -> None:
    masks = {"q": {"inputs": ["p"]}, "p": {"inputs": ["q"]}}
    problem = pendulum(grammar=Grammar(["+", "*", "sin"], ["q", "p"], masks=masks))
    front = SMALL.search(problem)
    assert front.best() == PENDULUM and all(problem.admits(c.law) for c in front)


@pytest.mark.julia
@needs_pysr
def test_a_real_search_over_a_library(worker: None) -> None:
    library = Library.from_terms(["1", "q", "p", "sin(q)", "q**2"], ["q", "p"])
    weights = np.linspace(0.5, 1.5, 300)
    assert SMALL.search(pendulum(library=library, weights=weights)).best() == PENDULUM


@pytest.mark.julia
@needs_pysr
def test_a_real_search_with_a_template(worker: None) -> None:
    problem = pendulum(grammar=Grammar(["+", "-", "*", "sin"], ["q", "p"]))
    template = {"p": PySRTemplate("c[1] * f(q)", ["f"], {"c": 1})}
    backend = PySR(niterations=12, populations=6, template=template)
    assert backend.search(problem).best() == PENDULUM


@pytest.mark.julia
@needs_pysr
def test_a_real_failure_leaves_the_worker_in_order(worker: None) -> None:
    problem = pendulum(grammar=Grammar(["+", "-", "*", "sin"], ["q", "p"]))
    with pytest.raises(BackendError, match="UndefVarError"):
        PySR(options={"elementwise_loss": "nosuchloss()"}).search(problem)
    assert SMALL.search(problem).best() == PENDULUM


@pytest.mark.julia
@needs_pysr
def test_a_real_search_finds_both_terms_of_experiment_2_whatever_the_seed(worker: None) -> None:
    z = np.random.default_rng(0).uniform(-2, 2, (300, 2))
    q, p = z.T
    targets = np.column_stack([p, -np.sin(q) - 0.4 * p * np.abs(p)])
    masks = {"q": {"terms": ["p"]}, "p": {"terms": ["sin(q)", "p*Abs(p)"]}}
    grammar = Grammar(["+", "-", "*", "sin", "abs"], ["q", "p"], masks=masks)
    truth = Law.from_string(["p", "-sin(q) - 0.4*p*Abs(p)"], ["q", "p"])
    backend = replace(SMALL, maxsize=20)  # the law costs 13
    for seed in range(6):
        front = backend.search(Problem(z, targets, ["q", "p"], grammar=grammar, seed=seed))
        assert front.best().round(6) == truth


@pytest.mark.julia
@needs_pysr
def test_real_losses_units_logs_and_hall_of_fame(worker: None, tmp_path: Path) -> None:
    """Numbers are those of PySR's own search, so they are near and not exact."""
    pytest.importorskip("pint")
    grammar = Grammar(["+", "-", "*", "sin"], ["q", "p"])
    units = {"q": "", "p": "1/s", "q'": "1/s", "p'": "1/s**2"}
    backend = PySR(
        niterations=12, populations=6, elementwise_loss="L1DistLoss()",
        hall_of_fame=str(tmp_path / "kept"),
        dimensional_constraint_penalty=100.0,
    )  # fmt: skip
    found = backend.search(pendulum(grammar=grammar, units=units)).best()
    z = np.random.default_rng(1).uniform(-2, 2, (200, 2))
    np.testing.assert_allclose(found.numpy()(z), PENDULUM.numpy()(z), atol=0.02)
    assert list((tmp_path / "kept").glob("*/hall_of_fame*.csv"))


@pytest.mark.julia
@needs_pysr
def test_real_tensorboard_logs_are_written_or_refused_before_the_search(
    worker: None, tmp_path: Path
) -> None:
    backend = replace(SMALL, tensorboard=str(tmp_path / "logs"))
    problem = pendulum(grammar=Grammar(["+", "-", "*", "sin"], ["q", "p"]))
    try:
        backend.search(problem)
    except ConfigError as error:
        assert "TensorBoardLogger.jl" in str(error)
    else:
        assert list((tmp_path / "logs").glob("events*"))


@pytest.mark.julia
@needs_pysr
def test_a_real_syntax_error_is_told_with_its_text(worker: None) -> None:
    from sjepa.errors import BackendError

    problem = pendulum(grammar=Grammar(["+", "-", "*", "sin"], ["q", "p"]))
    with pytest.raises(BackendError, match=r"ParseError: .*f\(x, y\) = x \+"):
        PySR(elementwise_loss="f(x, y) = x +").search(problem)
