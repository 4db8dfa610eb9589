"""Are the residuals of a law noise? Two tests, neither of which needs to know the noise level.

*Predictability.* Under the right law no function of the state predicts the residual. A flexible
correction of the law, a sum of Gaussian functions of the state, is fitted to the residuals of one
half of the blocks and tested on the other half, each block counting once: nothing is assumed of the
noise but that blocks are independent. It needs data that return to places they have been.

*Whiteness.* Along a single transient the residual is compared with itself: the signs of what a
first-order autoregression leaves of it should be independent. This assumes that the noise has no
longer memory than that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri, stdtr

from sjepa.inference.constants import FUNCTIONS, MIN_BLOCKS
from sjepa.inference.noise import Array
from sjepa.inference.shooting import solve_scaled


class Blocks(NamedTuple):
    """Normal equations of B blocks, for p coefficients of the law and m of the correction.

    ``information`` (B, p + m, p + m) and ``score`` (B, p + m), whatever else is fitted to a block
    eliminated; ``half`` (B,) says to which of both halves each belongs.
    """

    information: Array
    score: Array
    half: Array
    p: int

    @property
    def enough(self) -> bool:
        """Whether each half has the blocks that a test needs."""
        return bool(min(np.bincount(self.half, minlength=2)) >= MIN_BLOCKS + self.p // 4)


def predictability(blocks: Blocks) -> float | None:
    """How likely the right law leaves residuals as predictable as these; None for too few blocks.

    Each half learns the correction that the other half tests.
    """
    if not blocks.enough:
        return None
    one, two = _halves(blocks)
    z = two.test(one.learned) + one.test(two.learned)
    # Both scores measure the product of the same two corrections, each in units of its own half.
    a, b = one.inverse @ two.information, two.inverse @ one.information
    both = np.trace(a @ b)
    alone = np.trace(a @ one.inverse @ one.information) * np.trace(
        b @ two.inverse @ two.information
    )
    correlation = min(max(float(both) / math.sqrt(max(float(alone), 1e-300)), 0.0), 1.0)
    return float(ndtr(-z / math.sqrt(2 + 2 * correlation)))


def predicted_power(blocks: Blocks) -> float:
    """Sum of squares of what both halves predict of the residuals, in units of their noise.

    A product of two corrections, each learned from one half: what is noise in both cancels.
    """
    one, two = _halves(blocks)
    return float(one.learned @ (one.information + two.information) @ two.learned)


def _halves(blocks: Blocks) -> tuple[_Half, _Half]:
    scale = np.sqrt(np.maximum(np.diagonal(blocks.information.sum(axis=0))[blocks.p :], 1e-300))
    one, two = (_Half.of(blocks, blocks.half == k, scale) for k in (0, 1))
    return one, two


@dataclass(frozen=True, eq=False)
class _Half:
    """What some of the blocks say of a correction, the law's own coefficients eliminated.

    ``information`` (m, m), its regularized ``inverse``, the correction that is ``learned`` (m,),
    and each block's share ``score`` (B, m) in it.
    """

    information: Array
    inverse: Array
    learned: Array
    score: Array

    @classmethod
    def of(cls, blocks: Blocks, here: Array, scale: Array) -> _Half:
        h, g, p = blocks.information[here], blocks.score[here], blocks.p
        whole = h.sum(axis=0)
        made_good = solve_scaled(whole[:p, :p], whole[:p, p:])  # (p, m)
        information = (whole[p:, p:] - whole[p:, :p] @ made_good) / np.outer(scale, scale)
        # At the coefficients that fit these blocks best, and apart from what those can explain.
        left = g - h[:, :, :p] @ solve_scaled(whole[:p, :p], g[:, :p].sum(axis=0))
        score = (left[:, p:] - left[:, :p] @ made_good) / scale
        # What a direction must show to be learned: a share of the mean, one for each function.
        ridge = max(float(np.trace(information)), 1e-300) / len(scale) / FUNCTIONS
        inverse = np.linalg.inv(information + ridge * np.eye(len(scale)))
        return cls(information, inverse, inverse @ score.sum(axis=0), score)

    def test(self, correction: Array) -> float:
        """The normal score of a correction that others learned."""
        return _t_to_normal(self.score @ correction)


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
    lags = math.isqrt(n)  # the usual number, of which each is still seen many times
    if lags < MIN_BLOCKS:
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
