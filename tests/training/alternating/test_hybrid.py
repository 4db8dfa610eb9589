"""Law and correction learnt together with coordinates, and direct maps learnt end to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import sjepa
from benchmarks.patches import patch_pairs
from sjepa.data import Trajectories
from sjepa.metrics import r2
from sjepa.training.alternating import Alternation
from sjepa.training.alternating.objective import Objective
from sjepa.training.alternating.sampling import TrainingData
from sjepa.training.correction import Neural
from tests.benchmarks.test_patches import shaded

from .conftest import make_model, oscillator


QUICK = {
    "network": "linear", "batching": "trajectories", "horizon": 5, "cycles": 1, "warm_epochs": 10,
    "dynamics_epochs": 10, "space_epochs": 10, "encoder_rate": 5e-3, "symbolic_rate": 1e-2,
    "neural_rate": 5e-3,
}  # fmt: skip


def braked(count: int = 12) -> Trajectories:
    """Two coordinates with quadratic drag, seen through a linear map of six sensors."""
    rng, t = np.random.default_rng(0), np.arange(60) * 0.1
    state = rng.normal(size=(count, 2))
    path = [state]
    for _ in t[1:]:
        q, p = path[-1].T
        path.append(path[-1] + 0.1 * np.stack([p, -q - 0.4 * p * np.abs(p)], axis=1))
    x = np.stack(path, axis=1) @ rng.normal(size=(2, 6))
    return Trajectories(list(x), [t] * count)


def hybrid(weight: float) -> sjepa.SJEPA:
    model = sjepa.SJEPA(search=sjepa.Alternating(**QUICK), library=["z1", "z2"], random_state=0, correction=sjepa.Neural(lambda_c=weight, width=16))  # fmt: skip
    return model.fit(braked())


@pytest.fixture(scope="module")
def free() -> sjepa.SJEPA:
    return hybrid(0.0)


def test_both_phases_of_a_cycle_train_the_correction() -> None:
    _, plan = sjepa.Alternating().plan("stlsq", 0.02)
    for phase, trained in (
        (plan.dynamics, {"symbolic", "correction"}),
        (plan.space, {"encoder", "symbolic", "correction"}),
    ):
        assert phase.uses == ("symbolic", "correction")
        assert set(phase.trains) == trained and phase.correction == 0.02
    # The paper's default for joint learning.
    assert Neural().lambda_c == 2e-2
    assert Alternation().dynamics.correction == 0.0


def test_the_penalty_is_the_mean_energy_per_coordinate_at_visited_states() -> None:
    settings = sjepa.Alternating(horizon=3, correction_tau=0.0)
    _, plan = settings.plan("stlsq", 0.5)
    model, data = make_model(), oscillator(2, points=4)
    terms = Objective(model, plan.dynamics, settings)(
        TrainingData.of(data).chunk(slice(None), 0, 1)
    )
    assert model.symbolic is not None and model.correction is not None
    z, energy = model.encoder(data.x[:, 0]), []
    for h in range(3):
        c = model.correction(z)
        energy.append(c.square().sum(-1) / 2)
        z = z + data.dt[:, h, None] * (model.symbolic(z) + c)
    expected = torch.stack(energy).mean()
    assert terms.correction is not None
    torch.testing.assert_close(terms.correction, expected)
    without = terms.total - 0.5 * expected
    plain = terms.prediction + 0.35 * terms.rollout + 2.5e-4 * terms.symbolic
    torch.testing.assert_close(without, plain)


def test_a_hybrid_is_learnt_with_its_coordinates_and_its_share_told(free: sjepa.SJEPA) -> None:
    strict = hybrid(100.0)
    for model in (free, strict):
        z = torch.as_tensor(np.concatenate([model.encode(x) for x in braked().x]))
        law, correction = model.transition_.parts(z)
        expected = correction.square().sum() / (law + correction).square().sum()
        assert model.figures_["rho_corr"] == pytest.approx(float(expected), rel=1e-6)
        assert any(line.startswith("rho_corr") for line in model.diagnostics_)
        assert model.transition_.law() == model.law_
    assert 10 * strict.figures_["rho_corr"] < 0.1 < free.figures_["rho_corr"]


def test_a_hybrid_comes_back_from_its_folder(free: sjepa.SJEPA, tmp_path: Path) -> None:
    free.save(tmp_path / "hybrid")
    again = sjepa.load(tmp_path / "hybrid")
    z = torch.randn(5, 2, dtype=torch.float64)
    for mine, theirs in zip(free.transition_.parts(z), again.transition_.parts(z), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert again.figures_["rho_corr"] == free.figures_["rho_corr"]


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # its library lacks all
def test_a_correction_that_runs_the_show_is_doubted() -> None:
    t = np.arange(0, 6, 0.05)
    x = [a * np.stack([np.cos(t), -np.sin(t)], axis=1) for a in (0.5, 0.8, 1.0, 1.2, 1.5)]
    model = sjepa.SJEPA(
        encoder="identity",
        library=["z1**2"],
        correction=sjepa.Neural(energy=0.0, updates=200),
        random_state=0,
    ).fit(x, t)
    assert model.figures_["rho_corr"] > 0.5
    assert any("is not what moves the state" in warning for warning in model.warnings_)


@pytest.mark.parametrize("name", ["energy", "updates", "joint"])
def test_what_only_a_fit_on_fixed_coordinates_reads_is_refused(name: str) -> None:
    given = Neural(**{name: True if name == "joint" else 7})
    model = sjepa.SJEPA(search="alternating", correction=given)
    with pytest.raises(sjepa.errors.ConfigError, match=f"{name} is not read") as caught:
        model.check(braked())
    assert caught.value.argument == "correction"


def test_a_map_is_learnt_end_to_end() -> None:
    rng, angle = np.random.default_rng(1), 0.9
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    state = [rng.normal(size=(30, 2))]
    for _ in range(15):
        state.append(state[-1] @ turn)
    x = np.stack(state, axis=1) @ rng.normal(size=(2, 6))
    options = QUICK | {"passes": 5, "space_epochs": 20, "warm_epochs": 20}
    model = sjepa.SJEPA(search=sjepa.Alternating(**options, dynamics="discrete"), library=["1", "z1", "z2"], random_state=0).fit(list(x), np.arange(16.0))  # fmt: skip
    assert model.law_.dynamics == "discrete"
    # Trace and determinant of the map are the same in all linear coordinates.
    run = model.law_.numpy()
    matrix = run(np.eye(2)) - run(np.zeros((2, 2)))
    assert np.trace(matrix) == pytest.approx(2 * np.cos(angle), abs=0.02)
    assert np.linalg.det(matrix) == pytest.approx(1.0, abs=0.02)
    assert model.score(list(x), np.arange(16.0)) > 0.98


def test_masked_prediction_learns_its_encoder() -> None:
    """The target's brightness follows from the slopes that the encoder must have kept."""
    pairs = patch_pairs(shaded(120, noise=0.01), 6, pairs=4)
    data = pairs.trajectories()
    assert data.u is not None and (data.u[3][0] == pairs.offset[3]).all()
    terms = ["1", "z1", "z2", "right", "down"]
    terms += [f"{z}*{o}" for z in ("z1", "z2") for o in ("right", "down")]
    options = QUICK | {"horizon": 1, "warm_epochs": 20, "space_epochs": 20, "passes": 4}
    model = sjepa.SJEPA(
        search=sjepa.Alternating(**options, dynamics="discrete"), library=terms, random_state=0
    ).fit(data)
    fresh = patch_pairs(shaded(40, noise=0.01, seed=5), 6, pairs=4, seed=1)
    z, goal = (model.encode(side) for side in (fresh.context, fresh.target))
    guess = model.predict(fresh.context, fresh.offset)
    assert r2(guess, goal) > 0.9 > r2(z, goal)
