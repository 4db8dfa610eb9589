"""Is what a law leaves noise? Two tests, neither of which needs to know the level of the noise.

*Predictability.* Under the right law no function of the state predicts the residual. A flexible
correction of the law, a sum of Gaussian bumps of the state, is fitted to the residuals of one half
of the blocks and tested on the other half, each block counting once: nothing is assumed of the
noise but that blocks are independent. It needs data that return to places they have been.

*Whiteness.* Along a single transient the residual is compared with itself: the signs of what a
first-order autoregression leaves of it should be independent. This assumes that the noise has no
longer memory than that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri, stdtr

from sjepa.inference.constants import MIN_BLOCKS
from sjepa.inference.noise import Array
from sjepa.inference.shooting import solve_scaled


# Ridge on the correction as a share of its mean information: it learns directions that show.
RIDGE = 0.03
# Of the scores of both halves, which measure the product of the same two corrections, each in units
# of its own half: 0.43 over 576 simulated data sets of eight kinds of noise, 0.85 to 0.89 where the
# law has one input. The larger one errs on the side of the law.
CORRELATION = 0.9
# Autocorrelations of the signs that are looked at, as in Ljung and Box; fewer of short segments.
LAGS = 10


class Blocks(NamedTuple):
    """Normal equations of B blocks, for p coefficients of the law and m of the correction.

    ``information`` (B, p + m, p + m) and ``score`` (B, p + m), whatever else is fitted to a block
    eliminated; ``half`` (B,) says to which of both halves each belongs.
    """

    information: Array
    score: Array
    half: Array
    p: int


def predictability(blocks: Blocks) -> float | None:
    """How likely the right law leaves residuals as predictable as these; None for too few blocks.

    Each half learns the correction that the other half tests.
    """
    if min(np.bincount(blocks.half, minlength=2)) < MIN_BLOCKS + blocks.p // 4:
        return None
    z = [_tested(blocks, blocks.half == k) for k in (0, 1)]
    return float(ndtr(-sum(z) / math.sqrt(2 + 2 * CORRELATION)))


def _tested(blocks: Blocks, learn: Array) -> float:
    """The normal score of the correction that some blocks learn, on the others."""
    p = blocks.p
    direction = _correction(blocks.information[learn].sum(0), blocks.score[learn].sum(0), p)
    h, g = blocks.information[~learn], blocks.score[~learn]
    whole = h.sum(axis=0)
    # The law's coefficients are fitted to the tested half too; what they could make good is taken
    # out of the correction, and out of each block's share in it.
    along = whole[:p, p:] @ direction
    shift = solve_scaled(whole[:p, :p], along)
    moved = solve_scaled(whole[:p, :p], g[:, :p].sum(axis=0))
    full = np.concatenate([-shift, direction])
    each = (g - h[:, :, :p] @ moved) @ full
    return _t_to_normal(each)


def _correction(h: Array, g: Array, p: int) -> Array:
    scale = np.sqrt(np.maximum(np.diag(h)[p:], 1e-300))
    fitted = solve_scaled(h[:p, :p], h[:p, p:])
    own = h[p:, p:] - h[p:, :p] @ fitted
    left = g[p:] - fitted.T @ g[:p]
    own = own / np.outer(scale, scale)
    ridge = RIDGE * max(float(np.trace(own)), 1e-300) / len(own)
    return np.asarray(np.linalg.solve(own + ridge * np.eye(len(own)), left / scale) / scale)


def _t_to_normal(each: Array) -> float:
    """Student's statistic of the mean, as a normal score of the same probability."""
    n = len(each)
    spread = float(each.std(ddof=1))
    if not spread > 0:
        return 0.0
    t = float(each.mean()) / spread * math.sqrt(n)
    p = stdtr(n - 1, -abs(t))
    return math.copysign(float(-ndtri(max(p, 1e-300))), t)


def whiteness(residual: Array, starts: Array) -> float | None:
    """How likely noise with no longer memory than one step leaves such residuals (n, S, d).

    `starts` (n, S, d, size) are the derivatives by what was fitted to each segment: fitting takes
    a little of the noise away, which is allowed for.
    """
    n, count, d = residual.shape
    lags = min(LAGS, n // 6)
    if lags < 3:
        return None
    rows = np.moveaxis(starts, 1, 0).reshape(count, n * d, -1)
    q = np.linalg.qr(rows)[0].reshape(count, n, d, -1)
    total = 0.0
    for j in range(d):
        r, taken = residual[..., j], q[:, :, j]
        size = 1.4826 * np.median(np.abs(r))
        z = np.clip(r / max(float(size), 1e-300), -3, 3)
        rho = float((z[1:] * z[:-1]).sum() / max(float((z[:-1] ** 2).sum()), 1e-300))
        rho = min(max(rho, 0.0), 1.0)
        signs = np.sign(r[1:] - rho * r[:-1])
        for lag in range(1, lags + 1):
            pairs = signs[lag:] * signs[:-lag]
            lost = float((taken[:, lag:] * taken[:, :-lag]).sum()) * (1 - rho) ** 2
            total += (float(pairs.sum()) + 2 / np.pi * lost) ** 2 / pairs.size
    return float(chdtrc(d * lags, total))
