"""A law that is clearly best with linear encoders: its encoder alone is made nonlinear."""

from __future__ import annotations

from collections.abc import Sequence

from sjepa.models.encoders import LinearEncoder
from sjepa.training.joint.context import SearchContext
from sjepa.training.joint.finalists import LONG, enough, validation_risk
from sjepa.training.joint.nonlinear import EASING, HIGH, LOW, Pair, raise_degree, solved
from sjepa.training.joint.refinement import StructureTask
from sjepa.training.joint.structures import Symmetry


# Largest residual of a best candidate: with a larger residual the coordinates are wrong, and
# polynomial encoders fit many laws.
PROMISING = 5e-3
# Other laws leave at least this many times more.
CLEAR = 5.0
# Of laws that differ by less than this factor the cheapest leads.
ALIKE = 1.5

Linear = tuple[LinearEncoder, StructureTask]


def best_candidate_raised(context: SearchContext, lead: Linear | None) -> list[Pair]:
    """The best law with a polynomial encoder, if its residual is near the noise floor.

    Nothing where no law leads, or where that is not enough.
    """
    if lead is None:
        return []
    head, task = lead
    (low,) = solved(context, [(task.structure, head)], LOW, EASING)
    (high,) = solved(context, [(task.structure, low.head)], HIGH, (1.0,))
    pair = raise_degree(context, high)
    return [pair] if enough(context, *pair) else []


def best_candidate(context: SearchContext, heads: Sequence[Linear]) -> Linear | None:
    """The law that leaves far less than any other that does not contain it, if there is one."""
    # A long law makes up for what a linear encoder cannot do: it leads nowhere.
    short = [pair for pair in heads if pair[1].structure.cost <= LONG * context.latent_dim]
    if not short:
        return None
    ranked = [(validation_risk(context, *pair), pair) for pair in short]
    lowest = min(risk for risk, _ in ranked)
    near = [(risk, pair) for risk, pair in ranked if risk <= ALIKE * lowest]
    risk, lead = min(near, key=lambda entry: (entry[1][1].structure.cost, entry[0]))
    own, symmetry = (
        lead[1].structure,
        Symmetry(context.library, context.latent_dim, context.actions),
    )
    others = [r for r, (_, task) in ranked if not symmetry.contains(task.structure, own)]
    clear = all(other >= CLEAR * risk for other in others)
    return lead if clear and risk <= PROMISING else None
