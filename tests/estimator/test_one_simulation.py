"""Estimator, report and command line simulate and score alike, whatever the model is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

import sjepa
from sjepa.report import collect, render
from tests.command import run


pytestmark = pytest.mark.filterwarnings("ignore:Free runs")  # laws short of a term, on purpose


T = np.arange(0.0, 6.0, 0.05)
SWINGS = [(0.5, 0.0), (1.0, 1.0), (1.5, 2.0), (0.8, 3.0), (1.2, 4.0)]


def rotations() -> list[np.ndarray]:
    return [a * np.stack([np.cos(T + b), -np.sin(T + b)], axis=1) for a, b in SWINGS]


def decays() -> list[np.ndarray]:
    """x' = -x - x³ / 3, solved exactly: the linear library misses the cube."""
    return [
        (1 / np.sqrt((1 / x0**2 + 1 / 3) * np.exp(2 * T) - 1 / 3))[:, None]
        for x0 in (0.5, 1.0, 1.5, -1.2, -0.7)
    ]


def halvings() -> list[np.ndarray]:
    return [np.stack([a * 0.9**k * np.cos(0.4 * k + b), a * 0.9**k * np.sin(0.4 * k + b)], axis=1)
            for a, b in SWINGS for k in [np.arange(30)]]  # fmt: skip


CASES: dict[str, tuple[dict[str, Any], list[np.ndarray], float | np.ndarray]] = {
    "order 1": ({}, rotations(), T),
    "order 2": ({"order": 2}, [x[:, :1] for x in rotations()], T),
    "map": ({"search": sjepa.LawOnly(derivatives="discrete")}, halvings(), 1.0),
    "correction": (
        {
            "library": sjepa.Library.from_terms(["x"], ["x"]),
            "correction": sjepa.Neural(updates=300, energy=0.0),
            "random_state": 0,
        },
        decays(),
        T,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_estimator_report_and_command_line_give_the_same_path_and_score(
    case: str, tmp_path: Path
) -> None:
    settings, x, t = CASES[case]
    model = sjepa.SJEPA(encoder="identity", **settings).fit(x, t)
    paths = [path.z for path in model.simulate(x, t)]
    seen, d = np.concatenate(x), x[0].shape[1]
    expected = r2_score(seen, np.concatenate(paths)[:, :d])
    assert expected > 0.999
    assert model.score(x, t) == pytest.approx(expected, abs=1e-12)
    one = t[0] if isinstance(t, list) else np.arange(len(x[0])) * t if np.ndim(t) == 0 else t
    np.testing.assert_array_equal(model.simulate(x[0], one).z, paths[0])

    data = collect(model, x, t)
    assert data.score == pytest.approx(expected, abs=1e-12)
    rows = np.searchsorted(one, data.trails[0].t)
    np.testing.assert_allclose(data.entries[data.start].paths[0], paths[0][rows], atol=1e-12)
    np.testing.assert_array_equal(data.trails[0].seen[0], paths[0][0])

    model.save(tmp_path / "run")
    rows = [pd.DataFrame(a).add_prefix("s").assign(id=i, t=one) for i, a in enumerate(x)]
    pd.concat(rows).to_parquet(tmp_path / "data.parquet")
    out = run(
        "simulate", "run", "--data", "data.parquet", "--id", "id", "--time", "t",
        "-o", "paths.parquet", cwd=tmp_path,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    table = pd.read_parquet(tmp_path / "paths.parquet")
    found = table[[*model.law_.inputs[: paths[0].shape[1]]]].to_numpy()
    np.testing.assert_allclose(found, np.concatenate(paths), atol=1e-9)
    if case == "correction":
        law_only = [sjepa.models.Simulator(model.law_).simulate(a[0], T).z for a in x]
        error, without = (np.abs(np.concatenate(p) - seen).max() for p in (paths, law_only))
        assert error < 0.5 * without


def test_a_path_that_diverges_is_not_scored_as_the_mean() -> None:
    model = sjepa.SJEPA(encoder="identity").fit(rotations(), T)
    model.law_ = sjepa.Law.from_string(["z1**2 + 1", "z2"], ["z1", "z2"])
    assert model.score(rotations(), T) == -np.inf
    data = collect(model, rotations(), T)
    assert data.score == -np.inf and "does not reach its end" in render(data)
