"""The law of rescaled data is the rescaled law: no term vanishes because of its units."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sjepa
from sjepa.data import Trajectories
from sjepa.data.derivatives import differentiate
from sjepa.errors import DataError


SYSTEMS = {
    "fitzhugh-nagumo": (
        lambda t, z: [z[0] - z[0] ** 3 / 3 - z[1] + 0.5, 0.08 * (z[0] + 0.7 - 0.8 * z[1])],
        [0.1, 0.1], 100.0,
        [{"1": 0.5, "x": 1.0, "y": -1.0, "x**3": -1 / 3}, {"1": 0.056, "x": 0.08, "y": -0.064}],
    ),
    "brusselator": (
        lambda t, z: [1 + z[0] ** 2 * z[1] - 4 * z[0], 3 * z[0] - z[0] ** 2 * z[1]],
        [1.2, 3.1], 30.0,
        [{"1": 1.0, "x": -4.0, "x**2*y": 1.0}, {"x": 3.0, "x**2*y": -1.0}],
    ),
    "van der pol": (
        lambda t, z: [z[1], 1.5 * (1 - z[0] ** 2) * z[1] - z[0]],
        [2.0, 0.0], 20.0,
        [{"y": 1.0}, {"y": 1.5, "x": -1.0, "x**2*y": -1.5}],
    ),
}  # fmt: skip
DEGREES = {"1": 0, "x": 1, "y": 1, "x**3": 3, "x**2*y": 3}


@pytest.mark.parametrize(
    ("name", "unit"),
    [("fitzhugh-nagumo", 1e5), ("brusselator", 1e7), ("van der pol", 1e8), ("van der pol", 1e-8)],
)
def test_the_law_is_found_in_any_unit(name: str, unit: float) -> None:
    field, start, duration, wanted = SYSTEMS[name]
    t = np.linspace(0, duration, 2000)
    x = solve_ivp(field, (0, duration), start, t_eval=t, rtol=1e-11, atol=1e-12).y.T
    law = sjepa.discover(unit * x, t, feature_names=["x", "y"]).best()
    for row, terms in zip(law.terms, wanted, strict=True):
        found = {str(term): c * unit ** (DEGREES[str(term)] - 1) for c, term in row}
        assert found == pytest.approx(terms, rel=1e-3)


@pytest.mark.parametrize(
    ("unit", "offset"), [(1e-165, 0.0), (1e-310, 0.0), (1.0, 1e9), (1.0, 1e15)]
)
def test_data_beyond_double_precision_are_refused(unit: float, offset: float) -> None:
    t = np.linspace(0, 10, 300)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    with pytest.raises(DataError):
        sjepa.discover(unit * x + offset, t)


def test_a_constant_column_is_no_offset() -> None:
    t = np.linspace(0, 10, 300)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t), np.full(300, 1e9)], axis=1)
    smooth = differentiate(Trajectories(x, t, names=["q", "p", "c"]))
    np.testing.assert_allclose(smooth.x_dot[0][:, 2], 0.0, atol=1e-3)
