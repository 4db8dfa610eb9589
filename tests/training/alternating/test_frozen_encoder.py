"""The paper's frozen-encoder search, constrained training, and rollouts with a teacher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import sjepa
from benchmarks.paper.conditions import EXPERIMENT_1
from sjepa.data import Trajectories, TrajectoryBatch
from sjepa.models import SparseLaw, make_encoder
from sjepa.symbolic import Law, Library
from sjepa.training.alternating import LatentModel, Phase, TrainingConfig
from sjepa.training.alternating.objective import Objective
from sjepa.training.alternating.sampling import TrainingData
from sjepa.training.frozen import with_adequate_rollouts
from tests.command import run as command

from .conftest import make_model, oscillator


DT = 0.1
OPTIONS = {
    "horizon": 5,
    "batching": "trajectories",
    "dynamics_epochs": 60,
    "symbolic_rate": 0.01,
    "neural_rate": 0.01,
}


def braked(count: int = 12, points: int = 50, seed: int = 0) -> Trajectories:
    """A pendulum with quadratic drag that follows forward Euler exactly."""
    z = [np.random.default_rng(seed).uniform(-1.5, 1.5, (count, 2))]
    for _ in range(points - 1):
        q, p = z[-1].T
        z.append(z[-1] + DT * np.stack([p, -np.sin(q) - 0.4 * p * np.abs(p)], axis=1))
    return Trajectories(list(np.stack(z, axis=1)), DT)


def objective(law: Law, data: Trajectories, horizon: int = 5) -> float:
    """L_frozen without a correction, from its definition, over all windows."""
    run = law.numpy()
    starts = np.concatenate([x[: len(x) - horizon] for x in data.x])
    z, losses = starts, []
    for h in range(1, horizon + 1):
        z = z + DT * run(z)
        goal = np.concatenate([x[h : len(x) - horizon + h] for x in data.x])
        losses.append(((z - goal) ** 2).mean())
    size = sum((2.0 if "sin" in str(t) else 1.0) * abs(c) for row in law.terms for c, t in row)
    return float(losses[0] + 0.35 * np.mean(losses) + 2.5e-4 * size)


def fitted(**settings: object) -> sjepa.SJEPA:
    model = sjepa.SJEPA(
        search=sjepa.Alternating(**OPTIONS, integrator="euler"), encoder="identity",
        random_state=0, library=["z2", "sin(z1)"], **settings,
    )  # fmt: skip
    return model.fit(braked())


def test_the_frozen_mode_minimizes_its_objective() -> None:
    data, model = braked(), fitted()
    value = objective(model.law_, data)
    plain = sjepa.SJEPA(encoder="identity", library=["z2", "sin(z1)"], random_state=0)
    with pytest.warns(sjepa.errors.NumericalWarning):  # the drag is not in the library
        law = plain.fit(data).law_
    assert value < objective(law, data)
    for scale in (0.97, 1.03):
        for i in range(len(model.law_.coefficients)):
            moved = model.law_.coefficients.copy()
            moved[i] *= scale
            assert objective(model.law_.with_coefficients(moved), data) > value


def test_a_frozen_hybrid_splits_the_field_by_lambda_c() -> None:
    light, heavy = (fitted(correction=sjepa.Neural(lambda_c=w, width=16)) for w in (1e-4, 10.0))
    assert heavy.figures_["rho_corr"] < 0.01 < light.figures_["rho_corr"] < 0.5


def test_l_pred_is_held_at_delta_and_not_pushed_below() -> None:
    """With room the penalty wins coefficients until the constraint binds."""
    train, validation = (TrajectoryBatch.make(braked(16, seed=s)) for s in (0, 1))
    settings = TrainingConfig(horizon=5, batching="trajectories", passes=3, symbolic_rate=0.01)
    found = {}
    # The last weight needs a multiplier of a hundred.
    for delta, weight in ((5e-4, 1e-2), (2e-3, 1e-2), (5e-4, 0.1)):
        model = make_model()
        model.encoder = torch.nn.Identity()
        assert model.symbolic is not None
        model.symbolic.set_law_(Law.from_string(["z2", "-sin(z1)"], ["z1", "z2"]))
        condition = EXPERIMENT_1["post_hoc"].with_(
            epochs=80, rollout=0.0, symbolic=weight, delta=delta
        )
        phase = Phase(model, condition, train, validation, settings)
        record = phase.run()
        assert record.risk == pytest.approx(delta, rel=0.1)
        assert phase.history[-1]["risk"] == pytest.approx(delta, rel=0.15)
        found[delta, weight] = (
            phase.objective.multiplier,
            float(model.symbolic.complexity().detach()),
        )
    (tight, large), (loose, small), (strong, _) = found.values()
    assert strong > 3 * tight > 3 * loose > 0 and small < large


def test_a_constraint_costs_nothing_where_it_holds_and_its_multiplier_pulls_where_it_does_not() -> (
    None
):
    """delta/2 (max(0, m + L/delta - 1)^2 - m^2), worked out by hand."""
    condition = EXPERIMENT_1["dynamics_phase"].with_(delta=2.0)
    one = Objective(make_model(), condition, TrainingConfig(horizon=3))
    for multiplier, loss, expected in ((0.0, 1.0, 0.0), (0.0, 3.0, 0.25), (1.0, 3.0, 1.25),
                                       (1.0, 2.0, 0.0), (0.5, 0.2, -0.25)):  # fmt: skip
        one.multiplier = multiplier
        assert float(one._adequacy(torch.tensor(loss))) == pytest.approx(expected)


def test_a_constraint_that_is_missed_is_doubted() -> None:
    assert any("above delta=1e-09" in warning for warning in fitted(delta=1e-9).warnings_)
    assert not fitted(delta=1e-2).warnings_


def test_the_multiplier_is_part_of_the_state() -> None:
    data, settings = oscillator(6), TrainingConfig(horizon=3)
    condition = EXPERIMENT_1["dynamics_phase"].with_(delta=1e-6, epochs=2)
    first = Phase(make_model(), condition, data, data, settings)
    first.step()
    assert first.objective.multiplier > 1.0
    second = Phase(make_model(), condition, data, data, settings)
    second.load_state_dict(first.state_dict())
    assert second.objective.multiplier == first.objective.multiplier


def test_a_teacher_shows_the_encoded_state_at_every_step() -> None:
    data, model = oscillator(3, points=5), make_model()
    chunk = TrainingData.of(data).chunk(slice(None), 0, 1)

    def rollout(share: float) -> torch.Tensor:
        settings = TrainingConfig(horizon=4, teacher_forcing=share)
        found = Objective(model, EXPERIMENT_1["dynamics_phase"], settings)(chunk).rollout
        assert found is not None
        return found

    assert model.symbolic is not None
    z, goal = model.encoder(data.x[:, 0]), model.target(data.x[:, 1:])
    seen = torch.cat([z[:, None], goal[:, :-1]], dim=1)
    ahead = seen + data.dt[..., None] * model.symbolic(seen)
    forced = (ahead - goal).square().mean()
    torch.testing.assert_close(rollout(1.0), forced)
    torch.testing.assert_close(rollout(0.3), 0.7 * rollout(0.0) + 0.3 * forced)


def test_a_teacher_shows_the_action_of_the_step_it_starts() -> None:
    data = oscillator(3, points=5)
    u = torch.randn(3, 5, 1, generator=torch.Generator().manual_seed(0))
    law = SparseLaw(Library.from_terms(["z2", "u", "z1*u"], ["z1", "z2", "u"]), ("z1", "z2"))
    with torch.no_grad():
        law.coefficients.copy_(torch.tensor([[1.0, 0.0], [0.5, 2.0], [0.0, -1.0]]))
    model = LatentModel(make_encoder("mlp", 6, 2, width=16), symbolic=law)
    chunk = TrainingData.of(replace(data, u=u)).chunk(slice(None), 0, 1)
    settings = TrainingConfig(horizon=4, teacher_forcing=1.0)
    found = Objective(model, EXPERIMENT_1["dynamics_phase"], settings)(chunk).rollout
    z, goal = model.encoder(data.x[:, 0]), model.target(data.x[:, 1:])
    seen = torch.cat([z[:, None], goal[:, :-1]], dim=1)
    ahead = seen + data.dt[..., None] * law(torch.cat([seen, u[:, :-1]], dim=-1))
    assert found is not None
    torch.testing.assert_close(found, (ahead - goal).square().mean())


def test_delta_is_read_by_the_alternating_search(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    run = Phase.run
    monkeypatch.setattr(Phase, "run", lambda p: (seen.append(p.condition.delta), run(p))[1])
    options = {"cycles": 1, "warm_epochs": 1, "dynamics_epochs": 1, "space_epochs": 1, "horizon": 3}
    x = [np.asarray(x, float) for x in oscillator(6).x]
    sjepa.SJEPA(search=sjepa.Alternating(**options), delta=1e-3, random_state=0).fit(x, 0.05)
    assert seen == [None, 1e-3, 1e-3]


def noisy() -> Trajectories:
    rng, t = np.random.default_rng(0), np.arange(0, 8, 0.05)
    x = [a * np.stack([np.cos(t + a), -np.sin(t + a)], axis=1) for a in (0.6, 1.0, 1.4)]
    return Trajectories([one + 0.002 * rng.normal(size=one.shape) for one in x], t)


def test_the_shortest_code_is_that_of_the_front() -> None:
    model = sjepa.SJEPA(search=sjepa.LawOnly(select="mdl"), encoder="identity", random_state=0).fit(
        noisy()
    )
    front, rows = model.front_, int(noisy().lengths.sum())
    codes = [c.law.description_length(c.loss, rows) for c in front]
    assert front.position(model.law_) == int(np.argmin(codes))
    assert front.shortest(rows) == front[int(np.argmin(codes))].law


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")
def test_rollouts_that_must_be_adequate_reach_further_along_the_front(tmp_path: Path) -> None:
    data = braked()
    wide = ["z2", "sin(z1)", "z2*abs(z2)", "z1"]
    exact = sjepa.SJEPA(
        search=sjepa.LawOnly(delta_roll=1e-3), encoder="identity", library=wide, random_state=0
    ).fit(data)
    assert "Abs" in str(exact.law_) and any("rollouts of 10" in n for n in exact.diagnostics_)
    simplest = exact.front_[0].law
    names = Trajectories(data.x, data.t, names=["z1", "z2"])
    found, _, _ = with_adequate_rollouts(exact.front_, simplest, names, "rk4", 1e-3)
    assert found != simplest and "Abs" in str(found)
    short = sjepa.SJEPA(
        search=sjepa.LawOnly(delta_roll=1e-9), encoder="identity", library=["z1"], random_state=0
    )
    assert any("reaches a rollout loss" in n for n in short.fit(data).warnings_)
    rows = [
        pd.DataFrame(x, columns=["q", "p"]).assign(run=i, t=data.t[i]) for i, x in enumerate(data.x)
    ]
    pd.concat(rows).to_csv(tmp_path / "data.csv", index=False)
    given = [
        "fit",
        "data.csv",
        "--id=run",
        "--time=t",
        "--encoder=identity",
        "--set=search.select=mdl",
    ]
    given += ["--library=p,sin(q),p*abs(p)"]
    out = command(*given, "--set=search.delta_roll=0.5", "--json", cwd=tmp_path)
    assert out.returncode == 0 and "rollouts of 10 steps" in out.stdout, out.stderr
