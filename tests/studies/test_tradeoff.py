"""The trade-off surface over the weights of the objective."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.estimator import SJEPA
from sjepa.studies import tradeoff
from tests.command import run as command


DT = 0.1
QUICK = {
    "horizon": 4,
    "batching": "trajectories",
    "dynamics_epochs": 20,
    "neural_rate": 0.02,
    "passes": 3,
}


def braked(count: int = 8) -> Trajectories:
    z = [np.random.default_rng(0).uniform(-1.5, 1.5, (count, 2))]
    for _ in range(39):
        q, p = z[-1].T
        z.append(z[-1] + DT * np.stack([p, -np.sin(q) - 0.4 * p * np.abs(p)], axis=1))
    return Trajectories(list(np.stack(z, axis=1)), DT, names=["q", "p"])


def test_what_nothing_beats_is_found_by_comparing_every_pair() -> None:
    values = np.random.default_rng(0).integers(0, 4, (60, 3)).astype(float)
    values[7, 0] = np.inf
    fine = np.arange(60) % 5 > 0
    expected = [
        bool(fine[i]) and np.isfinite(a).all()
        and not any(fine[j] and (b <= a).all() and (b < a).any() for j, b in enumerate(values))
        for i, a in enumerate(values)
    ]  # fmt: skip
    assert tradeoff.non_dominated(values, fine).tolist() == expected
    assert 0 < sum(expected) < 48


def test_a_sweep_shows_the_trade_and_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {
        "lambda_s": [1e-4, 1e-3], "lambda_c": [0.0, 10.0], "out": tmp_path, "options": QUICK,
        "encoder": "identity", "integrator": "euler", "library": ["p", "sin(q)"],
        "feature_names": ["q", "p"],
    }  # fmt: skip
    table = tradeoff.sweep(braked(), **given)
    by = table.set_index(["lambda_s", "lambda_c"])
    # A heavy price on the correction leaves nearly none, at the cost of prediction.
    assert (10 * by.xs(10.0, level=1)["rho_corr"] < by.xs(0.0, level=1)["rho_corr"]).all()
    assert (by.xs(10.0, level=1)["l_pred"] > by.xs(0.0, level=1)["l_pred"]).all()
    axes = table[list(tradeoff.AXES)].to_numpy()
    assert table["front"].tolist() == tradeoff.non_dominated(axes).tolist()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "surface.csv"), table)
    monkeypatch.setattr(SJEPA, "fit", lambda *a, **k: pytest.fail("fitted again"))
    again = tradeoff.sweep(braked(), **given)
    pd.testing.assert_frame_equal(again, table)


def test_a_sweep_from_the_line(tmp_path: Path) -> None:
    data = braked(6)
    rows = [pd.DataFrame(x, columns=["q", "p"]).assign(run=i) for i, x in enumerate(data.x)]
    pd.concat(rows).to_csv(tmp_path / "data.csv", index=False)
    given = ["sweep", "data.csv", "--out=surface", "--id=run", "--columns=q,p", "--time=0.1"]
    given += ["--lambda-s=1e-4", "--lambda-c=0,1", "--terms=p,sin(q)", "--json"]
    options = [f"--option={name}={value}" for name, value in QUICK.items()]
    out = command(*given, *options, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    assert [row["lambda_c"] for row in json.loads(out.stdout)] == [0.0, 1.0]
    assert (tmp_path / "surface" / "surface.png").stat().st_size > 1000


def test_mistakes_are_refused() -> None:
    with pytest.raises(ConfigError, match="not negative"):
        tradeoff.sweep(braked(), lambda_s=[-1.0])
    with pytest.raises(ConfigError, match="leave both out"):
        tradeoff.sweep(braked(), search="elegant")
