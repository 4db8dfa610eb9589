"""The real worker program, driven end to end with a stand-in for the package pysr."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sjepa.backend import Budget, Problem
from sjepa.backend.budget import count_cpu_time
from sjepa.errors import BackendError, BackendTimeout, BackendUnavailable, ConfigError
from sjepa.studies.backends import cells
from sjepa.symbolic import Candidate, Front, Grammar, Law, Library
from sjepa_backends.pysr import PySR, PySRTemplate, laws, pool, stop_workers


HERE = Path(__file__).parent
OPTIONS = HERE.parent / "data_files" / "pysr" / "signatures.json"
VERSIONS = ("1.5.10", "2.0.0a2", "2.7.2")

# One row is a float: PySR's table has no text when every equation is a constant.
PENDULUM = [
    [[1, 1.3, 0.25], [2, 0.0, "x1"]],
    [[4, 0.03, "x0 * -0.64"], [6, 1e-15, "-1.2147439e-9 - sin(x0)"]],
]

Ask = Callable[..., Any]


class Standin:
    """Where the stand-in package lives and what it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = folder / "asked.jsonl"
        self.monkeypatch = monkeypatch
        (folder / "pysr").mkdir()
        shutil.copy(HERE / "pysr_standin_module.py", folder / "pysr" / "__init__.py")
        monkeypatch.setenv("PYTHONPATH", str(folder))
        julia = folder / "julia"  # found, so that no download is announced
        julia.write_text("#!/bin/sh\necho julia version 1.10.10\n")
        julia.chmod(0o755)
        monkeypatch.setenv("PYTHON_JULIAPKG_EXE", str(julia))
        self.set(OPTIONS=str(OPTIONS), LOG=str(self.log), ROWS=json.dumps(PENDULUM))

    def set(self, **settings: str) -> None:
        for name, value in settings.items():
            self.monkeypatch.setenv(f"PYTHON_STANDIN_{name}", value)

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    yield Standin(tmp_path, monkeypatch)
    stop_workers()


def pendulum(**changes: Any) -> Problem:
    z = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    dz = np.column_stack([z[:, 1], -np.sin(z[:, 0])])
    settings: dict[str, Any] = {
        "grammar": Grammar(["+", "-", "*", "sin", "exp_clip"], ["q", "p"]),
        **changes,
    }
    return Problem(z, dz, ["q", "p"], **settings)


def previous(*laws: list[str]) -> Front:
    return Front.of(Candidate.score(Law.from_string(e, ["q", "p"]), [0.1, 0.1]) for e in laws)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_search_from_end_to_end(version: str, standin: Standin) -> None:
    standin.set(VERSION=version)
    lines: list[str] = []
    problem = pendulum(
        budget=Budget(seconds=30, iterations=7),
        seed=5,
        weights=np.linspace(0, 1, 60),
        progress=lambda line, _: lines.append(line),
    )
    front = PySR(populations=4).search(problem)
    assert front.best() == Law.from_string(["p", "-sin(q)"], ["q", "p"])
    (asked,) = standin.asked
    options = asked["options"]
    assert options["niterations"] == 7 and options["populations"] == 4
    assert options["timeout_in_seconds"] == 30
    assert options["deterministic"] and options["parallelism"] == "serial"
    assert options["random_state"] == 5
    assert options["input_stream"] == "devnull" and options["temp_equation_file"]
    assert ("warm_start" in options) == (version == "1.5.10")
    assert asked["mappings"] == ["exp_clip"]
    assert asked["modules"] == []  # neither torch nor sjepa
    # The row without weight is not sent; weights have the shape of the targets.
    np.testing.assert_array_equal(asked["inputs"], problem.inputs[1:])
    np.testing.assert_array_equal(np.transpose(asked["weights"])[0], problem.weights[1:])
    # Printed past Python on both descriptors, relayed without colors.
    assert "Progress: 3 / 12 total iterations (25.000%)" in lines
    # Rows of the hall of fame come in the names of the problem.
    row = "q = (q * q) + -0.25544  (loss 3.045e+00, size 5)\n"
    assert any(line.startswith(row) for line in lines)
    assert any(line.startswith("[juliapkg]") for line in lines)


def test_version_1_continues_with_the_same_regressor_if_the_search_is_alike(
    standin: Standin,
) -> None:
    standin.set(VERSION="1.5.10")
    problem = pendulum()
    front = PySR().search(problem)
    PySR().search(problem.with_(warm=front, seed=1))  # goes on
    PySR().search(problem.with_(warm=front, grammar=Grammar(["+", "*"], ["q", "p"])))  # cannot
    PySR().search(problem)  # starts afresh
    assert [a["fits"] for a in standin.asked] == [1, 2, 1, 1]
    assert [a["options"]["random_state"] for a in standin.asked] == [0, 1, 0, 0]
    assert len({a["pid"] for a in standin.asked}) == 1
    assert not any("guesses" in a["options"] for a in standin.asked)


def test_version_2_gets_the_previous_front_as_guesses(standin: Standin) -> None:
    warm = previous(["p", "-0.6*q"], ["p", "-sin(q) + q*p"])
    PySR().search(pendulum(warm=warm))
    (asked,) = standin.asked
    assert asked["options"]["guesses"][0] == ["x1"]
    assert asked["options"]["guesses"][1][0] == "(x0 * -0.6)"
    assert "warm_start" not in asked["options"]


def test_a_warm_start_never_ends_worse_than_it_began(standin: Standin) -> None:
    standin.set(ROWS=json.dumps([[[1, 1.3, "0.25"]], [[1, 0.5, "0.1"]]]))
    front = PySR().search(pendulum(warm=previous(["p", "-0.9*sin(q)"])))
    assert front.best() == Law.from_string(["p", "-sin(q)"], ["q", "p"])


def test_a_guess_that_julia_refuses_does_not_end_the_search(standin: Standin) -> None:
    lines: list[str] = []
    problem = pendulum(
        grammar=Grammar(["+", "*", "sin", "tanh"], ["q", "p"]),
        warm=previous(["p", "tanh(q)"]),
        progress=lambda line, _: lines.append(line),
    )
    assert len(PySR().search(problem))
    assert ["guesses" in a["options"] for a in standin.asked] == [True, False]
    assert any("Searching without guesses: ArgumentError" in line for line in lines)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_option_that_this_version_lacks_is_refused_by_name(
    version: str, standin: Standin
) -> None:
    standin.set(VERSION=version)
    with pytest.raises(
        ConfigError, match=f"PySR {version} has no option 'parsimoni'. Did you mean"
    ):
        PySR(options={"parsimoni": 0.1}).search(pendulum())
    PySR(options={"parsimony": 0.1, "populations": 3}).search(pendulum())
    (asked,) = standin.asked
    assert asked["options"]["parsimony"] == 0.1 and asked["options"]["populations"] == 3


def test_a_failed_fit_says_its_first_line_and_the_worker_goes_on(standin: Standin) -> None:
    standin.set(FIT="fails")
    for _ in range(2):
        with pytest.raises(BackendError, match="JuliaError: UndefVarError: `nosuchop`") as caught:
            PySR().search(pendulum())
        assert "Stacktrace" not in str(caught.value)
    assert len({a["pid"] for a in standin.asked}) == 1


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("offline", "could not find Julia 1.10.3 - 1.11"),
        ("download", "URLError: <urlopen error"),
        ("bad executable", "is not a Julia executable"),
        ("missing", "No module named 'juliacall'"),
    ],
)
def test_without_julia_the_error_ends_with_the_remedy(
    problem: str, message: str, standin: Standin
) -> None:
    standin.set(IMPORT=problem)
    with pytest.raises(BackendUnavailable, match=message) as caught:
        PySR().search(pendulum())
    assert "pip install pysr" in str(caught.value)


def test_a_crash_at_import_names_the_signal(standin: Standin) -> None:
    standin.set(IMPORT="crash")
    with pytest.raises(BackendError, match="killed by SIGSEGV before it was ready"):
        PySR().search(pendulum())


def test_masks_become_searches_of_their_own(standin: Standin) -> None:
    standin.set(ROWS=json.dumps([[[2, 0.0, "x0"], [3, 0.5, "sin(x0)"]]]))
    masks = {"q": {"inputs": ["p"]}, "p": {"inputs": ["q"], "operators": ["sin", "*"]}}
    problem = pendulum(
        grammar=Grammar(["+", "*", "sin"], ["q", "p"], masks=masks), budget=Budget(seconds=10)
    )
    front = PySR().search(problem)
    first, second = standin.asked
    np.testing.assert_array_equal(np.array(first["inputs"])[:, 0], problem.inputs[:, 1])
    np.testing.assert_array_equal(np.array(second["inputs"])[:, 0], problem.inputs[:, 0])
    assert first["options"]["binary_operators"] == ["+", "*"]
    assert second["options"]["binary_operators"] == ["*"]
    assert first["options"]["timeout_in_seconds"] == second["options"]["timeout_in_seconds"] == 5
    # x0 means another input in each search; the refit finds the sign.
    assert front.best() == Law.from_string(["p", "-sin(q)"], ["q", "p"])


def test_a_library_is_searched_as_linear_combinations_of_its_terms(standin: Standin) -> None:
    # x0 = q, x1 = p, x2 = sin(q); the constant must go, since the library has none.
    rows = [[[5, 0.0, "x1 + 0.1"]], [[5, 0.1, "(x2 * -0.9) + (x0 * 1.0e-9)"], [2, 0.4, "x0 * 1.1"]]]
    standin.set(ROWS=json.dumps(rows))
    library = Library.from_terms(["q", "p", "sin(q)"], ["q", "p"], weights=[1.0, 0.0, 2.0])
    problem = pendulum(grammar=None, library=library)
    front = PySR().search(problem)
    assert front.measure == "terms"
    assert front.best() == Law.from_string(["p", "-sin(q)"], ["q", "p"])
    (asked,) = standin.asked
    np.testing.assert_allclose(np.array(asked["inputs"])[:, 2], np.sin(problem.inputs[:, 0]))
    assert asked["options"]["constraints"] == {"*": [-1, 1]} and asked["tuples"]
    assert asked["complexity_of_variables"] == [2, 2, 4]  # always more than a constant's 1


def test_known_structure_is_passed_on_and_filled_in(standin: Standin) -> None:
    standin.set(
        ROWS=json.dumps([[[5, 0.0, "f = sin(#1); c = [-0.97]"], [3, 0.4, "f = #1; c = [1]"]]])
    )
    template = {"p": PySRTemplate("c[1] * f(q)", ["f"], {"c": 1})}
    problem = pendulum()
    one = problem.with_(targets=problem.targets[:, 1], outputs=["p"])
    front = PySR(template=template).search(one)
    assert front.best() == Law.from_string(["-sin(q)"], ["q", "p"], ["p"])
    (asked,) = standin.asked
    assert asked["template"] == ["c[1] * f(q)", ["f"], ["q", "p"], {"c": 1}]


def test_an_output_without_inputs_needs_no_search(standin: Standin) -> None:
    standin.set(ROWS=json.dumps(PENDULUM[1:]))
    grammar = Grammar(["+", "*", "sin"], ["q", "p"], masks={"q": {"terms": ["1"]}})
    front = PySR().search(pendulum(grammar=grammar))
    assert len(standin.asked) == 1
    assert front[0].law.expressions[0] == 0


def test_the_search_sees_a_seeded_sample_and_the_refit_sees_all(standin: Standin) -> None:
    problem = pendulum(seed=3)
    PySR(rows=20).search(problem)
    PySR(rows=20).search(problem)
    PySR(rows=20).search(problem.with_(seed=4))
    a, b, c = (asked["inputs"] for asked in standin.asked)
    assert len(a) == 20 and a == b and a != c


def test_a_worker_that_overstays_is_stopped(standin: Standin) -> None:
    standin.set(FIT="hangs")
    with pytest.raises(BackendTimeout, match="still searching"):
        PySR(grace=0.3).search(pendulum(budget=Budget(seconds=0.5)))
    assert not pool.workers


@pytest.mark.parametrize("version", VERSIONS)
def test_a_search_that_runs_out_of_time_at_once_finds_nothing(
    version: str, standin: Standin
) -> None:
    standin.set(VERSION=version, FIT="finds nothing")
    front = PySR().search(pendulum())
    assert "PySR returned no equation" in front.notes
    assert [c.law for c in front] == [Law.from_string(["0", "0"], ["q", "p"])]


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks processes up in /proc")
def test_a_killed_parent_leaves_no_worker_behind(standin: Standin, tmp_path: Path) -> None:
    standin.set(FIT="hangs")
    program = tmp_path / "parent.py"
    program.write_text(
        "import numpy as np\n"
        "from sjepa.backend import Problem\n"
        "from sjepa.symbolic import Grammar\n"
        "from sjepa_backends.pysr import PySR\n"
        "z = np.ones((5, 1))\n"
        "PySR().search(Problem(z, z, ['x'], grammar=Grammar(['+'], ['x'])))\n"
    )
    roots = [str(HERE.parents[1] / name) for name in (".", "backends", "julia")]
    path = os.pathsep.join([os.environ["PYTHONPATH"], *roots])
    parent = subprocess.Popen([sys.executable, program], env={**os.environ, "PYTHONPATH": path})
    try:
        deadline = time.monotonic() + 120
        while not standin.log.exists() and parent.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        worker, folder = standin.asked[0]["pid"], Path(standin.asked[0]["folder"])
        assert folder.exists()
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 120  # how long a failure takes; success does not wait
    while (is_running(worker) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(worker) and not folder.exists()


def is_running(pid: int) -> bool:
    try:  # a process that nobody has reaped yet is still listed, as a zombie
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_the_worker_needs_neither_torch_nor_sjepa() -> None:
    code = "import sys, sjepa_backends.pysr_worker; print({'torch', 'sjepa'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "backends")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


def test_a_prepared_worker_is_the_one_that_searches(standin: Standin) -> None:
    for _ in range(2):
        PySR().prepare()
    assert len(pool.workers) == 1
    (worker,) = pool.workers
    assert len(PySR().search(pendulum()))
    PySR().prepare()
    assert len(PySR().search(pendulum()))
    assert {record["pid"] for record in standin.asked} == {worker.process.pid}
    assert pool.workers == {worker}


def test_preparing_never_fails_and_the_search_says_why(standin: Standin) -> None:
    standin.set(IMPORT="offline")
    PySR().prepare()
    type("PySR", (PySR,), {"command": ("/no/such/program",)})().prepare()
    with pytest.raises(BackendUnavailable, match="could not find Julia"):
        PySR().search(pendulum())


def test_progress_rises_and_is_nothing_while_julia_compiles(standin: Standin) -> None:
    seen: list[tuple[str, float]] = []
    standin.set(COMPILE="0.5")
    budget = Budget(seconds=0.2)
    problem = pendulum(budget=budget, progress=lambda line, share: seen.append((line, share)))
    PySR().search(problem)
    shares = [share for _, share in seen]
    assert shares == sorted(shares)
    (compiling,) = (share for line, share in seen if "Compiling" in line)
    assert compiling == 0.0
    assert max(share for line, share in seen if "Progress" in line) >= 0.25


def test_a_syntax_error_of_julia_keeps_its_text(standin: Standin) -> None:
    standin.set(FIT="fails", SYNTAX="1")
    with pytest.raises(
        BackendError, match=r"ParseError: .*bad\(x\) = x \+ .*premature end"
    ) as caught:
        PySR().search(pendulum())
    assert "\n" not in str(caught.value) and "top-level" not in str(caught.value)


@pytest.mark.parametrize(("version", "known"), [("1.5.10", False), ("2.7.2", True)])
def test_automatic_batches_are_refused_where_pysr_lacks_them(
    version: str, known: bool, standin: Standin
) -> None:
    standin.set(VERSION=version)
    if known:
        assert len(PySR(batching="auto").search(pendulum()))
        return
    with pytest.raises(ConfigError, match=r"PySR 1.5.10 has no batching='auto'"):
        PySR(batching="auto").search(pendulum())


def test_equations_longer_than_asked_for_are_left_out(standin: Standin) -> None:
    """PySR has more room than the law may use."""
    front = PySR(maxsize=2).search(pendulum())
    assert all(law.complexity("tree") <= 2 for c in front for law in halves(c.law))
    assert any(c.law.complexity("tree") > 4 for c in PySR().search(pendulum()))


def halves(law: Law) -> list[Law]:
    pairs = zip(law.expressions, law.outputs, strict=True)
    return [Law([expr], law.inputs, [output]) for expr, output in pairs]


def test_the_constant_term_of_a_library_survives(standin: Standin) -> None:
    """PySR writes a plain number for it, which is no column."""
    standin.set(ROWS=json.dumps([[[1, 1.0, 0.4], [5, 1e-9, "(x0 * 0.9) + 0.41"]]]))
    z = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    target = 1.5 * np.sin(z[:, 0]) + 0.25

    def best(*terms: str) -> list[str]:
        library = Library.from_terms(terms, ["q", "p"])
        problem = Problem(z, target, ["q", "p"], ["y"], library=library)
        return problem.solve(PySR()).best().lines(6)

    assert best("1", "sin(q)") == ["y' = 1.5*sin(q) + 0.25"]
    (alone,) = best("sin(q)")  # a library without it has none
    assert "sin(q)" in alone and "+" not in alone


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6])
def test_negligible_terms_go_whatever_the_unit_of_the_target(unit: float, standin: Standin) -> None:
    row = f"({unit} * sin(x0)) + ({1e-5 * unit} * x1)"
    standin.set(ROWS=json.dumps([[[1, 1.0, 0.4], [7, 1e-12, row]]]))
    z = np.random.default_rng(0).uniform([-2, -3], [2, -1], (60, 2))
    target = unit * np.sin(z[:, 0]) * (1 + 1e-6 * z[:, 1])
    grammar = Grammar(["+", "*", "sin"], ["q", "p"])
    front = Problem(z, target, ["q", "p"], ["y"], grammar=grammar).solve(PySR())
    assert ["sin(q)"] in [[str(term) for _, term in c.law.terms[0]] for c in front]


def test_numbers_next_to_whole_ones_are_tried_as_whole_and_others_are_left(
    standin: Standin,
) -> None:
    standin.set(ROWS=json.dumps([[[1, 1.0, 0.4], [7, 1e-12, "(1.00002 * sin(x0)) + (0.3 * x1)"]]]))
    z = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    target = 1.000003 * np.sin(z[:, 0]) + 0.3 * z[:, 1]
    grammar = Grammar(["+", "*", "sin"], ["q", "p"])
    front = Problem(z, target, ["q", "p"], ["y"], grammar=grammar).solve(PySR())
    numbers = [{str(term): c for c, term in one.law.terms[0]} for one in front]
    assert any(n.get("sin(q)") == 1 and n["p"] == pytest.approx(0.3, rel=1e-4) for n in numbers)


def test_only_numbers_next_to_whole_ones_become_whole() -> None:
    law = Law.from_string("2.000001*x + 0.4*x**2 - 0.9999999*sin(x) + 0.3", ["x"])
    whole = {str(term): c for c, term in laws.with_whole_numbers(law).terms[0]}
    assert whole == {"x": 2.0, "x**2": 0.4, "sin(x)": -1.0, "1": 0.3}


def test_weights_of_the_grammar_decide_what_is_kept(standin: Standin) -> None:
    """A sine is short and exact, a cubic long and nearly: kept only where sines are expensive."""
    rows = [[[2, 0.0, "sin(x0)"], [9, 1e-4, "x0 - ((x0 * x0) * (x0 * 0.16))"]]]
    standin.set(ROWS=json.dumps(rows))
    z = np.random.default_rng(0).uniform(-1, 1, (60, 1))
    for weight, wanted in ((0.5, False), (50.0, True)):
        grammar = Grammar(["+", "-", "*", "sin"], ["q"], weights={"sin": weight})
        problem = Problem(z, np.sin(z), ["q"], grammar=grammar)
        front = problem.solve(PySR(maxsize=100))
        cubic = [c for c in front if "q**3" in str(c.law)]
        assert bool(cubic) == wanted


def test_it_says_which_julia_it_uses_or_what_would_be_downloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JULIA_DEPOT_PATH", "/somewhere/depot")
    monkeypatch.setattr("sjepa_backends.pysr.julia_available", lambda: (True, "/bin/julia"))
    assert PySR().describe() == "Julia is /bin/julia, its packages are in /somewhere/depot"
    monkeypatch.setattr("sjepa_backends.pysr.julia_available", lambda: (False, "no Julia"))
    with pytest.raises(BackendUnavailable, match="no Julia; .* download .* to /somewhere/depot"):
        PySR().describe()


UNITS = {"q": "m", "p": "m/s", "q'": "m/s", "p'": "m/s**2"}
PARTS = PySRTemplate("f(q) + c[1] * g(p)", ["f", "g"], {"c": 1})
PARTS_ROW = [[[3, 0.1, "f = #1; g = #1; c = [0.5]"]]] * 2


@pytest.mark.parametrize("version", VERSIONS)
def test_losses_units_logs_and_templates_reach_pysr(
    version: str, standin: Standin, tmp_path: Path
) -> None:
    pytest.importorskip("pint")
    standin.set(VERSION=version)
    logs, kept = str(tmp_path / "logs"), str(tmp_path / "kept")
    PySR(
        elementwise_loss="L1DistLoss()", denoise=True, tensorboard=logs, hall_of_fame=kept,
        dimensional_constraint_penalty=7.0,
    ).search(pendulum(units=UNITS))  # fmt: skip
    standin.set(ROWS=json.dumps(PARTS_ROW))
    PySR(template=PARTS, loss_function="f(e, d, o) = 1").search(pendulum())
    first, second = standin.asked
    assert first["units"] == [["m", "m*s^-1"], ["m*s^-1", "m*s^-2"]] and first["logs"] == logs
    wanted = {
        "elementwise_loss": "L1DistLoss()", "denoise": True, "output_directory": kept,
        "temp_equation_file": False, "dimensional_constraint_penalty": 7.0,
        "dimensionless_constants_only": False,
    }  # fmt: skip
    assert wanted.items() <= first["options"].items()
    assert second["template"][3] == {"c": 1} and second["logs"] is None
    assert second["options"]["loss_function_expression"] == "f(e, d, o) = 1"
    assert second["units"] == [None, None]


@pytest.mark.parametrize(
    ("lacks", "asked", "message"),
    [
        ("TensorBoardLoggerSpec", {"tensorboard": "logs"}, "has no TensorBoardLoggerSpec"),
        ("TemplateExpressionSpec", {"template": PARTS}, "has no TemplateExpressionSpec"),
        ("denoise", {"denoise": True}, "has no option 'denoise'"),
        ("elementwise_loss", {"elementwise_loss": "L1DistLoss()"}, "no option 'elementwise_loss'"),
        ("loss_function", {"loss_function": "f(t, d, o) = 1"}, "has no option 'loss_function'"),
        ("output_directory", {"hall_of_fame": "kept"}, "has no option 'output_directory'"),
    ],
)
def test_what_the_installed_version_lacks_is_refused_in_one_line(
    lacks: str, asked: dict[str, Any], message: str, standin: Standin, tmp_path: Path
) -> None:
    recorded = json.loads(OPTIONS.read_text())["2.7.2"]
    recorded.pop(lacks, None)
    recorded["PySRRegressor"] = [o for o in recorded["PySRRegressor"] if o != lacks]
    less = tmp_path / "less.json"
    less.write_text(json.dumps({"2.7.2": recorded}))
    standin.set(OPTIONS=str(less), VERSION="2.7.2")
    with pytest.raises(ConfigError, match=f"^pysr: PySR 2.7.2 .*{message}") as raised:
        PySR(**asked).search(pendulum())
    assert "\n" not in str(raised.value)


def test_numbers_found_by_a_loss_of_ones_own_are_not_refitted(standin: Standin) -> None:
    """Least squares would undo what a robust loss is chosen for."""
    problem = pendulum()
    assert problem.targets is not None
    targets = problem.targets.copy()
    targets[::10] += 0.5
    spoilt = problem.with_(targets=targets)
    standin.set(ROWS=json.dumps([[[2, 0.0, "x1"]], [[6, 0.1, "x0 * -0.64"]]]))
    robust = PySR(elementwise_loss="L1DistLoss()").search(spoilt)
    assert robust[len(robust) - 1].law == Law.from_string(["p", "-0.64*q"], ["q", "p"])
    assert "squared errors" in robust.notes[0]
    fitted = PySR().search(spoilt)
    assert fitted[len(fitted) - 1].law != robust[len(robust) - 1].law


@pytest.mark.parametrize("run", ["v15_run_two", "v20_run_two"])
def test_the_drag_pendulum_comes_out_of_the_rows_of_a_real_search(
    run: str, standin: Standin
) -> None:
    tables = [
        pd.read_csv(OPTIONS.parent / "ours" / run / f"hall_of_fame_output{i}.csv", dtype=str)
        for i in (1, 2)
    ]
    rows = [
        [
            [int(c), float(loss), re.sub(r"\bq\b", "x0", re.sub(r"\bp\b", "x1", text))]
            for c, loss, text in table.itertuples(index=False)
        ]
        for table in tables
    ]
    standin.set(ROWS=json.dumps(rows), VERSION="1.5.10" if "15" in run else "2.0.0a2")
    z = np.random.default_rng(3).uniform(-2, 2, (80, 2))
    slopes = np.column_stack([z[:, 1], -np.sin(z[:, 0]) - 0.4 * z[:, 1] * np.abs(z[:, 1])])
    grammar = Grammar(["+", "-", "*", "sin", "abs"], ["q", "p"])
    front = Problem(z, slopes, ["q", "p"], grammar=grammar).solve(PySR())
    assert front.best().round(9).lines() == ["q' = p", "p' = -0.4*p*Abs(p) - sin(q)"]
    assert not any("could not be read" in note for note in front.notes)


def test_a_small_coefficient_of_a_large_term_is_not_negligible() -> None:
    x = np.column_stack([np.linspace(0, 1, 50), 1e6 * np.linspace(1, 2, 50)])
    law = Law.from_string("2*a + 3e-6*b", ["a", "b"], ["y"], "discrete")
    kept = laws.without_negligible(law, x, law.numpy()(x), 1e-3)
    assert len(kept) == 2
    tiny = Law.from_string("2*a + 3e-10*b", ["a", "b"], ["y"], "discrete")
    assert len(laws.without_negligible(tiny, x, tiny.numpy()(x), 1e-3)) == 1


def test_an_error_whose_text_cannot_be_had_is_told_and_the_worker_lives(standin: Standin) -> None:
    standin.set(FIT="fails", MUTE="1")
    lines: list[str] = []
    problem = pendulum(progress=lambda line, _: lines.append(line))
    for _ in range(2):
        with pytest.raises(BackendError, match="JuliaError"):
            PySR().search(problem)
    assert len(standin.asked) == 2 and len({a["pid"] for a in standin.asked}) == 1


def test_the_time_of_the_worker_counts(standin: Standin) -> None:
    standin.set(WORK="0.6")
    problem = pendulum(budget=Budget(seconds=30, cpu=True))
    before, own = problem.clock(), time.process_time()
    PySR().search(problem)
    spent, own = problem.clock() - before, time.process_time() - own
    assert spent >= own + 0.6


def test_a_benchmark_counts_the_time_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cells.discover

    def discover(*args: Any, **options: Any) -> Front:
        count_cpu_time(100.0)  # as a worker that answers
        return real(*args, **options)

    monkeypatch.setattr(cells, "discover", discover)
    row = cells.run_cell(cells.Cell("pendulum", "stlsq", 0.0, 0))
    assert row["error"] == "" and row["seconds"] >= 100


@pytest.mark.parametrize("packages", ["Other", "TensorBoardLogger"])
def test_logs_that_need_a_download_are_refused_before_the_search(
    packages: str, standin: Standin, tmp_path: Path
) -> None:
    standin.set(PACKAGES=packages)
    backend = PySR(tensorboard=str(tmp_path / "logs"))
    if packages == "TensorBoardLogger":
        backend.search(pendulum())
        assert standin.asked[0]["logs"]
        return
    with pytest.raises(ConfigError, match="TensorBoardLogger.jl"):
        backend.search(pendulum())
    assert not standin.log.exists()


def test_equations_beyond_maxsize_are_counted_in_a_note(standin: Standin) -> None:
    truth = Law.from_string(["p", "-sin(q)"], ["q", "p"])
    assert PySR(maxsize=20).search(pendulum()).best() == truth
    short = PySR(maxsize=3).search(pendulum())
    assert all(c.law != truth for c in short)
    assert any("maxsize=3" in note for note in short.notes)
