"""A front as plain data, its scores and its knee."""

import copy
import json
import math
from typing import Any

import pytest

from sjepa.backend import Problem
from sjepa.errors import FormatError
from sjepa.symbolic import Candidate, Front, Grammar, Law
from sjepa.symbolic.front import knee


def law(text: str) -> Law:
    return Law.from_string(text, ["x"])


def weighted_front() -> Front:
    """Two laws measured with weights that are not the table's, one of them certified."""
    grammar = Grammar(["+", "*", "sin"], ["x"], weights={"sin": 0.5})
    problem = Problem([[0.0], [1.0], [2.0]], [[0.1], [0.9], [1.0]], grammar=grammar)
    rows = [problem.candidate(law("x"), certified=True), problem.candidate(law("0.5*sin(x)"))]
    return Front.of(rows, "tree", "operon", ["stopped early", "two notes"])


def test_a_front_survives_being_written_and_read() -> None:
    front = weighted_front()
    again = Front.from_dict(json.loads(json.dumps(front.to_dict())))
    assert again == front
    # A sine that costs 0.5 on a variable of 1; the factor 0.5 and its product cost 0.5 + 1.5.
    assert [c.tree for c in again] == [1.0, 3.5]
    assert again[0].certified and again.notes == ("stopped early", "two notes")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(measure="size"), "measure"),
        (lambda d: d.update(laws="x"), "laws"),
        (lambda d: d.update(notes=[1]), "notes"),
        (lambda d: d["laws"][1].update(loss=math.nan), "Row 1 .*no number"),
        (lambda d: d["laws"][0].update(tree=True), "Row 0 .*no number"),
        (lambda d: d["laws"][0].pop("losses"), "Row 0"),
        (lambda d: d["laws"][1]["law"].update(expressions=["__import__('os')"]), "Row 1"),
        (lambda d: d["laws"][1].update(law="x"), "Row 1"),
        (lambda d: d.update(chosen=2), "chosen"),
        (lambda d: d.update(chosen=-1), "chosen"),
        (lambda d: d.update(chosen=True), "chosen"),
        (lambda d: d.update(chosen=0.0), "chosen"),
    ],
)
def test_damaged_fronts_are_refused_in_one_line(change: Any, message: str) -> None:
    data = copy.deepcopy(weighted_front().to_dict())
    change(data)
    with pytest.raises(FormatError, match=message) as refusal:
        Front.from_dict(data)
    assert "\n" not in str(refusal.value)


def test_scores_are_the_fall_of_log_loss_for_each_unit_of_complexity() -> None:
    rows = [Candidate(law(t), loss, cost, 9.0) for t, loss, cost in
            [("x", 0.5, 1.0), ("x + 2", 0.05, 1.5), ("x + x**3", 0.01, 3.5)]]  # fmt: skip
    front = Front.of(rows)
    # log(0.5/0.05) over 0.5, then log(0.05/0.01) over 2.
    assert front.scores() == pytest.approx([0.0, 2 * math.log(10), math.log(5) / 2])


def test_the_knee_takes_nine_tenths_of_the_fall() -> None:
    # From 1 down to 1e-5 nine tenths of the way is 10**-4.5; from 100 down to 1e-4, 10**-3.4.
    assert knee(1e-5) == pytest.approx(10**-4.5)
    assert knee(1e-4, worst=100.0) == pytest.approx(10**-3.4)
    assert knee(0.0) == 1e-7 and knee(1e-20, exact=1e-9) == 1e-9
    losses = {"x": 0.5, "x + 2": 4e-4, "x + x**3": 3e-5, "x + x**3 + 1": 1e-5}
    rows = [Candidate(law(t), v, i + 1.0, 0.0) for i, (t, v) in enumerate(losses.items())]
    # 10**-4.5 is 3.16e-5, which the third law is the first to reach.
    assert Front.of(rows).best() == law("x + x**3")


def test_a_front_is_printed_on_80_columns_with_each_equation_whole() -> None:
    long = "0.9994*p - 0.1998*p**3 + 0.9999*torque"
    law = Law.from_string(
        [long, "-0.1998*p + 0.9999*torque - 1.2*sin(q)"], ["q", "p", "torque"], ["q", "p"]
    )
    shown = repr(Front.of([Candidate.score(law, [0.1, 0.1])]))
    assert max(map(len, shown.splitlines())) <= 80
    first, second = law.lines(digits=4)
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[1].endswith(f"{first};") and second.startswith(lines[2].rstrip("…"))
