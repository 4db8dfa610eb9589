"""The rule that picks a checkpoint, as a table."""

from __future__ import annotations

import pytest

from sjepa.training.alternating import Record, Shortlist, choose


def record(
    risk: float, complexity: float = 0, objective: float = 0, epoch: int = 0, eligible: bool = True
) -> Record:
    return Record(epoch, risk, complexity, objective, eligible)


CASES = {
    "lower risk wins": ([record(2.0), record(1.0)], 1),
    "simpler within two percent": ([record(1.0, 9), record(1.019, 4)], 1),
    "not simpler beyond two percent": ([record(1.0, 9), record(1.021, 4)], 0),
    "then the objective": ([record(1.0, 4, 3.0), record(1.01, 4, 2.0)], 1),
    "then the earlier": ([record(1.0, 4, 2.0, 10), record(1.0, 4, 2.0, 5)], 1),
    "collapsed is not eligible": ([record(0.1, eligible=False), record(1.0)], 1),
    "unless all are": ([record(2.0, eligible=False), record(1.0, eligible=False)], 1),
    "a rollout that left the room": ([record(float("inf")), record(5.0)], 1),
    "tolerance does not add up": ([record(1.0, 9), record(1.015, 5), record(1.03, 1)], 1),
}


@pytest.mark.parametrize(("records", "expected"), CASES.values(), ids=CASES)
def test_the_rule(records: list[Record], expected: int) -> None:
    assert choose(records) == expected


@pytest.mark.parametrize(("records", "expected"), CASES.values(), ids=CASES)
def test_a_shortlist_keeps_what_the_rule_would_choose(records: list[Record], expected: int) -> None:
    shortlist = Shortlist()
    for i, r in enumerate(records):
        shortlist.offer(r, i)
    assert shortlist.best()[1] == expected


def test_a_shortlist_forgets_what_can_no_longer_win() -> None:
    shortlist = Shortlist()
    for i, risk in enumerate([3.0, 2.0, 1.0, 1.01, 5.0]):
        shortlist.offer(record(risk, complexity=i), i)
    assert [s for _, s in shortlist.entries] == [2, 3]


def test_nothing_to_choose_from() -> None:
    with pytest.raises(ValueError, match="no checkpoint"):
        choose([])
