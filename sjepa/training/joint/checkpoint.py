"""Restarts and encoders as plain data, so that a stopped search need not begin again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch

from sjepa.errors import FormatError
from sjepa.metrics.shortcuts import CollapseReport
from sjepa.models.encoders import LinearEncoder
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.training.joint.batched_encoders import Restarts
from sjepa.training.joint.context import Memory, SearchContext
from sjepa.training.joint.nonlinear_initial import Start
from sjepa.training.joint.nonlinear_selection import PolynomialCandidate
from sjepa.training.joint.refinement import StructureTask, linear_head
from sjepa.training.joint.structures import Structure, structure


# What is kept of the checks of polynomial encoders, beside the reasons.
FIGURES = ("min_std", "effective_rank", "within", "neighbor")


def save_heads(heads: Sequence[tuple[LinearEncoder, StructureTask]], memory: Memory | None) -> None:
    """Put encoders and the structures of their laws into a memory."""
    if memory is not None:
        memory.put(
            {
                "heads": [
                    {
                        "support": _rows(task.structure),
                        "weight": head.linear.weight.detach().clone(),
                        "bias": head.linear.bias.detach().clone(),
                    }
                    for head, task in heads
                ]
            }
        )


def save_round(
    done: int, restarts: Restarts, generator: torch.Generator, memory: Memory | None
) -> None:
    """Save the restarts that survive some rounds to a memory."""
    if memory is not None:
        memory.put(
            {
                "rounds": done,
                "supports": [_rows(own) for own in restarts.structures],
                "readouts": restarts.readouts.detach().clone(),
                "generator": generator.get_state(),
            }
        )


def load_round(
    context: SearchContext, generator: torch.Generator, memory: Memory | None
) -> tuple[int, Restarts] | None:
    """Number of rounds a stopped search had finished, and its restarts; sets the generator."""
    data = None if memory is None else memory.get()
    if not isinstance(data, dict) or "heads" in data:
        return None
    try:
        supports = [tuple(tuple(row) for row in own) for own in data["supports"]]
        entries = [structure(context.library, own) for own in supports]
        readouts = data["readouts"]
        if readouts.shape[0] != len(entries) or readouts.shape[2] != context.latent_dim:
            raise ValueError(f"read-outs have shape {tuple(readouts.shape)}")
        generator.set_state(data["generator"])
        return int(data["rounds"]), Restarts(context.library, entries, readouts, context.order)
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise FormatError(f"The checkpoint does not fit this search ({error!s:.80}).") from error


def load_heads(
    context: SearchContext, memory: Memory | None
) -> list[tuple[LinearEncoder, StructureTask]]:
    """The encoders of a memory, to the last bit; none if it is empty."""
    data = None if memory is None else memory.get()
    if not isinstance(data, dict) or "heads" not in data:  # stopped between rungs
        return []
    try:
        return [_head(context, one) for one in data["heads"]]
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise FormatError(f"The checkpoint does not fit this search ({error!s:.80}).") from error


def load_step(
    context: SearchContext, name: str, template: PolynomialEncoder, starts: Sequence[Structure]
) -> list[PolynomialCandidate] | None:
    """The result of a step of the nonlinear search before it was stopped, to the last bit."""
    data = None if context.memory is None else context.memory.get()
    try:
        kept = None if data is None else data.get("nonlinear", {}).get(name)
        return None if kept is None else _polynomial_candidates(kept, template, starts)
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise FormatError(f"The checkpoint does not fit this search ({error!s:.80}).") from error


def save_step(context: SearchContext, name: str, found: Sequence[PolynomialCandidate]) -> None:
    """Save the result of a step of the nonlinear search to the memory."""
    if context.memory is None:
        return
    data = context.memory.get()
    linears = [own.head.linear for own in found]
    figures = [[own.loss, *(getattr(own.check_report, f) for f in FIGURES)] for own in found]
    kept = {
        "weights": torch.stack([own.weight.detach() for own in linears]),
        "biases": torch.stack([own.bias.detach() for own in linears]),
        "figures": torch.tensor(figures, dtype=torch.float64),
        "reasons": [list(own.check_report.reasons) for own in found],
    }
    context.memory.put({**data, "nonlinear": {**data.get("nonlinear", {}), name: kept}})


def step_name(degree: int, easing: Sequence[float], starts: Sequence[Start]) -> str:
    """The name of a step of the nonlinear search, the same for the same step."""
    name = hashlib.sha256(repr((degree, tuple(easing))).encode())
    for own, coordinates in starts:
        name.update(repr(own.support).encode())
        for number in coordinates.parameters():
            name.update(number.detach().contiguous().numpy().tobytes())
    return name.hexdigest()


def _polynomial_candidates(
    kept: dict[str, Any], template: PolynomialEncoder, structures: Sequence[Structure]
) -> list[PolynomialCandidate]:
    weights, biases, figures = kept["weights"], kept["biases"], kept["figures"].tolist()
    if weights.shape != (len(structures), *template.linear.weight.shape):
        raise ValueError(f"polynomial encoders have shape {tuple(weights.shape)}")
    found = []
    rows = zip(structures, weights, biases, figures, kept["reasons"], strict=True)
    for own, weight, bias, (loss, *measured), reasons in rows:
        head = deepcopy(template)
        with torch.no_grad():
            head.linear.weight.copy_(weight)
            head.linear.bias.copy_(bias)
        check_report = CollapseReport(
            **dict(zip(FIGURES, measured, strict=True)), reasons=tuple(map(str, reasons))
        )
        found.append(PolynomialCandidate(own, head, loss, check_report))
    return found


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
