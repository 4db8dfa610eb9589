"""Tests in forked processes: third-party packages are imported once, ours afresh each time."""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutants.mutations import Mutant


# What most tests need and what takes longest to import.
HEAVY = ("torch", "sympy", "scipy.integrate", "sklearn.linear_model", "pandas", "matplotlib.pyplot")
OURS = ("sjepa", "sjepa_backends", "sjepa_julia", "tests")
# A mutant may loop for ever, or wait for ever without using the processor.
WALL_SECONDS = 900.0


def preload() -> None:
    for name in HEAVY:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)


@dataclass
class Record:
    """Which tests run which lines, and the CPU seconds of each test that passed."""

    lines: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    def covering(self, path: str, lines: Sequence[int], most: float) -> list[str]:
        """Tests that run one of the lines, quickest first, as many as take `most` seconds.

        A line that runs at import only concerns every test of the file.
        """
        known = self.lines.get(path, {})
        tests = next((t for n in lines if (t := known.get(n))), set())
        if not tests and any(n in known for n in lines):
            tests = set().union(*known.values())
        total, chosen = 0.0, []
        for test in sorted(tests & self.seconds.keys(), key=lambda t: (self.seconds[t], t)):
            total += self.seconds[test]
            if total <= most or not chosen:
                chosen.append(test)
        return chosen


class _Recorder:
    """Pytest plugin: switches coverage's context to the test that runs."""

    def __init__(self, cov: coverage.Coverage) -> None:
        self.cov = cov
        self.seconds: dict[str, float] = {}
        self.of_file: dict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        # A fixture may be shared: what it runs counts for every test of the file.
        self.cov.switch_context(item.nodeid.split("::")[0])
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.cov.switch_context(item.nodeid)
        start = time.process_time()
        result = yield
        # Only reached where the test passed.
        self.seconds[item.nodeid] = time.process_time() - start
        self.of_file[item.nodeid.split("::")[0]].add(item.nodeid)
        return result


def run_recorded(tree: Path, files: Sequence[str], tests: Sequence[str]) -> Record:
    """One run of the tests on unchanged code; those that fail or are skipped are left out."""
    stored = tree.parent / "record"

    def work() -> int:
        cov = coverage.Coverage(
            data_file=None, config_file=False, include=[str(tree / f) for f in files]
        )
        recorder = _Recorder(cov)
        cov.start()
        pytest.main([*ARGUMENTS, *tests], plugins=[recorder])
        cov.stop()
        lines = {}
        for file in files:
            found = cov.get_data().contexts_by_lineno(str(tree / file))
            lines[file] = [
                (n, [t for c in contexts if c for t in recorder.of_file.get(c, {c})])
                for n, contexts in found.items()
            ]
        stored.write_text(json.dumps({"lines": lines, "seconds": recorder.seconds}))
        return 0

    if _forked(tree, work) != 0 or not stored.exists():
        sys.exit(f"The tests {' '.join(tests)} cannot be run; try pytest on them.")
    found = json.loads(stored.read_text())
    lines = {file: {n: set(t) for n, t in rows} for file, rows in found["lines"].items()}
    return Record(lines, found["seconds"])


def run_mutant(tree: Path, mutant: Mutant, tests: Sequence[str], record: Record) -> str:
    """ "noticed" or "survived"; running out of time is being noticed."""
    path = tree / mutant.path
    source, stat = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(mutant.apply(source), encoding="utf-8")
    # A compiled file counts as fresh by time and size: no two versions may share both.
    os.utime(path, (stat.st_atime, stat.st_mtime + 1000 + mutant.start))
    limit = 30 + 10 * sum(record.seconds[t] for t in tests)
    try:
        code = _forked(tree, lambda: pytest.main([*ARGUMENTS, "-x", *tests]), limit)
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, (stat.st_atime, stat.st_mtime))
    return "survived" if code == 0 else "noticed"


ARGUMENTS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")


def _forked(tree: Path, work: Callable[[], int], cpu_seconds: float | None = None) -> int | None:
    """The exit code of `work` in a process of its own inside `tree`; None if it was stopped."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code: int = 70
        try:
            os.setsid()
            _enter(tree, cpu_seconds)
            code = int(work())
        finally:
            os._exit(code)
    deadline = time.monotonic() + WALL_SECONDS
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done or (cpu_seconds is not None and time.monotonic() > deadline):
            break
        time.sleep(0.02)
    with suppress(ProcessLookupError):  # also what the tests started and left behind
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.waitpid(pid, 0)
        return None
    return os.waitstatus_to_exitcode(status)


def _enter(tree: Path, cpu_seconds: float | None) -> None:
    """Forget our packages, and find them in `tree` from now on; say nothing."""
    root = Path(__file__).parents[2]
    for name in [n for n in sys.modules if n.split(".")[0] in OURS]:
        del sys.modules[name]
    places = [str(tree / p) for p in (".", "backends", "julia")]
    ours = {str(root), str(root / "backends"), str(root / "julia"), ""}
    sys.path[:] = places + [p for p in sys.path if p not in ours]
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    os.chdir(tree)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    if cpu_seconds is not None:
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds) + 5))
