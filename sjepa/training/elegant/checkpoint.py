"""Restarts and polished encoders as plain data, so that a stopped search need not begin again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from sjepa.errors import FormatError
from sjepa.models.encoders import LinearEncoder
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.polish import StructureTask, linear_head
from sjepa.training.elegant.restarts import Restarts
from sjepa.training.elegant.structures import Structure, structure


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
                    "support": _rows(task.structure),
                    "weight": head.linear.weight.detach().clone(),
                    "bias": head.linear.bias.detach().clone(),
                }
                for head, task in heads
            ]
        )


def save_rung(
    done: int, restarts: Restarts, generator: torch.Generator, memory: Memory | None
) -> None:
    """Put the restarts that go on after some rungs into a memory."""
    if memory is not None:
        memory.put(
            {
                "rungs": done,
                "supports": [
                    [[int(p) for p in row] for row in s.support] for s in restarts.structures
                ],
                "readouts": restarts.readouts.detach().clone(),
                "generator": generator.get_state(),
            }
        )


def load_rung(
    context: SearchContext, generator: torch.Generator, memory: Memory | None
) -> tuple[int, Restarts] | None:
    """How many rungs a stopped search had behind it, and what goes on; sets the generator."""
    data = None if memory is None else memory.get()
    if not isinstance(data, dict):
        return None
    try:
        supports = [tuple(tuple(row) for row in own) for own in data["supports"]]
        entries = [structure(context.library, own) for own in supports]
        readouts = data["readouts"]
        if readouts.shape[0] != len(entries) or readouts.shape[2] != context.latent_dim:
            raise ValueError(f"read-outs have shape {tuple(readouts.shape)}")
        generator.set_state(data["generator"])
        return int(data["rungs"]), Restarts(context.library, entries, readouts, context.order)
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise FormatError(f"The checkpoint does not fit this search ({error!s:.80}).") from error


def load_heads(
    context: SearchContext, memory: Memory | None
) -> list[tuple[LinearEncoder, StructureTask]]:
    """The encoders of a memory, to the last bit; none if it is empty."""
    data = None if memory is None else memory.get()
    if data is None or isinstance(data, dict):  # a search that was stopped between rungs
        return []
    try:
        return [_head(context, one) for one in data]
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise FormatError(f"The checkpoint does not fit this search ({error!s:.80}).") from error


def _rows(own: Structure) -> list[list[int]]:
    return [[int(p) for p in row] for row in own.support]


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
