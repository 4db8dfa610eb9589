"""The table of conditions is the paper's."""

from __future__ import annotations

import pytest

from benchmarks.paper.conditions import CONDITIONS, EXPERIMENT_1, EXPERIMENT_2
from sjepa.errors import ConfigError
from sjepa.training.alternating import Condition


# Rows of the paper's table: L_pred, L_roll, R_IB, Ω_train, R_corr.
ACTIVE = {
    "warm_start": (1, 1, 1, 0, 0),
    "neural_jepa": (1, 1, 1, 0, 0),
    "post_hoc": (1, 1, 0, 1, 0),
    "dynamics_phase": (1, 1, 0, 1, 0),
    "space_phase": (1, 1, 1, 1, 0),
    "one_step_collapse": (1, 0, 0, 1, 0),
    "one_step_attached": (1, 0, 0, 1, 0),
    "fixed_point": (1, 0, 0, 1, 0),
    "frozen": (1, 1, 0, 1, 1),
    "symbolic_incomplete": (1, 1, 0, 1, 0),
    "symbolic_complete": (1, 1, 0, 1, 0),
    "hybrid_regularised": (1, 1, 0, 1, 1),
    "hybrid_unregularised": (1, 1, 0, 1, 0),
    "neural_only": (1, 1, 0, 0, 0),
}


def test_every_condition_is_in_the_table() -> None:
    assert CONDITIONS.keys() == ACTIVE.keys()
    assert len(EXPERIMENT_2) == 5


@pytest.mark.parametrize("name", ACTIVE)
def test_active_terms(name: str) -> None:
    c = CONDITIONS[name]
    weights = (c.prediction, c.rollout, c.representation, c.symbolic, c.correction)
    assert tuple(int(w > 0) for w in weights) == ACTIVE[name]


def test_schedule_and_rates() -> None:
    epochs = {name: c.epochs for name, c in EXPERIMENT_1.items()}
    assert epochs == {
        "warm_start": 130, "neural_jepa": 90, "post_hoc": 65, "dynamics_phase": 65,
        "space_phase": 85, "one_step_collapse": 100, "one_step_attached": 100, "fixed_point": 5,
    }  # fmt: skip
    assert all(c.epochs == 260 for c in EXPERIMENT_2.values())
    scale = {name: c.encoder_scale for name, c in EXPERIMENT_1.items() if c.updates_encoder}
    assert scale == {
        "warm_start": 1.0, "neural_jepa": 0.5, "space_phase": 0.35, "one_step_collapse": 0.35,
        "one_step_attached": 0.35,
        "fixed_point": 0.2,
    }  # fmt: skip
    assert {name for name, c in CONDITIONS.items() if c.allow_collapse} == {
        "one_step_collapse", "one_step_attached", "fixed_point",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uses": ("oracle",)}, "No part is called 'oracle'"),
        ({"rollout": -1.0}, "must not be negative"),
        ({"trains": ("neural",), "representation": 1.0}, "needs a trained encoder"),
        ({"symbolic": 1.0}, "needs a symbolic part"),
        ({"correction": 1.0}, "needs a correction"),
        ({"epochs": -1}, "epochs"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, object], message: str) -> None:
    given = {"name": "x", "uses": ("neural",), "trains": ("encoder", "neural"), **changes}
    with pytest.raises(ConfigError, match=message):
        Condition(**given)  # type: ignore[arg-type]
