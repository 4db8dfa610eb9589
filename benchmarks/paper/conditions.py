"""The conditions of the paper's experiments: its table of active terms."""

from __future__ import annotations

from collections.abc import Mapping

from sjepa.training.alternating.conditions import (
    DYNAMICS_PHASE,
    FROZEN,
    ROLLOUT,
    SPACE_PHASE,
    SYMBOLIC,
    WARM_START,
    Condition,
)


EXP2_SYMBOLIC = 1.5e-4
EXP2_CORRECTION = 1.5e-2


def _table(*rows: Condition) -> Mapping[str, Condition]:
    return {row.name: row for row in rows}


# Columns of the paper's table: L_pred, L_roll, R_IB, Ω_train, R_corr.
EXPERIMENT_1: Mapping[str, Condition] = _table(
    WARM_START,
    Condition(
        name="neural_jepa", uses=("neural",), trains=("encoder", "neural"),
        rollout=ROLLOUT, representation=1.0, epochs=90, encoder_scale=0.5,
    ),
    Condition(
        name="post_hoc", uses=("symbolic",), trains=("symbolic",),
        rollout=ROLLOUT, symbolic=SYMBOLIC, epochs=65, targets="context",
    ),
    DYNAMICS_PHASE,
    SPACE_PHASE,
    Condition(
        name="one_step_collapse", uses=("symbolic",), trains=("encoder", "symbolic"),
        symbolic=SYMBOLIC, epochs=100, encoder_scale=0.35, allow_collapse=True,
    ),
    Condition(
        name="one_step_attached", uses=("symbolic",), trains=("encoder", "symbolic"),
        symbolic=SYMBOLIC, epochs=100, encoder_scale=0.35, allow_collapse=True,
        targets="attached",
    ),
    Condition(
        name="fixed_point", uses=("symbolic",), trains=("encoder", "symbolic"),
        symbolic=SYMBOLIC, epochs=5, encoder_scale=0.20, allow_collapse=True,
    ),
)  # fmt: skip

EXPERIMENT_2: Mapping[str, Condition] = _table(
    Condition(
        name="symbolic_incomplete", uses=("symbolic",), trains=("symbolic",),
        rollout=ROLLOUT, symbolic=EXP2_SYMBOLIC, epochs=260, targets="context",
        grammar="incomplete",
    ),
    Condition(
        name="hybrid_regularised", uses=("symbolic", "correction"),
        trains=("symbolic", "correction"), rollout=ROLLOUT, symbolic=EXP2_SYMBOLIC,
        correction=EXP2_CORRECTION, epochs=260, targets="context", grammar="incomplete",
    ),
    Condition(
        name="hybrid_unregularised", uses=("symbolic", "correction"),
        trains=("symbolic", "correction"), rollout=ROLLOUT, symbolic=EXP2_SYMBOLIC,
        epochs=260, targets="context", grammar="incomplete",
    ),
    Condition(
        name="symbolic_complete", uses=("symbolic",), trains=("symbolic",),
        rollout=ROLLOUT, symbolic=EXP2_SYMBOLIC, epochs=260, targets="context",
        grammar="complete",
    ),
    Condition(
        name="neural_only", uses=("neural",), trains=("neural",),
        rollout=ROLLOUT, epochs=260, targets="context",
    ),
)  # fmt: skip

CONDITIONS: Mapping[str, Condition] = {**EXPERIMENT_1, FROZEN.name: FROZEN, **EXPERIMENT_2}
