"""One law that leads the linear search clearly needs no race of nonlinear encoders."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sjepa.models.encoders import LinearEncoder, ResidualEncoder
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.finalists import enough, report_law, validation_risk
from sjepa.training.elegant.nonlinear import polished_pair
from sjepa.training.elegant.nonlinear_starts import started
from sjepa.training.elegant.polish import StructureTask
from sjepa.training.elegant.structures import Symmetry


# A leader leaves at most this much: more would ask a network to make the coordinates, not to mend
# them, and a network can make coordinates for many laws.
PROMISING = 5e-3
# Other laws leave at least this many times more.
CLEAR = 5.0
# Of laws that differ by less than this factor the cheapest leads.
ALIKE = 1.5

Linear = tuple[LinearEncoder, StructureTask]


def grown_leader(
    context: SearchContext, heads: Sequence[Linear]
) -> list[tuple[ResidualEncoder, StructureTask]]:
    """The leading law with a network beside its read-out, if that leaves little but noise.

    Nothing where no law leads, or where the network is not enough.
    """
    lead = leader(context, heads)
    if lead is None:
        return []
    head, task = lead
    readout = head.linear.weight.detach().T
    generator = torch.Generator().manual_seed(context.seed)
    restart = started(context, [(task.structure, readout)], generator)
    grown = polished_pair(context, (restart.head(0), task))
    report_law(context, "grown", *grown, 0.83)
    return [grown] if enough(context, *grown) else []


def leader(context: SearchContext, heads: Sequence[Linear]) -> Linear | None:
    """The law that leaves far less than any other that does not contain it, if there is one."""
    ranked = [(validation_risk(context, *pair), pair) for pair in heads]
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
