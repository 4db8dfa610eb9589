"""The parent's side of the PySR worker: every way in which the other side can misbehave."""

import os
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sjepa.backend import Budget, Problem
from sjepa.errors import BackendError, BackendTimeout, BackendUnavailable, ConfigError
from sjepa.symbolic import Grammar, Law
from sjepa_backends.pysr import PySR, PySRTemplate, pool, stop_workers


STANDIN = str(Path(__file__).with_name("pysr_standin.py"))


@pytest.fixture(autouse=True)
def no_left_overs() -> Iterator[None]:
    yield
    stop_workers()


def started_by(*program: str) -> type[PySR]:
    """PySR with another program as its worker, which no setting can choose."""
    return type("PySR", (PySR,), {"command": program})


def backend(mode: str, flag: Path | None = None, **settings: object) -> PySR:
    extra = [] if flag is None else [str(flag)]
    return started_by(sys.executable, STANDIN, mode, *extra)(**settings)


def pendulum(**changes: object) -> Problem:
    z = np.random.default_rng(0).uniform(-2, 2, (200, 2))
    dz = np.column_stack([z[:, 1], -np.sin(z[:, 0])])
    grammar = Grammar(["+", "-", "*", "sin"], ["q", "p"])
    return Problem(z, dz, ["q", "p"], grammar=grammar, **changes)


def pids(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith("pid ")]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_recorded_rows_become_a_front_of_canonical_laws() -> None:
    front = backend("good").search(pendulum())
    law = Law.from_string(["p", "-sin(q)"], ["q", "p"])
    assert front.best() == law
    assert front.backend == "pysr" and front.measure == "tree"
    # The left-overs of rounding that PySR kept (-1.6e-9) cost complexity and are gone.
    assert front[len(front) - 1].law == law
    assert "1 of PySR's equations could not be read" in front.notes


def test_a_worker_answers_twice_and_its_lines_are_relayed_as_they_come() -> None:
    lines: list[str] = []
    shares: list[float] = []

    def progress(line: str, share: float) -> None:
        lines.append(line)
        shares.append(share)

    problem = pendulum(progress=progress)
    first = backend("good").search(problem)
    second = backend("good").search(problem)
    assert [c.law for c in first] == [c.law for c in second]
    assert len(pids(lines)) == 1  # started once
    assert lines.count("Progress: 5 / 10 total iterations (50.000%)") == 2
    assert 0.5 in shares and all(0 <= s <= 1 for s in shares)


@pytest.mark.parametrize(
    ("mode", "error", "message"),
    [
        ("killed", BackendError, "was killed by SIGKILL during the search"),
        ("interrupted", BackendError, "was interrupted during the search"),
        ("hangs", BackendTimeout, "was still searching after 0.4 s"),
        ("rubbish", BackendError, "sent rubbish instead of an answer: ERROR: LoadError"),
        ("malformed", BackendError, "sent malformed JSON"),
        ("wrong form", BackendError, "sent 'result' without 2 list"),
        ("wrong answer", BackendError, "sent 'hello' without 2 list"),
        ("fit error", BackendError, "failed with juliacall.JuliaError: no"),
        ("dies at import", BackendError, "ended with code 3 before it was ready.*libjulia.so"),
        ("import error", BackendUnavailable, "cannot import PySR: No x.*pip install pysr"),
        ("no julia", BackendUnavailable, "could not find Julia 1.10.3.*pip install pysr"),
        ("slow start", BackendTimeout, "was not ready after 1 s"),
        ("no hello", BackendError, "said 'goodbye' instead of hello"),
    ],
)
def test_misbehaviour_is_named_in_one_line_and_the_next_search_works(
    mode: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    session = backend(mode, tmp_path / "flag", startup_timeout=1.0, grace=0.2)
    problem = pendulum(budget=Budget(seconds=0.2))
    with pytest.raises(error, match=message) as caught:
        session.search(problem)
    assert "\n" not in str(caught.value)
    if mode == "fit error":  # that worker is in order and stays
        assert len(pool.workers) == 1
    else:
        assert not pool.workers
        assert session.search(problem).best() == Law.from_string(["p", "-sin(q)"], ["q", "p"])


def test_what_is_printed_before_the_worker_takes_over_is_only_text() -> None:
    lines: list[str] = []
    front = backend("rubbish before hello").search(
        pendulum(progress=lambda line, _: lines.append(line))
    )
    assert len(front) and "a site-customization that likes to talk" in lines


def test_an_interrupt_stops_the_worker_and_reaches_the_caller() -> None:
    lines: list[str] = []

    def interrupt(line: str, share: float) -> None:
        lines.append(line)
        if line.startswith("Progress"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backend("hangs").search(pendulum(progress=interrupt))
    assert not is_running(pids(lines)[0])


def test_a_worker_that_died_while_idle_is_replaced() -> None:
    lines: list[str] = []
    problem = pendulum(progress=lambda line, _: lines.append(line))
    backend("good").search(problem)
    os.kill(pids(lines)[0], 9)
    while is_running(pids(lines)[0]):
        time.sleep(0.01)
    assert len(backend("good").search(problem))
    assert len(pids(lines)) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_inherit_the_workers() -> None:
    backend("good").search(pendulum())
    assert pool.workers
    child = os.fork()
    if not child:
        os._exit(len(pool.workers) + len(pool.idle))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.workers


def test_files_of_a_worker_are_removed() -> None:
    backend("good").search(pendulum())
    (worker,) = pool.workers
    assert (Path(worker.directory) / "data.npz").exists()
    stop_workers()
    assert not Path(worker.directory).exists()


def test_a_program_that_does_not_exist_is_said_to_be_missing() -> None:
    with pytest.raises(BackendError, match="'/no/such/program' cannot be started"):
        started_by("/no/such/program")().search(pendulum())


def test_settings_pickle_and_compare() -> None:
    session = PySR(maxsize=12, template={"combine": "f(q)", "expressions": ["f"]}, options={"a": 1})
    assert pickle.loads(pickle.dumps(session)) == session
    assert session != PySR(maxsize=13)
    assert session.template == PySRTemplate("f(q)", ["f"])
    assert hash(PySR(maxsize=12)) == hash(PySR(maxsize=12))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"populations": 0}, "populations must be at least 1"),
        ({"precision": 8}, "precision must be 16, 32 or 64"),
        ({"grace": 0}, "grace must be positive"),
        ({"deterministic": True, "procs": 4}, "no use for procs"),
        ({"options": {"extra_sympy_mappings": {"f": abs}}}, "numbers, texts, lists"),
        ({"template": {"combine": "f(q)", "nosuch": 1}}, "A template has 'combine'"),
        ({"template": 3}, "PySRTemplate or a mapping"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PySR(**settings)
