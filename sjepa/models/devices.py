"""Where tensors live, and how many threads work on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sjepa.errors import ConfigError


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """A device from ``"auto"``, ``"cpu"``, ``"cuda"``, ``"mps"`` or a torch device.

    ``"auto"`` takes a GPU if there is one. Asking for one that is not there is an error, not a
    quiet step back to the CPU.
    """
    if isinstance(device, torch.device):
        return device
    usable = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next((name for name, there in usable.items() if there), "cpu"))
    kind = device.split(":")[0]
    if kind not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"device is 'auto', 'cpu', 'cuda' or 'mps', got {device!r}.", "device")
    if not usable.get(kind, True):
        raise ConfigError(
            f"{device!r} is not available here; use device='auto' or 'cpu'.", "device"
        )
    return torch.device(device)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch's operations, as a context or a decorator: on small tensors more
    threads mostly wait for each other, and take the cores from whoever else could use them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
