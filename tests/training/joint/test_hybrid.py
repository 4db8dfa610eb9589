"""A correction refined together with the coordinates and the law of the joint search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sjepa
from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.models import Whitening
from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic import Candidate, Front, Law
from sjepa.training import FitResult, Neural, refine_hybrid


MIX = np.random.default_rng(7).normal(size=(2, 6))


def braked(count: int = 8, seed: int = 0) -> Trajectories:
    """Two coordinates with quadratic drag, seen through a linear map of six sensors."""
    rng, t = np.random.default_rng(seed), np.arange(40) * 0.1
    path = [rng.normal(size=(count, 2))]
    for _ in t[1:]:
        z = path[-1]
        for _ in range(4):
            q, p = z.T
            z = z + 0.025 * np.stack([p, -q - 0.4 * p * np.abs(p)], axis=1)
        path.append(z)
    return Trajectories(list(np.stack(path, axis=1) @ MIX), [t] * count)


def found(*_: object, **__: object) -> FitResult:
    """What the search leaves: skewed coordinates, and a law without the drag."""
    whitening = Whitening.fit(torch.as_tensor(np.concatenate(braked().x)), 6, rank=2).double()
    z = whitening(torch.as_tensor(np.eye(6))) - whitening(torch.zeros(1, 6).double())
    readout = torch.linalg.inv(torch.as_tensor(MIX) @ z)  # of the state from whitened values
    head = LinearEncoder(2, 2).double()
    with torch.no_grad():
        head.linear.weight.copy_(
            (readout @ torch.tensor([[1.0, 0.1], [0.0, 1.0]], dtype=torch.float64)).T
        )
        head.linear.bias.zero_()
    law = Law.from_string(["z2", "-0.9*z1"], ["z1", "z2"])
    front = Front([Candidate.score(law, [0.1, 0.1])])
    return FitResult(law, front, torch.nn.Sequential(whitening, head).requires_grad_(False))


def fitted(**correction: object) -> sjepa.SJEPA:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sjepa.estimator.model.fit_joint", found)
        patch.setattr("sjepa.training.joint.hybrid.ITERATIONS", 20)
        patch.setattr("sjepa.training.joint.hybrid.HORIZON", 5)
        model = sjepa.SJEPA(
            library=["z1", "z2"], random_state=0,
            correction=Neural(joint="coordinates", width=16, **correction) if correction else None,
        )  # fmt: skip
        return model.fit(braked())


def missed(model: sjepa.SJEPA, data: Trajectories, steps: int = 30) -> float:
    """Error of rollouts as a share of the variance, from the definition."""
    z = torch.as_tensor(np.stack([model.encode(x) for x in data.x]))
    path = model.transition_.rollout(z[:, 0], 0.1, steps=steps)
    return float(((path[:, 1:] - z[:, 1 : steps + 1]) ** 2).mean() / z.flatten(0, 1).var(0).mean())


@pytest.fixture(scope="module")
def models() -> dict[str, sjepa.SJEPA]:
    return {"law": fitted(), "light": fitted(lambda_c=0.01), "heavy": fitted(lambda_c=1e4)}


def test_coordinates_law_and_correction_move_together(models: dict[str, sjepa.SJEPA]) -> None:
    law, light, heavy = (models[name] for name in ("law", "light", "heavy"))
    fresh = braked(8, seed=5)
    assert missed(light, fresh) < 0.5 * missed(law, fresh)
    assert 10 * heavy.figures_["rho_corr"] < light.figures_["rho_corr"] < 0.5
    weights = [m.encoder_[-1].linear.weight for m in (law, light)]
    assert not torch.allclose(*weights, rtol=1e-3)
    assert light.law_ != law.law_ and [len(r) for r in light.law_.terms] == [
        len(r) for r in law.law_.terms
    ]
    assert any("were refined together" in note for note in light.diagnostics_)


def test_it_comes_back_from_its_folder(models: dict[str, sjepa.SJEPA], tmp_path: Path) -> None:
    models["light"].save(tmp_path / "hybrid")
    again = sjepa.load(tmp_path / "hybrid")
    assert missed(again, braked(2)) == pytest.approx(missed(models["light"], braked(2)), rel=1e-9)


def test_actions_take_part() -> None:
    rng, data = np.random.default_rng(1), braked(6)
    u = [rng.normal(size=(len(x), 1)) for x in data.x]
    driven = Trajectories(data.x, data.t, u)
    law = Law.from_string(["z2", "-0.9*z1 + 0.01*u1"], ["z1", "z2", "u1"])
    settings = Neural(joint="coordinates", width=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sjepa.training.joint.hybrid.ITERATIONS", 3)
        refined = refine_hybrid(driven, replace(found(), law=law), settings, 0)
    assert refined.correction is not None and refined.law.inputs == ("z1", "z2", "u1")
    assert refined.correction(torch.zeros(5, 3).double()).shape == (5, 2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"correction": Neural(joint="coordinates", energy=0.1)}, "energy is not read"),
        ({"correction": Neural(joint="coordinates"), "encoder": "identity"}, "search='joint'"),
        ({"correction": Neural(joint="coordinates"), "search": "alternating"}, "joint is not read"),
        ({"correction": Neural(joint="coordinates", alone=True)}, "search='joint'"),
        ({"correction": {"name": "neural", "joint": "all"}}, "True, False or 'coordinates'"),
    ],
)
def test_what_would_go_unread_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        sjepa.SJEPA(**settings).check(braked())  # type: ignore[arg-type]
    assert caught.value.argument == "correction"
