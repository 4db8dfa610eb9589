"""Tensors and arrays alike, as float64 numpy."""

from typing import Any

import numpy as np
import torch


def as_array(x: Any) -> np.ndarray:
    """Anything array-like as float64; metrics are worth the extra digits."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    return np.asarray(x, dtype=np.float64)


def as_rows(x: Any) -> np.ndarray:
    """(..., d) as (n, d)."""
    array = as_array(x)
    return array.reshape(-1, array.shape[-1])
