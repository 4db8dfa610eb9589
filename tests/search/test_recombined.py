"""What one equation leaves does not hide how well the others are known."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from sjepa import Library, discover
from sjepa.symbolic.front import combine_outputs


def test_a_combination_is_kept_for_what_one_output_gains() -> None:
    known = [(1.0, 1e-3, "rough"), (5.0, 1e-12, "exact")]
    unknown = [(0.0, 1.0, "nothing")]
    kept = [parts for _, _, parts in combine_outputs([known, unknown], min_gain=0.01)]
    assert kept == [("rough", "nothing"), ("exact", "nothing")]


def test_a_column_that_nothing_moves_leaves_the_laws_of_the_others() -> None:
    """Hopf's normal form, its origin elsewhere, beside a wave without its other half."""

    def hopf(_: float, z: np.ndarray) -> list[float]:
        x, y = z[0] - 0.25, z[1] + 1.4
        s = x * x + y * y
        return [0.5 * x - 2 * y - 0.5 * x * s, 2 * x + 0.5 * y - 0.5 * y * s]

    t, data = np.arange(0, 10, 0.05), []
    for k, start in enumerate([(1.0, -1.0), (0.3, -1.5), (-1.0, -2.5), (2.0, 0.0)]):
        z = solve_ivp(hopf, (0, t[-1]), start, t_eval=t, rtol=1e-11, atol=1e-11).y.T
        data.append(np.column_stack([z, np.sin(1.4 * t + 1.3 * k)]))
    names = ["x", "y", "w"]
    law = discover(
        data, [t] * 4, feature_names=names, library=Library.polynomial(names, 3), verbose=False
    ).best()
    points = np.random.default_rng(0).normal(size=(20, 3))
    wanted = np.array([hopf(0.0, p[:2]) for p in points])
    assert np.allclose(law(points)[:, :2], wanted, rtol=1e-3, atol=1e-3), law
