"""The pool of columns that a search over supports takes its sets from."""

import numpy as np
import pytest
from sjepa.symbolic.shapes import Shape

from sjepa.search import supports
from sjepa.search.parametric import Columns
from sjepa.symbolic import Library


def test_terms_with_few_places_stay_where_there_is_no_room_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supports, "MAX_COLUMNS", 1)
    x = np.linspace(0.5, 2.0, 60)[:, None]
    shapes = [Shape.read(f"x**{k}*exp(a*x)", ["x"]) for k in range(40)]
    grid = Columns(Library.from_terms(["1", "x"], ["x"]), shapes, lambda f: f(x), x)
    (first, places), grid.columns[0] = grid.open[0], grid.columns[0][:, :1]
    grid.open[0] = first, places[:1]
    pool = supports._Pool(grid, np.sin(x[:, 0]))
    assert len(pool.places[0]) == 1
    assert min(len(kept) for kept in pool.places) >= 1
    assert sum(len(kept) for kept in pool.places) < sum(len(p) for _, p in grid.open)
