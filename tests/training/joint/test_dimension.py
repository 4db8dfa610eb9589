"""The fewest coordinates with an adequate law, and what is told about the others."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sjepa
from sjepa import SJEPA
from sjepa.errors import DataError
from sjepa.symbolic import Law
from sjepa.symbolic.verdict import Verdict
from sjepa.training.joint.dimension import fewest_coordinates
from sjepa.training.result import FitResult


def learned(residual: float, adequate: bool) -> FitResult:
    figures = {"residual": residual, "noise_floor": 1e-4, "adequate": float(adequate)}
    law = Law.from_string(["-z1"], ["z1"])
    return FitResult(
        law,
        SimpleNamespace(),
        lambda x: x,
        ["a note"],
        figures=figures,
        judged=Verdict(law, adequate),
    )  # type: ignore[arg-type]


def test_the_fewest_adequate_coordinates_are_taken_before_any_nonlinear_ones() -> None:
    asked: list[Any] = []

    def learn(d: int, grow: bool) -> FitResult:
        asked.append((d, grow))
        return learned(0.5 / d**5, d == 2)

    found, table = fewest_coordinates(learn, 3, True)
    assert asked == [(1, False), (2, False)]
    assert [row.adequate for row in table] == [False, True]
    assert "latent_dim = 2 was chosen" in found.notes[0] and "not adequate" in found.notes[0]


def test_nonlinear_coordinates_are_tried_where_no_read_out_is_adequate() -> None:
    found, table = fewest_coordinates(lambda d, grow: learned(0.1, grow and d == 2), 3, True)
    assert [row.dimension for row in table] == [1, 2, 3] and table[1].adequate
    assert "latent_dim = 2" in found.notes[0]


def test_without_an_adequate_law_the_best_is_returned_as_what_it_is() -> None:
    def learn(d: int, grow: bool) -> FitResult:
        if d == 3:
            raise DataError("two directions only")
        return learned(0.3 / d, False)

    found, table = fewest_coordinates(learn, 3, False)
    assert [row.dimension for row in table] == [1, 2]
    assert found.figures["residual"] == pytest.approx(0.15)


def test_a_plane_of_oscillations_has_two_coordinates_and_the_model_shows_why(tmp_path: Any) -> None:
    t = np.arange(0, 12, 0.1)
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(2, 4))
    x = [
        np.stack([a * np.cos(t + b), -a * np.sin(t + b)], axis=1) @ mixing
        for a, b in rng.uniform(0.5, 2.0, size=(8, 2)) * [1, 3]
    ]
    small = {"structures": 3, "restarts": 2, "effort": 0.2, "grow": False, "rollout": 5}
    model = SJEPA("auto", search=sjepa.Joint(**small), random_state=0).fit(x, t)
    assert model.latent_dim_ == 2
    assert list(model.dimensions_["adequate"]) == [False, True]
    model.save(tmp_path / "m")
    again = sjepa.load(tmp_path / "m")
    assert again.latent_dim_ == 2 and again.latent_dim == "auto"
    assert again.dimensions_.equals(model.dimensions_)
    again.dimensions_.loc[0, "noise_floor"] = np.nan  # not known, and saved as that
    again.save(tmp_path / "unknown")
    assert sjepa.load(tmp_path / "unknown").dimensions_.equals(again.dimensions_)
