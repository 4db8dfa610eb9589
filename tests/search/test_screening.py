"""Columns that matter are told from many that do not, whatever their units and distribution."""

from __future__ import annotations

import numpy as np
import pytest

from sjepa.search.screening import MAX_ACTIVE, active_columns


def _table(rows: int, columns: int, seed: int = 0) -> tuple[np.random.Generator, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(rows, columns))


def test_a_product_without_effects_of_its_own_factors_is_seen() -> None:
    rng, x = _table(200, 30)
    y = x[:, 3] * x[:, 7] + 2 * x[:, 11]
    for target in (y, y + 0.3 * y.std() * rng.normal(size=200), 1e6 * y, np.cbrt(y)):
        assert active_columns(x, target[:, None]) == [3, 7, 11]
    assert active_columns(np.exp(3 * x), y[:, None]) == [3, 7, 11]  # only the order counts


def test_noise_has_columns_in_one_table_of_a_hundred() -> None:
    found = 0
    for seed in range(150):
        rng, x = _table(120, 12, seed)
        found += bool(active_columns(x, rng.standard_t(4, size=(120, 1))))
    assert found <= 5  # 1.5 expected


def test_rows_without_weight_and_constant_columns_do_not_count() -> None:
    _, x = _table(200, 10)
    y, weights = x[:, 2] ** 2, np.ones(200)
    x[:, 5], y[:80], weights[:80] = 1.0, 1e3 * x[:80, 9], 0.0
    assert active_columns(x, y[:, None], weights) == [2]


def test_each_target_has_its_columns_and_there_are_never_too_many() -> None:
    _, x = _table(300, 20)
    y = np.stack([x[:, 1] * x[:, 2], x[:, 18]], axis=1)
    found = active_columns(x, y)
    assert {1, 2, 18} <= {*found} and len(found) <= 4 and found == sorted(found)
    assert len(active_columns(x, x.sum(axis=1)[:, None])) == MAX_ACTIVE


@pytest.mark.parametrize("rows", [2, 5, 20])
def test_a_few_rows_say_nothing_and_raise_nothing(rows: int) -> None:
    _, x = _table(rows, 30)
    assert isinstance(active_columns(x, x[:, :1]), list)
