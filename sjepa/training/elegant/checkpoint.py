"""Polished encoders as plain data, so that a search that was stopped need not begin again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from sjepa.errors import FormatError
from sjepa.models.encoders import LinearEncoder
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.polish import StructureTask, linear_head
from sjepa.training.elegant.structures import structure


class Memory(Protocol):
    """Keeps one piece of plain data with tensors in it."""

    def get(self) -> Any:
        """What was put last; None if nothing was."""

    def put(self, data: Any) -> None:
        """Keep this."""


def save_heads(heads: Sequence[tuple[LinearEncoder, StructureTask]], memory: Memory | None) -> None:
    """Put encoders and the structures of their laws into a memory."""
    if memory is not None:
        memory.put(
            [
                {
                    "support": [[int(p) for p in row] for row in task.structure.support],
                    "weight": head.linear.weight.detach().clone(),
                    "bias": head.linear.bias.detach().clone(),
                }
                for head, task in heads
            ]
        )


def load_heads(
    context: SearchContext, memory: Memory | None
) -> list[tuple[LinearEncoder, StructureTask]]:
    """The encoders of a memory, to the last bit; none if it is empty."""
    data = None if memory is None else memory.get()
    if data is None:
        return []
    try:
        return [_head(context, one) for one in data]
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise FormatError(f"The checkpoint does not fit this search ({error!s:.80}).") from error


def _head(context: SearchContext, one: dict[str, Any]) -> tuple[LinearEncoder, StructureTask]:
    weight, bias = one["weight"], one["bias"]
    if weight.shape != (context.latent_dim, context.whitening.rank):
        raise ValueError(f"an encoder has shape {tuple(weight.shape)}")
    head = linear_head(weight.T)
    with torch.no_grad():
        head.linear.weight.copy_(weight)
        head.linear.bias.copy_(bias)
    support = tuple(tuple(row) for row in one["support"])
    return head, context.task(structure(context.library, support))
