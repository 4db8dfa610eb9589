"""Figures of the paper's experiments against scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from benchmarks.paper.scores import correction_recovery, mean_squared_error
from sjepa.errors import DataError


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_arrays_of_other_shapes_are_not_broadcast() -> None:
    with pytest.raises(DataError):
        mean_squared_error(np.zeros((3, 2)), np.zeros((3, 1)))


def test_a_shrunk_correction_is_recovered_by_calibration(rng: np.random.Generator) -> None:
    r_train, r_test = rng.normal(size=300), rng.normal(size=100)
    found = correction_recovery(r_train / 1.6, r_train, r_test / 1.6, r_test)
    assert found.scale == pytest.approx(1.6)
    assert found.correlation == pytest.approx(1.0) and found.r2 == pytest.approx(1.0)


def test_calibration_uses_training_data_only_and_has_no_offset(rng: np.random.Generator) -> None:
    c, r = rng.normal(size=60) + 1.0, rng.normal(size=60)
    c_test, r_test = rng.normal(size=40), rng.normal(size=40)
    found = correction_recovery(c, r, c_test, r_test)
    scale = LinearRegression(fit_intercept=False).fit(c[:, None], r).coef_[0]
    assert found.scale == pytest.approx(scale)
    assert found.r2 == pytest.approx(r2_score(r_test, scale * c_test))
    assert found.correlation == pytest.approx(np.corrcoef(c_test, r_test)[0, 1])


def test_no_correction_recovers_nothing(rng: np.random.Generator) -> None:
    r = rng.normal(size=50) + 1.0
    nothing = correction_recovery(np.zeros(50), r, np.zeros(50), r)
    assert nothing.scale == 0 and nothing.r2 <= 0 and np.isnan(nothing.correlation)
