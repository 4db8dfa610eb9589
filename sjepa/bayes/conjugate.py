"""Evidence and posterior in closed form, for laws linear in their coefficients.

With a conjugate prior such a law is a matrix-normal inverse-Wishart regression: one for all
outputs if they share their terms, one for each output if Σ is diagonal, and one for the stacked
outputs if Σ is isotropic. With a known Σ it is a Gaussian regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sjepa.bayes.covariance import wishart_norm
from sjepa.bayes.joint import JointDensity, log_volume
from sjepa.bayes.parametric import jacobian
from sjepa.bayes.prior import residuals


@dataclass(frozen=True, eq=False)
class ConjugateBlock:
    """y ~ N(x b, Σ) row by row, with b | Σ ~ MN(0, precision⁻¹, Σ) and Σ ~ IW(ν, I).

    After the data: ``mean`` (m, q), ``root`` of the precision (m, m), ``scale`` (q, q), ``nu``.
    ``columns`` (q, m) says which coefficients these are.
    """

    columns: Tensor
    mean: Tensor
    root: Tensor
    scale: Tensor
    nu: float
    log_evidence: float

    @classmethod
    def fit(
        cls, x: Tensor, y: Tensor, precision: float, nu: float, columns: Tensor
    ) -> ConjugateBlock:
        (n, m), q = x.shape, y.shape[1]
        gram = x.T @ x + precision * torch.eye(m, dtype=x.dtype)
        root = torch.linalg.cholesky(gram)
        mean = torch.cholesky_solve(x.T @ y, root)
        residual = y - x @ mean
        scale = torch.eye(q, dtype=x.dtype) + residual.T @ residual + precision * mean.T @ mean
        nu_posterior = nu + n
        evidence = (
            wishart_norm(nu_posterior, q)
            - wishart_norm(nu, q)
            - 0.5 * nu_posterior * float(torch.logdet(scale))
            - 0.5 * n * q * math.log(2 * math.pi)
            + 0.5 * q * (m * math.log(precision) - 2 * float(root.diagonal().log().sum()))
        )
        return cls(columns, mean, root, scale, nu_posterior, evidence)

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws of b (n, m, q) and of a Cholesky factor of Σ (n, q, q)."""
        sigma = _inverse_wishart(self.scale, self.nu, n, generator)
        root = torch.linalg.cholesky(sigma)
        noise = torch.randn(n, *self.mean.shape, generator=generator, dtype=torch.float64)
        spread = torch.linalg.solve_triangular(self.root.T, noise, upper=True)
        return self.mean + spread @ root.mT, root


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """The exact posterior of one structure."""

    joint: JointDensity
    blocks: tuple[ConjugateBlock, ...]
    log_evidence: float

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draws as ϑ = (a, λ), (n, size), in the same parameters as Laplace's."""
        joint, c = self.joint, self.joint.covariance
        k, d = joint.structure.size, c.d
        theta = torch.zeros(n, joint.size, dtype=torch.float64)
        for i, block in enumerate(self.blocks):
            b, root = block.sample(n, generator)
            theta[:, block.columns.T.reshape(-1)] = b.reshape(n, -1)
            if c.kind == "full":
                below = torch.tril_indices(d, d, -1)
                theta[:, k : k + d] = root.diagonal(dim1=1, dim2=2).log()
                theta[:, k + d :] = root[:, below[0], below[1]]
            elif c.kind != "fixed":
                theta[:, k + i] = root[:, 0, 0].log()
        return theta

    def theta(self) -> Tensor:
        """Posterior mean of a and a typical λ."""
        generator = torch.Generator().manual_seed(0)
        theta = self.sample(256, generator).mean(0)
        for block in self.blocks:
            theta[block.columns.T.reshape(-1)] = block.mean.reshape(-1)
        return theta


def has_closed_form(joint: JointDensity) -> bool:
    kind = joint.covariance.kind
    if not (joint.structure.linear and joint.step.keeps_linearity):
        return False
    return kind == "fixed" or (joint.prior.conjugate and (kind != "full" or joint.shared_terms))


def closed_form(joint: JointDensity) -> ClosedForm:
    """Solve the regression of a structure for which :func:`has_closed_form` holds."""
    structure, c, rows = joint.structure, joint.covariance, joint.rows
    k, d, n = structure.size, c.d, len(rows)
    zero = torch.zeros(k, dtype=torch.float64)
    spread = joint.step.spread(rows.dt)

    def predicted(a: Tensor) -> Tensor:
        return rows.target - residuals(structure, a * joint.scales, rows, joint.step)

    y = (rows.target - predicted(zero)) / spread  # (n, d)
    x = jacobian(predicted, zero) if k else torch.zeros(n, d, 0, dtype=torch.float64)
    x = x / (spread.unsqueeze(-1) if isinstance(spread, Tensor) else spread)  # (n, d, K)
    volume = float(log_volume(spread, n, d))
    if c.root is not None:
        block = _known(x, y, c.root)
        return ClosedForm(joint, (block,), block.log_evidence - volume)
    x, y = x / c.scale[:, None], y / c.scale
    volume += n * float(c.scale.log().sum())
    coefficients, nu = torch.arange(k), c.strength
    # b = a, whose prior variance is that of Σ̃ times the strength.
    precision = 1.0 / c.strength
    if c.kind == "isotropic":
        blocks = [
            ConjugateBlock.fit(
                x.reshape(n * d, k), y.reshape(-1, 1), precision, 2 + nu, coefficients[None]
            )
        ]
    elif c.kind == "diagonal":
        of_output = [coefficients[structure.owner == j] for j in range(d)]
        blocks = [
            ConjugateBlock.fit(
                x[:, j, of_output[j]], y[:, j : j + 1], precision, 2 + nu, of_output[j][None]
            )
            for j in range(d)
        ]
    else:
        columns = coefficients.reshape(d, -1)
        blocks = [ConjugateBlock.fit(x[:, 0, columns[0]], y, precision, d + 1 + nu, columns)]
    return ClosedForm(joint, tuple(blocks), sum(b.log_evidence for b in blocks) - volume)


@dataclass(frozen=True, eq=False)
class _Known(ConjugateBlock):
    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = torch.randn(n, len(self.mean), 1, generator=generator, dtype=torch.float64)
        return self.mean + torch.linalg.solve_triangular(self.root.T, noise, upper=True), noise


def _known(x: Tensor, y: Tensor, sigma_root: Tensor) -> ConjugateBlock:
    """Gaussian regression with unit prior variance and known noise."""
    n, d, k = x.shape
    white = torch.linalg.solve_triangular(sigma_root, x, upper=False).reshape(n * d, k)
    target = torch.linalg.solve_triangular(sigma_root, y.unsqueeze(-1), upper=False).reshape(-1, 1)
    root = torch.linalg.cholesky(white.T @ white + torch.eye(k, dtype=x.dtype))
    mean = torch.cholesky_solve(white.T @ target, root)
    fit = float((target - white @ mean).square().sum() + mean.square().sum())
    evidence = (
        -0.5 * fit
        - float(root.diagonal().log().sum())
        - n * float(sigma_root.diagonal().log().sum())
        - 0.5 * n * d * math.log(2 * math.pi)
    )
    return _Known(torch.arange(k)[None], mean, root, sigma_root, 0.0, evidence)


def _inverse_wishart(scale: Tensor, nu: float, n: int, generator: torch.Generator) -> Tensor:
    """Draws (n, q, q) by Bartlett's decomposition of the precision."""
    q = len(scale)
    lower = torch.randn(n, q, q, generator=generator, dtype=torch.float64).tril(-1)
    # numpy's chi-square takes a generator, torch's gamma does not.
    rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
    chi = torch.as_tensor(rng.chisquare(nu - np.arange(q), size=(n, q)))
    lower = lower + torch.diag_embed(chi.sqrt())
    root = torch.linalg.cholesky(scale)
    inverse = torch.linalg.solve_triangular(lower, root.T.expand(n, q, q), upper=False)
    return inverse.mT @ inverse
