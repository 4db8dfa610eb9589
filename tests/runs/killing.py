"""Kill at random moments what works in a folder, start it again, and see what became of it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from sjepa.studies.backends import benchmark
from sjepa.studies.backends.sweep import read_cell

from .test_faults import bytes_of, fit


def forked(act: Callable[[], object]) -> int:
    """Run it in a fork of this process, which has everything imported already."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return child


def killed(act: Callable[[], object], seconds: float) -> bool:
    """Whether `kill -9` after so many seconds came before the end."""
    child = forked(act)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_runs(search: str, place: Path, count: int, seed: int) -> Counter[str]:
    """Runs with a checkpoint after every epoch, each killed once and then resumed."""

    def act(folder: Path) -> None:
        with mock.patch("sjepa.runs.recorder.MAX_SHARE", float("inf")):
            fit(search, folder, 0.0)

    act(place / "first")  # imports
    start = time.monotonic()
    os.waitpid(forked(lambda: act(place / "whole")), 0)
    span, wanted = time.monotonic() - start, bytes_of(place / "whole")
    chance, found = random.Random(seed), Counter[str]()
    while found["killed"] < count:
        folder = place / f"run{found['killed']}"
        if not killed(lambda folder=folder: act(folder), span * chance.random()):  # type: ignore[misc]
            shutil.rmtree(folder)
            continue
        found["killed"] += 1
        left = {p.name for p in folder.iterdir()} if folder.exists() else set()
        found["before its settings"] += "run.json" not in left
        found["at a checkpoint"] += "checkpoint.safetensors" in left
        found["half-written drafts"] += any(n.endswith(".unfinished") for n in left)
        act(folder)
        assert bytes_of(folder) == wanted, (search, seed, found)
        assert not list(folder.glob(".*.unfinished"))
        found["resumed to the same bytes"] += 1
    return found


def kill_sweep(place: Path, count: int, seed: int) -> Counter[str]:
    """One sweep of a benchmark, killed and started again until it has been killed so often."""

    def act() -> Any:
        asked = (["pendulum", "lotka_volterra"], ["stlsq"], [0.0], range(2 * count))
        return benchmark(*asked, out=place)  # type: ignore[arg-type]

    start = time.monotonic()
    benchmark(["pendulum", "lotka_volterra"], ["stlsq"], [0.0], [2 * count])
    span = time.monotonic() - start  # of two cells
    chance, found, kept = random.Random(seed), Counter[str](), {}
    while found["killed"] < count:
        assert killed(act, 2 * span * chance.random()), (
            "the sweep ended before it was killed enough"
        )
        found["killed"] += 1
        now = {p.name: p.read_bytes() for p in (place / "cells").glob("*.safetensors")}
        assert kept.items() <= now.items()
        kept = now
    rows = [read_cell(place / "cells" / name) for name in kept]
    assert all(rows)
    table = act()
    assert len(table) == 4 * count and (table["error"] == "").all()
    # Not even run again: the seconds that each took are those of then.
    assert {row["seconds"] for row in rows if row} <= set(table["seconds"])
    found["cells kept"], found["cells in all"] = len(kept), len(table)
    return found
