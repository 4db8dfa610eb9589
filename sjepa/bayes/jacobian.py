"""Forward derivatives that threads may ask for at the same time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from torch import Tensor
from torch.func import jacfwd


# Levels of torch's forward differentiation belong to the process: a second thread ends the first's.
_ONE_AT_A_TIME = Lock()


def jacobian(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Derivatives of a function (..., ) of k numbers by them: (..., k)."""
    with _ONE_AT_A_TIME:
        return jacfwd(function)(at)
