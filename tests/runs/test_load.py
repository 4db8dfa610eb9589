"""Calls over all doors, in one process and in several at once."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

import sjepa
from tests.runs.doors import DOORS, door_call, readers
from tests.runs.every_argument import Door, foreign_errors
from tests.runs.fuzzing import only_our_errors
from tests.runs.law_doors import law_method
from tests.runs.load import soak, together


SECONDS = 30.0  # of CPU time, for one call


def test_any_call_answers_rightly_or_is_refused() -> None:
    for seed in range(880_000, 880_060):
        only_our_errors(partial(door_call, seed), SECONDS)


@pytest.mark.parametrize("door", [law_method, readers], ids=lambda door: door.__name__)
def test_no_argument_of_a_law_or_a_reader_meets_an_error_of_others(door: Door) -> None:
    assert not list(foreign_errors(door, SECONDS))


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_no_argument_meets_an_error_of_others(door: Door) -> None:
    assert not list(foreign_errors(door, SECONDS, every=10, first=random.randrange(10)))


@pytest.mark.slow
def test_a_thousand_others_answer_rightly_or_are_refused() -> None:
    first = random.SystemRandom().randrange(10**9)
    for seed in range(first, first + 1000):
        print(f"door_call({seed})")
        only_our_errors(partial(door_call, seed), SECONDS)


@pytest.mark.slow
def test_a_thousand_calls_leave_no_memory_file_or_thread_behind() -> None:
    first = random.SystemRandom().randrange(10**9)
    _, warm, *_, last = soak(door_call, 1000, first, every=250)
    assert last["MB"] - warm["MB"] < 100
    assert last["files"] <= warm["files"] and last["Python threads"] <= warm["Python threads"]


@pytest.mark.slow
def test_eight_processes_share_a_cache_and_a_run(tmp_path: Path) -> None:
    """One fits; others are told to wait, or find the finished fit if they come late."""
    said = together(tmp_path)
    assert len({tuple(lines[:-1]) for lines in said}) == 1, "embeddings differ"
    ends = {lines[-1] for lines in said}
    fitted = {end for end in ends if end.startswith("fitted")}
    assert len(fitted) == 1 and all("wait for it" in end for end in ends - fitted)
    assert f"fitted {sjepa.load(tmp_path / 'run').law_.lines()}" in fitted
