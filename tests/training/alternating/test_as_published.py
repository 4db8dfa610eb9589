"""Algorithm 1 as the paper prints it."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

import sjepa
from sjepa.backend.registry import make_backend
from sjepa.callbacks import Callback, Step
from sjepa.data import TrajectoryBatch
from sjepa.training.alternating import AlternatingLoop, TrainingConfig

from .conftest import LIBRARY, make_model, oscillator


def test_the_setting_gives_what_is_printed() -> None:
    settings = sjepa.Alternating(as_published=True, integrator="euler")
    warm, plan = settings.plan("stlsq")
    assert (warm.epochs, plan.cycles, plan.dynamics.epochs, plan.space.epochs) == (130, 4, 65, 85)
    assert make_backend(plan.backend) == make_backend(
        {"name": "stlsq", "threshold": 0.035, "ridge": 1e-5}
    )
    assert plan.policy == ("library", True, False)
    assert (plan.ema, plan.refit) == ("cycle", False)
    assert settings.batching == "windows"
    assert settings.patience is None
    # Another backend only initializes, too.
    assert settings.plan("subset")[1].policy == ("library", True, False)


def test_the_target_moves_once_a_cycle(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    model = make_model()
    model.symbolic = None
    published = sjepa.Alternating(
        as_published=True, integrator="euler", cycles=1, dynamics_epochs=1, space_epochs=2
    )
    _, plan = published.plan("stlsq")
    before = deepcopy(model.target.encoder)
    AlternatingLoop(model, LIBRARY, train, validation, plan, settings, seed=1).run()
    three = zip(
        before.parameters(), model.encoder.parameters(), model.target.encoder.parameters(),
        strict=True,
    )  # fmt: skip
    for old, context, target in three:
        # By how far it moved: the parameters themselves would hide a step as small as this.
        moved, step = (target - old).detach(), 0.01 * (context - old).detach()
        assert float(step.abs().max()) > 0
        assert float((moved - step).norm()) < 0.02 * float(step.norm())


class Laws(Callback):
    """The last law that training itself came to."""

    last: str | None = None

    def on_step(self, step: Step) -> None:
        self.last = step.law or self.last


def test_coefficients_stay_as_they_were_trained() -> None:
    options = {
        "as_published": True, "cycles": 1, "warm_epochs": 3, "dynamics_epochs": 2, "space_epochs": 1,
        "horizon": 3, "validate_every": 1,
    }  # fmt: skip
    laws = Laws()
    model = sjepa.SJEPA(
        search=sjepa.Alternating(**options, integrator="euler"), random_state=0, verbose=[laws]
    ).fit([np.asarray(x, float) for x in oscillator(10).x], 0.05)
    assert laws.last == "; ".join(model.law_.lines(digits=4))
