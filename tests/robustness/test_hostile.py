"""Folders, configurations, laws, tables and pictures of a stranger: nothing runs, nothing leaks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.robustness import hostile


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    pytest.importorskip("h5py")
    root = tmp_path_factory.mktemp("hostile")
    return root, *hostile.prepare(root)


def broken(place: tuple[Path, Path, Path], count: int, seed: int) -> list[str]:
    found = (hostile.attack(*place, number, seed) for number in range(count))
    return [f"seed {seed}, {case.name}: {wrong}" for case, wrong in found if wrong]


def test_one_of_each_kind_is_refused_in_one_line(place: tuple[Path, Path, Path]) -> None:
    assert not broken(place, len(hostile.MAKERS), seed=0)


@pytest.mark.slow
def test_two_hundred_are_refused_in_one_line(place: tuple[Path, Path, Path]) -> None:
    assert not broken(place, 200, seed=random.SystemRandom().randrange(10**6))


def test_the_watch_sees_what_it_is_for(tmp_path: Path) -> None:
    """A guard that sees nothing would hold everything."""
    watch = hostile.Watch(tmp_path / "case", tmp_path / "secret")
    events = [
        ("os.system", ("touch ran",)), ("subprocess.Popen", ("sh", [], None, None)),
        ("socket.connect", (None, ("127.0.0.1", 9))), ("os.rename", (tmp_path / "a", "b", -1, -1)),
        ("open", (str(tmp_path / "secret" / "a"), "r", 0)), ("open", (str(tmp_path / "a"), "w", 1)),
    ]  # fmt: skip
    for i, event in enumerate(events, 1):
        watch(*event)
        assert len(watch.seen) == i
    watch("open", (str(tmp_path / "case" / "a"), "w", 1))
    watch("open", (str(tmp_path / "a"), "r", 0))
    assert len(watch.seen) == len(events)
