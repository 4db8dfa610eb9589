"""A correction beside a law of second order: it adds to the accelerations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sjepa
from sjepa.data import Trajectories
from sjepa.symbolic import Candidate, Front, Law
from sjepa.training import FitResult, Neural, refine_hybrid


LIBRARY = ["z1", "sin(z1)"]  # has no damping
QUICK = Neural(updates=300, width=16)
MIX = np.random.default_rng(3).normal(size=(1, 4))


def swings(count: int, seed: int, pushed: bool = False) -> Trajectories:
    """Angles of a damped pendulum, under random torques if it is pushed."""
    rng, t = np.random.default_rng(seed), np.arange(80) * 0.1
    q, p = rng.uniform(-2, 2, size=(2, count))
    u = rng.normal(size=(len(t), count)) * pushed
    path = []
    for push in u:
        path.append(q)
        for _ in range(10):
            q, p = q + 0.01 * p, p + 0.01 * (-np.sin(q + 0.005 * p) - 0.3 * p + push)
    actions = list(u.T[..., None]) if pushed else None
    return Trajectories(list(np.array(path).T[..., None]), [t] * count, actions)


def missed(model: sjepa.SJEPA, data: Trajectories) -> float:
    """Share of the variance that simulations of whole trajectories miss."""
    return 1 - model.score(data)


def fitted(**settings: Any) -> sjepa.SJEPA:
    given = {"encoder": "identity", "order": 2, "library": LIBRARY, "random_state": 0, **settings}
    return sjepa.SJEPA(**given).fit(swings(10, 0))


@pytest.fixture(scope="module")
def hybrid() -> sjepa.SJEPA:
    return fitted(correction=QUICK)


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_it_predicts_held_out_paths_that_the_law_misses(hybrid: sjepa.SJEPA) -> None:
    fresh = swings(4, 9)
    law, both = missed(fitted(), fresh), missed(hybrid, fresh)
    assert law > 0.1 and both < 0.2 * law
    assert 0 < hybrid.figures_["rho_corr"] < 0.5
    # What it adds is the damping that the library lacks.
    states = torch.tensor([[0.3, 1.0], [0.3, -1.0]], dtype=torch.float64)
    c = hybrid.transition_.parts(states)[1]
    assert c.shape == (2, 1) and c[0, 0] < -0.15 and c[1, 0] > 0.15


def test_it_is_saved_loaded_and_reported(hybrid: sjepa.SJEPA, tmp_path: Path) -> None:
    hybrid.save(tmp_path / "model")
    again, fresh = sjepa.load(tmp_path / "model"), swings(2, 9)
    assert again.transition_.order == 2
    accelerations = [m.predict(fresh.x[0], t=fresh.t[0]) for m in (hybrid, again)]
    np.testing.assert_array_equal(*accelerations)
    assert accelerations[0].shape == (80, 1)
    assert missed(again, fresh) == missed(hybrid, fresh)
    page = again.report(tmp_path / "page.html", fresh).read_text()
    assert "law and its neural correction" in page


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_a_network_alone_predicts_accelerations_too() -> None:
    model = fitted(correction=replace(QUICK, alone=True))
    assert model.transition_.symbolic is None and missed(model, swings(4, 9)) < 0.3
    assert model.linearize([0.0, 0.0]).field.A[0].tolist() == [0.0, 1.0]


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # the law is to lack something
def test_it_sees_actions() -> None:
    model = sjepa.SJEPA(
        encoder="identity", order=2, library=["sin(z1)", "u1"], random_state=0, correction=QUICK
    ).fit(swings(10, 0, pushed=True))
    assert missed(model, swings(4, 9, pushed=True)) < 0.1


def test_coordinates_move_with_it() -> None:
    """Sensors whose read-out is skewed a little, and a law without damping."""
    data = swings(8, 0).map(lambda x: np.concatenate([x, 0.2 * x**2], axis=1))
    before, head = torch.nn.Identity(), torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 0.1]]))
        head.bias.zero_()
    law = Law.from_string(["-0.9*sin(z1)"], ["z1", "z1_t"], outputs=["z1_t"])
    front = Front([Candidate.score(law, [0.1])])
    learned = FitResult(law, front, torch.nn.Sequential(before, head))
    settings = Neural(joint="coordinates", width=8, lambda_c=1e-3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sjepa.training.joint.hybrid.ITERATIONS", 20)
        refined = refine_hybrid(data, learned, settings, 0)
    assert any("were refined together" in note for note in refined.notes)
    assert refined.correction is not None
    assert refined.correction(torch.zeros(5, 2).double()).shape == (5, 1)
    assert not torch.equal(refined.encoder[1].weight, head.weight)
