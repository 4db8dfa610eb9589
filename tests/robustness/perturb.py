"""Noise in every least-squares solution, to see that no page and no law hangs on rounding.

``PERTURB=1e-12 python -m pytest`` multiplies what the solvers of numpy, scipy and torch return by
1 + 1e-12 * (-1 to 1), as another processor or another BLAS would. The noise is a function of the
solution, so that what is repeatable stays so. Processes that pages start inherit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg.lapack
import scipy.optimize
import torch


# Each solver with the place of the solution in what it returns; None: it is all of it.
SOLVERS: list[tuple[Any, str, int | str | None]] = [
    (np.linalg, "lstsq", 0),
    (np.linalg, "solve", None),
    (np.linalg, "inv", None),
    (np.linalg, "pinv", None),
    (scipy.linalg, "lstsq", 0),
    (scipy.linalg, "solve", None),
    (scipy.linalg, "cho_solve", None),
    (scipy.linalg.lapack, "dposv", 1),
    (scipy.optimize, "nnls", 0),
    (scipy.optimize, "least_squares", "x"),
    (torch, "cholesky_solve", None),
    (torch.linalg, "lstsq", 0),
    (torch.linalg, "solve", None),
    (torch.linalg, "inv", None),
    (torch.linalg, "pinv", None),
]


def perturb(x: Any, size: float) -> Any:
    """Relative noise of this size; the sine of a large multiple is as good as random."""
    if isinstance(x, torch.Tensor):
        return x + size * x.detach() * torch.sin(1e7 * x.detach())
    return x * (1 + size * np.sin(1e7 * x))


def _perturbed(solve: Callable[..., Any], place: int | str | None, size: float) -> Any:
    def solver(*args: Any, **kwargs: Any) -> Any:
        found = solve(*args, **kwargs)
        if place is None:
            return perturb(found, size)
        if isinstance(place, str):
            found[place] = perturb(found[place], size)
            return found
        parts = [perturb(p, size) if i == place else p for i, p in enumerate(found)]
        return tuple(parts) if type(found) is tuple else type(found)(parts)

    return solver


def install(size: float, put: Callable[[Any, str, Any], None] = setattr) -> None:
    """From now on, in this process; to be called before what imports the solvers by name."""
    for module, name, place in SOLVERS:
        put(module, name, _perturbed(getattr(module, name), place, size))


if "PERTURB" in os.environ:
    install(float(os.environ["PERTURB"]))
