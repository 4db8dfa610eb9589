"""The trade-off surface over the weights of the objective."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from benchmarks import surface
from benchmarks.surface_page import surface_page
from sjepa import Alternating, Library
from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.estimator import SJEPA


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
    assert surface.non_dominated(values, fine).tolist() == expected
    assert 0 < sum(expected) < 48


def test_a_sweep_shows_the_trade_and_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {
        "lambda_s": [1e-4, 1e-3], "lambda_c": [0.0, 10.0], "out": tmp_path,
        "search": Alternating(**QUICK, integrator="euler"), "encoder": "identity",
        "library": Library.from_terms(["p", "sin(q)"], ["q", "p"]),
    }  # fmt: skip
    table = surface.sweep(braked(), **given)
    by = table.set_index(["lambda_s", "lambda_c"])
    # A heavy price on the correction leaves nearly none, at the cost of prediction.
    assert (10 * by.xs(10.0, level=1)["rho_corr"] < by.xs(0.0, level=1)["rho_corr"]).all()
    assert (by.xs(10.0, level=1)["l_pred"] > by.xs(0.0, level=1)["l_pred"]).all()
    axes = table[list(surface.AXES)].to_numpy()
    assert table["front"].tolist() == surface.non_dominated(axes).tolist()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "surface.csv"), table)
    monkeypatch.setattr(SJEPA, "fit", lambda *a, **k: pytest.fail("fitted again"))
    again = surface.sweep(braked(), **given)
    pd.testing.assert_frame_equal(again, table)


def test_the_command_writes_table_figure_and_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [pd.DataFrame(x, columns=["q", "p"]).assign(run=i) for i, x in enumerate(braked(6).x)]
    times = [DT * np.arange(len(x)) for x in braked(6).x]
    pd.concat(rows).assign(t=np.concatenate(times)).to_csv(tmp_path / "data.csv", index=False)
    given = ["--out", tmp_path / "out", "--id", "run", "--time", "t", "--lambda-s", 1e-4]
    given += ["--lambda-c", 0, 1, "--terms", "p", "sin(q)", "--epochs", 2]
    monkeypatch.setattr(sys, "argv", ["surface", str(tmp_path / "data.csv"), *map(str, given)])
    surface.main()
    assert pd.read_csv(tmp_path / "out" / "surface.csv")["lambda_c"].tolist() == [0.0, 1.0]
    page = (tmp_path / "out" / "surface.html").read_text("utf-8")
    assert page.count('<tr id="row') == 2 and "sin(q)" in page
    assert (tmp_path / "out" / "surface.png").stat().st_size > 1000


def test_mistakes_are_refused() -> None:
    with pytest.raises(ConfigError, match="not negative"):
        surface.sweep(braked(), lambda_s=[-1.0])
    with pytest.raises(ConfigError, match="Alternating"):
        surface.sweep(braked(), search="joint")


def test_a_point_of_the_page_leads_to_its_setting() -> None:
    rows = [(1e-4, c, 0.35, 10.0 ** -(3 + i), 1e-2, 3.0 + i, 0.1 * i, i < 3, f"q' = {i}*p < 1")
            for i, c in enumerate((0.0, 0.1, 0.2, 0.3))]  # fmt: skip
    columns = ["lambda_s", "lambda_c", "lambda_r", *surface.AXES, "admissible", "law"]
    table = pd.DataFrame(rows, columns=columns)
    table["front"] = [False, True, True, False]
    page = surface_page(table)
    tree = ElementTree.fromstring(page[page.index("<main>") : page.index("</main>") + 7])
    points = tree.findall(".//a")
    assert len(points) == 4 * 3 and "1 have collapsed" in page
    for point in points:
        row = tree.find(f".//tr[@id='{point.attrib['href'][1:]}']")
        assert row is not None
        law = str(row.findall("td")[-1].text)
        assert str(point.findtext("title")).endswith(law) and "< 1" in law
        assert ("chosen" in point.attrib["class"]) == ("class" in row.attrib)
    # Larger losses lie higher, in the first drawing that of the first row.
    first = tree.findall(".//svg")[0].findall("a")
    heights = {p.attrib["data-row"]: float(p[1].attrib["cy"]) for p in first}
    assert heights["0"] < heights["1"] < heights["2"]
