"""Functions drawn from the posterior of a correction, evaluated wherever a rollout goes.

Path-wise sampling (Matheron's rule): a function from the prior, written in random Fourier
features, plus a kernel term that takes it to the data. The prior part keeps its
variance away from the data, and the whole draw is one deterministic function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.bayes.process import Kernel, KernelBlock, ProcessRows


@dataclass(frozen=True, eq=False)
class BlockPaths:
    """n functions of some outputs: φ(x) w + k(x, points) v.

    ``frequencies`` (F, s) in standardized inputs, ``waves`` (n, 2F, q) and ``answers``
    (n, points, q) already hold the mixing matrix.
    """

    columns: Tensor
    logs: Tensor
    frequencies: Tensor
    waves: Tensor
    points: Tensor
    answers: Tensor

    def __call__(self, x: Tensor, kernel: Kernel) -> Tensor:
        """Values (n, M, q) at standardized inputs (n, M, s)."""
        n, m, s = x.shape
        k = kernel(x.reshape(n * m, s), self.points, self.logs).reshape(n, m, -1)
        return torch.baddbmm(_features(x, self.frequencies) @ self.waves, k, self.answers)


@dataclass(frozen=True, eq=False)
class Paths:
    """n correction functions, one for each draw of a group."""

    kernel: Kernel
    blocks: tuple[BlockPaths, ...]

    def __call__(self, inputs: Tensor) -> Tensor:
        """g at inputs (n, ..., d + s): (n, ..., d)."""
        x = self.kernel.standardized(inputs)
        flat = x.reshape(len(x), -1, x.shape[-1])
        values = torch.cat([block(flat, self.kernel) for block in self.blocks], dim=-1)
        order = torch.cat([block.columns for block in self.blocks]).argsort()
        return values[..., order].reshape(*inputs.shape[:-1], -1)


def draw_paths(
    rows: ProcessRows, block: KernelBlock, errors: Tensor, count: int, generator: torch.Generator
) -> BlockPaths:
    """Functions given errors (n, rows, q), the residuals of n coefficient vectors."""
    n, q = len(errors), len(block.columns)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    omega = rows.kernel.frequencies(count, rows.inputs.shape[1], generator)
    omega = omega / block.logs.exp()
    waves = normal(n, 2 * count, q) / math.sqrt(count) @ block.mix.T
    if rows.inducing is None:
        # One product for all draws; broadcasting would make one of each.
        prior = torch.einsum("rf,nfq->nrq", _features(rows.inputs, omega), waves)
        noise = rows.spread[:, None] * (normal(n, len(rows.inputs), q) @ block.root.T)
        remainder = errors - rows.gain[:, None] * prior - noise
        solved = torch.cholesky_solve(remainder.reshape(n, -1).T, rows.chol(block)).T
        answers = (rows.gain[:, None] * solved.reshape(remainder.shape)) @ (block.mix @ block.mix.T)
        points = rows.inputs
    else:
        root_mm, _, s_root, b = rows.weights(block, errors)
        mean = torch.cholesky_solve(b.T, s_root)
        jump = torch.linalg.solve_triangular(s_root.T, normal(len(s_root), n), upper=True)
        w = (mean + jump).T.reshape(n, -1, q)
        values = root_mm @ (w @ block.mix.T)
        remainder = values - torch.einsum("rf,nfq->nrq", _features(rows.inducing, omega), waves)
        flat = remainder.transpose(0, 1).reshape(len(remainder[0]), -1)
        answers = torch.cholesky_solve(flat, root_mm).reshape(-1, n, q).transpose(0, 1)
        points = rows.inducing
    return BlockPaths(block.columns, block.logs, omega, waves, points, answers)


def _features(x: Tensor, omega: Tensor) -> Tensor:
    """cos and sin of x ω, (..., 2F)."""
    angle = x @ omega.T
    return torch.cat([angle.cos(), angle.sin()], dim=-1)
