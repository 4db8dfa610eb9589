"""Observation noise: states follow the law exactly, and their measurements are noisy.

The data are cut into segments. Each is a simulation of the law from a start of its own, and the
starts are integrated out beside the coefficients, all of it by Laplace's approximation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import Prior, Sizes
from sjepa.bayes.structure_fit import FailedFit, Group, StructureFit
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import shoot
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
    method: str = "multiple shooting"
    status: str = "ok"

    @property
    def law(self) -> Law:
        return self.structure.law_at(self.mode)

    def draw(self, n: int, generator: torch.Generator) -> list[Group]:
        normal = torch.randn(n, len(self.mode), generator=generator, dtype=torch.float64)
        noise = torch.diag(self.noise).expand(n, -1, -1)
        return [Group(self.structure, self.mode + normal @ self.root.T, noise)]


def fit_observed(
    structure: ParametricLaw, segments: Segments, sizes: Sizes, prior: Prior
) -> StructureFit:
    """Coefficients and evidence of a structure; the noise level is that of the residuals.

    Starts have a flat prior, which is the same for every structure and left out.
    """
    run = shoot(structure.law, segments)
    curvature, _, volumes = run.normal
    sharp, starts = max(run.sharpness, 1e-3), segments.start.size
    if not (np.isfinite(run.log_likelihood) and np.isfinite(curvature).all()):
        return FailedFit(structure, "its simulations diverge from the data", "multiple shooting")
    scales = sizes.coefficient_scales(structure, prior).numpy()
    precision = sharp * curvature.sum(axis=0) + np.diag(scales**-2.0)
    numbers = run.law.coefficients
    mode = numbers - np.linalg.solve(precision, numbers / scales**2) if len(numbers) else numbers
    values, vectors = np.linalg.eigh(precision) if len(numbers) else (np.ones(0), np.eye(0))
    around = 0.5 * starts * math.log(2 * math.pi / sharp) - 0.5 * volumes.sum()
    density = (
        run.log_likelihood + around - float((0.5 * (mode / scales) ** 2 + np.log(scales)).sum())
    )
    # The normal density's own constant and that of Laplace's integral cancel.
    evidence = density - 0.5 * float(np.log(np.maximum(values, 1e-300)).sum())
    noise = torch.as_tensor(segments.unit * np.sqrt((run.residual**2).mean(axis=(0, 1))))
    root = torch.as_tensor(vectors / np.sqrt(np.maximum(values, 1e-300)))
    return ObservedFit(
        structure, torch.as_tensor(mode), root, noise, float(evidence),
        float(density) - 0.5 * len(numbers) * math.log(2 * math.pi),
    )  # fmt: skip
