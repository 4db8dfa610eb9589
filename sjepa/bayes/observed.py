"""Noise of observation: states follow the law exactly, and what is seen of them is noisy.

The data are cut into stretches. Each is a free run of the law from a start of its own, and the
starts are integrated out beside the coefficients, all of it by Laplace's approximation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sjepa.bayes.fit import FailedFit, Group, StructureFit
from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import Prior, Sizes
from sjepa.models.free_runs import free_run
from sjepa.models.stretches import Stretches
from sjepa.symbolic import Law


@dataclass(frozen=True, eq=False)
class ObservedFit:
    """A structure after seeing noisy states of it: a normal distribution of its coefficients.

    ``root`` (K, K) is a root of their covariance, ``noise`` (d,) the deviation of observations.
    """

    structure: ParametricLaw
    mode: Tensor
    root: Tensor
    noise: Tensor
    log_evidence: float
    log_density: float
    method: str = "free runs"
    status: str = "ok"

    @property
    def law(self) -> Law:
        return self.structure.law_at(self.mode)

    def draw(self, n: int, generator: torch.Generator) -> list[Group]:
        normal = torch.randn(n, len(self.mode), generator=generator, dtype=torch.float64)
        noise = torch.diag(self.noise).expand(n, -1, -1)
        return [Group(self.structure, self.mode + normal @ self.root.T, noise)]


def fit_observed(
    structure: ParametricLaw, stretches: Stretches, sizes: Sizes, prior: Prior
) -> StructureFit:
    """Coefficients and evidence of a structure; the size of the noise is that of what is left.

    Starts have a flat prior, which is the same for every structure and left out.
    """
    run = free_run(structure.law, stretches)
    count, starts = run.values, stretches.start.size
    left = float(run.squares.sum())
    if not (np.isfinite(left) and np.isfinite(run.curvature).all() and count > starts):
        return FailedFit(structure, "its free runs leave the data", "free runs")
    variance = max(left / (count - starts), 1e-12)  # in units of the stretches' own noise
    scales = sizes.coefficient_scales(structure, prior).numpy()
    precision = run.curvature.sum(axis=0) / variance + np.diag(scales**-2.0)
    numbers = run.law.coefficients
    mode = numbers - np.linalg.solve(precision, numbers / scales**2) if len(numbers) else numbers
    values, vectors = np.linalg.eigh(precision) if len(numbers) else (np.ones(0), np.eye(0))
    likelihood = -0.5 * count * math.log(2 * math.pi * variance) - 0.5 * left / variance
    around = 0.5 * starts * math.log(2 * math.pi * variance) - 0.5 * run.start_volumes.sum()
    density = likelihood + around - float((0.5 * (mode / scales) ** 2 + np.log(scales)).sum())
    # The normal density's own constant and that of Laplace's integral cancel.
    evidence = density - 0.5 * float(np.log(np.maximum(values, 1e-300)).sum())
    noise = torch.as_tensor(stretches.unit * math.sqrt(variance))
    root = torch.as_tensor(vectors / np.sqrt(np.maximum(values, 1e-300)))
    return ObservedFit(
        structure, torch.as_tensor(mode), root, noise, float(evidence),
        float(density) - 0.5 * len(numbers) * math.log(2 * math.pi),
    )  # fmt: skip
