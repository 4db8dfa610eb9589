"""Every way the input can be wrong has one line that says what, where and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sjepa.data import Trajectories
from sjepa.errors import DataError


GOOD = np.arange(10.0).reshape(5, 2)
NAN = GOOD.copy()
NAN[3, 1] = np.nan
TABLE = pd.DataFrame({"t": [0, 1, 2, 3], "pos": [1.0, 2, 3, 4], "vel": 0.0, "run": list("aabb")})


def change(column: str, row: int, value: Any) -> pd.DataFrame:
    table = TABLE.astype({column: object})
    table.loc[row, column] = value
    return table


ARRAYS: dict[str, tuple[Callable[[], object], str]] = {
    "nan": (lambda: Trajectories([GOOD, NAN], 1), "x is NaN.*trajectory 1, row 3 .*missing='drop'"),
    "inf in u": (lambda: Trajectories(GOOD, 1, np.array([0, 1, np.inf, 0, 0])), "u is NaN.*row 2"),
    "nan in t": (lambda: Trajectories(GOOD, [[0, 1, np.nan, 3, 4]]), "t is NaN.*row 2"),
    "time stands still": (
        lambda: Trajectories([GOOD, GOOD], [np.arange(5), [0, 1, 1, 2, 3]]),
        r"not strictly increasing in trajectory 1, row 2: 1\.0 follows 1\.0; sort",
    ),
    "time goes back": (
        lambda: Trajectories(GOOD, np.array([0, 1, 2, 1.5, 3])),
        "row 3: 1.5 follows",
    ),
    "time has a repeat beside nan": (
        lambda: Trajectories(GOOD, np.array([0, np.nan, 0, 1, 2]), missing="drop"),
        "row 2: 0.0 follows 0.0",
    ),
    "one point": (lambda: Trajectories([GOOD, GOOD[:1]], 1), "trajectory 1 has one observation"),
    "t too short": (lambda: Trajectories(GOOD, np.arange(4)), "5 observations but t has 4"),
    "transposed": (lambda: Trajectories(GOOD.T, np.arange(5)), r"transposed: rows are times .x\.T"),
    "stack": (lambda: Trajectories(np.zeros((3, 7, 2)), np.arange(7)), r"pass list\(x\)"),
    "t missing": (lambda: Trajectories([GOOD, GOOD], [np.arange(5)]), "2 trajectories but 1 time"),
    "t 2d": (lambda: Trajectories(GOOD, np.zeros((5, 1))), "one-dimensional"),
    "u too short": (lambda: Trajectories(GOOD, 1, np.zeros(4)), "u has 4 entries; give one per"),
    "u missing": (lambda: Trajectories([GOOD] * 2, 1, [np.zeros(5)]), "1 arrays in u"),
    "u 3d": (lambda: Trajectories(GOOD, 1, np.zeros((5, 2, 2))), r"expected \(T,\) or \(T, m\)"),
    "u widths": (
        lambda: Trajectories([GOOD] * 2, 1, [np.zeros((5, 1)), np.zeros((5, 2))]),
        "u has shape .* in trajectory 1",
    ),
    "state too long": (lambda: Trajectories(GOOD, 1, state=np.zeros(6)), "state has 6"),
    "shapes differ": (lambda: Trajectories([GOOD, GOOD[:, :1]], 1), r"\(1,\) in trajectory 1"),
    "step zero": (lambda: Trajectories(GOOD, 0.0), "step must be positive"),
    "step nan": (lambda: Trajectories(GOOD, float("nan")), "step must be positive"),
    "text": (lambda: Trajectories(np.array([["a", "b"]] * 3), 1), "x of trajectory 0 holds text"),
    "text as time": (lambda: Trajectories(GOOD, "t"), "t of every trajectory holds text"),
    "object": (lambda: Trajectories(np.array([1, "b", 3], dtype=object), 1), "row 1 is 'b'"),
    "dict": (lambda: Trajectories({"a": 1}, 1), "object array"),
    "none": (lambda: Trajectories(None, 1), "x of trajectory 0 is None"),
    "dates": (
        lambda: Trajectories(GOOD, np.arange(5).astype("M8[s]")),
        "dates; convert to seconds",
    ),
    "complex": (lambda: Trajectories(GOOD * 1j, 1), "complex; pass real and imaginary"),
    "ragged": (lambda: Trajectories([[[1, 2], [3]]], 1), "rows of different lengths"),
    "numbers in a list": (lambda: Trajectories([1.0, 2.0], 1), "single number.*list means several"),
    "empty list": (lambda: Trajectories([], 1), "empty list"),
    "empty array": (lambda: Trajectories(np.zeros((0, 2)), 1), r"empty \(shape \(0, 2\)\)"),
    "no columns": (lambda: Trajectories(np.zeros((5, 0)), 1), "empty"),
    "names short": (lambda: Trajectories(GOOD, 1, names=["q"]), "1 names for 2 columns"),
    "names twice": (lambda: Trajectories(GOOD, 1, names=["q", "q"]), "'q' twice"),
    "names not text": (lambda: Trajectories(GOOD, 1, names=["q", 1]), "must be text, got 1"),
    "names of frames": (lambda: Trajectories(np.zeros((5, 2, 2)), 1, names="qp"), "for vectors"),
    "names clash": (
        lambda: Trajectories(GOOD, 1, GOOD[:, 0], names=["q", "u1"]),
        "'u1' names both",
    ),
    "action names without actions": (
        lambda: Trajectories(GOOD, 1, input_names=["f"]),
        "1 input_names for 0",
    ),
    "split shares": (lambda: Trajectories(GOOD, 1).split((0.5, 0.2)), "add up to 1"),
    "split too fine": (lambda: Trajectories(GOOD, 1).split((0.3, 0.3, 0.4)), "cannot be split"),
    "empty selection": (lambda: Trajectories(GOOD, 1)[3:], "empty"),
    "missing": (lambda: Trajectories(NAN, 1, missing="skip"), "missing is 'raise' or 'drop'"),  # type: ignore[arg-type]
    "nothing complete": (
        lambda: Trajectories(NAN * np.nan, 1, missing="drop"),
        "no two neighboring rows",
    ),
    "sigma": (lambda: Trajectories(GOOD, 1, sigma=[0.1, 0.0]), "sigma .* not positive"),
    "sigma shape": (lambda: Trajectories(GOOD, 1, sigma=np.ones(3)), r"sigma .* shape \(3,\)"),
    "a list of rows": (lambda: Trajectories(list(GOOD), 1), r"np\.array\(x\) for 5 observations"),
    "concat": (
        lambda: Trajectories.concat([Trajectories(GOOD, 1), Trajectories(GOOD[:, :1], 1)]),
        r"observation shapes are \(1,\) in part 1 but \(2,\) in part 0",
    ),
    "concat nothing": (lambda: Trajectories.concat([]), "nothing to put together"),
}

TABLES: dict[str, tuple[Callable[[], object], str]] = {
    "not a table": (lambda: Trajectories.from_frame(GOOD, time="t"), "expected a pandas table"),
    "no such column": (
        lambda: Trajectories.from_frame(TABLE, time="t", columns=["poss"]),
        "no column 'poss'. Did you mean 'pos'",
    ),
    "no such time": (lambda: Trajectories.from_frame(TABLE, time="T0"), "no column 'T0'"),
    "no such id": (lambda: Trajectories.from_frame(TABLE, time="t", id="rum"), "mean 'run'"),
    "text column": (
        lambda: Trajectories.from_frame(TABLE, time="t"),
        "'run' does not hold numbers",
    ),
    "text in a cell": (
        lambda: Trajectories.from_frame(change("vel", 2, "n/a"), time="t", id="run"),
        "'vel' holds 'n/a' in row 2",
    ),
    "nan in a cell": (
        lambda: Trajectories.from_frame(change("pos", 3, None), time="t", id="run"),
        "x is NaN.*trajectory 'b', row 3 of the table",
    ),
    "time goes back": (
        lambda: Trajectories.from_frame(change("t", 3, 1), time="t", id="run"),
        "trajectory 'b', row 3 of the table: 1.0 follows 2.0",
    ),
    "id missing": (
        lambda: Trajectories.from_frame(change("run", 1, None), time="t", id="run"),
        "'run' is empty in row 1",
    ),
    "two roles": (
        lambda: Trajectories.from_frame(TABLE, time="t", columns=["pos", "vel"], actions=["vel"]),
        "'vel' is given two roles",
    ),
    "twice the same name": (
        lambda: Trajectories.from_frame(pd.concat([TABLE, TABLE], axis=1), time="t"),
        "two columns are called 't'",
    ),
    "no rows": (lambda: Trajectories.from_frame(TABLE[:0], time="t"), "no rows"),
    "nothing left": (lambda: Trajectories.from_frame(TABLE[["t"]], time="t"), "no column is left"),
    "single rows": (
        lambda: Trajectories.from_frame(TABLE[:3], time="t", id="run"),
        "trajectory 'b' has one observation",
    ),
    "complex": (
        lambda: Trajectories.from_frame(TABLE.assign(vel=1j), time="t", id="run"),
        "'vel' is complex",
    ),
}


@pytest.mark.parametrize(
    "call, message", [*ARRAYS.values(), *TABLES.values()], ids=[*ARRAYS, *TABLES]
)
def test_bad_input_is_refused_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
