"""One training on several processes, as ``torchrun`` starts them.

Every process has the whole model and draws the same batches. Encoders, the dear part, see a share
of the rows each; latents are then gathered, and everything after them is done everywhere on the
whole batch. So terms that are no means over rows (variances, covariances) are those of one process,
and so are all numbers, to rounding. The first process reads and writes files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sjepa.models.devices import resolve_device


def rank() -> int:
    """The number of this process: 0 for the first, and where there is one only."""
    return int(os.environ.get("RANK", 0)) if _started() else 0


def _started() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _several() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


@contextmanager
def together(device: str | torch.device) -> Iterator[torch.device]:
    """Joins the processes that torchrun started, if it did; the device that is this one's own."""
    device = resolve_device(device)
    if not _started() or dist.is_initialized():
        yield device
        return
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def agreed(value: Any) -> Any:
    """What the first process has: seeds that were drawn, answers of a search with a clock."""
    if not _several():
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def encoded(encoder: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """``encoder(x)``, a share of the rows computed by each process."""
    if not _several():
        return encoder(x)
    count = dist.get_world_size()
    size = -(-len(x) // count)
    rows = torch.arange(size, device=x.device) + size * dist.get_rank()
    own = encoder(x[rows.clamp(max=len(x) - 1)])  # all have as many; what is beyond is dropped
    parts: Tensor = _Gather.apply(own, count)  # type: ignore[no-untyped-call]
    return parts[: len(x)]


class _Gather(torch.autograd.Function):
    """Rows of all processes; the gradient of its own rows, since all compute the same loss."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, count: int) -> Tensor:
        own = own.contiguous()
        parts = [torch.empty_like(own) for _ in range(count)]
        dist.all_gather(parts, own)
        ctx.first, ctx.size = dist.get_rank() * len(own), len(own)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0][ctx.first : ctx.first + ctx.size], None


def add_up(parameters: Iterable[Tensor]) -> None:
    """Gradients of parameters that saw a share of the rows, summed over the processes."""
    if _several():
        for p in parameters:
            if p.grad is not None:
                dist.all_reduce(p.grad)
