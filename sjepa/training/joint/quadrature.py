"""Integrals along sampled trajectories, and the differences that free them of their start."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


# Points whose cubic is integrated over the interval in their middle.
STENCIL = 4
# Largest sum of the sizes of an interval's weights, in units of the interval; 1.2 for equal steps.
SWING = 3.0


def interval_weights(t: np.ndarray) -> np.ndarray:
    """Weights (T - 1, 4) of the cubic rule on every interval of the times t (T,).

    The integral over [t_i, t_i+1] is the weighted sum of the values at the four points from
    :func:`stencil_start` on, of fifth order in the step. With fewer than four points, and where
    points nearly coincide so that a cubic would swing and multiply noise, the trapezium.
    """
    t = np.asarray(t, dtype=float)
    steps = np.diff(t)
    if len(t) < STENCIL:
        weights = np.zeros((len(steps), STENCIL))
        weights[:, :2] = 0.5 * steps[:, None]
        return weights
    start = stencil_start(len(t))
    nodes = (t[start[:, None] + np.arange(STENCIL)] - t[:-1, None]) / steps[:, None]
    powers = np.arange(STENCIL)
    vandermonde = nodes[:, None, :] ** powers[None, :, None]  # (T - 1, power, node)
    moments = np.broadcast_to(1.0 / (powers + 1.0), (len(steps), STENCIL))
    weights = np.linalg.solve(vandermonde, moments[..., None])[..., 0]
    wild = np.flatnonzero(np.abs(weights).sum(axis=1) > SWING)
    weights[wild] = 0.0
    first = np.arange(len(steps)) - start
    weights[wild, first[wild]] = weights[wild, first[wild] + 1] = 0.5
    return weights * steps[:, None]


def stencil_start(length: int) -> np.ndarray:
    """First of the four points for each interval; at the ends the four outermost."""
    if length < STENCIL:
        return np.arange(length - 1)
    return np.clip(np.arange(length - 1) - 1, 0, length - STENCIL)


def cumulative(f: Tensor, weights: Tensor) -> Tensor:
    """Integral from the first sample to each: f (..., B, T) with weights (B, T - 1, 4)."""
    length = f.shape[-1]
    if length < STENCIL:
        parts = weights[..., 0] * f[..., :-1] + weights[..., 1] * f[..., 1:]
    else:
        inner = torch.zeros_like(f[..., : length - 3])
        for i in range(STENCIL):
            inner = inner + weights[:, 1:-1, i] * f[..., i : length - 3 + i]
        first = (weights[:, 0] * f[..., :4]).sum(-1, keepdim=True)
        last = (weights[:, -1] * f[..., -4:]).sum(-1, keepdim=True)
        parts = torch.cat([first, inner, last], dim=-1)
    return torch.nn.functional.pad(parts.cumsum(-1), (1, 0))


def difference(values: Tensor, times: Tensor, k: int, order: int) -> Tensor:
    """Differences over k samples that an unknown start drops out of: values (..., B, T).

    First order: the change from t to t + k. Second order: the change of slope between
    [t - k, t] and [t, t + k], so that neither position nor velocity at the start is needed.
    """
    change = values[..., k:] - values[..., :-k]
    if order == 1:
        return change
    slope = change / (times[..., k:] - times[..., :-k])
    return slope[..., k:] - slope[..., :-k]
