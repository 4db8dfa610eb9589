"""Evidence by nested sampling (dynesty): slow, without approximation of the integrand.

Draws from the prior are made by other means than the densities that Laplace's approximation
uses (inverse Wishart by Bartlett's decomposition), so an agreement of both checks both.
"""

from __future__ import annotations

import math

import dynesty
import numpy as np
import torch
from scipy.special import gammaincinv, ndtri

from sjepa.bayes.joint import JointDensity


def nested_evidence(
    joint: JointDensity, *, live: int = 250, tolerance: float = 0.1, seed: int = 0
) -> tuple[float, float]:
    """log p(D | E) and the standard error that the sampler states.

    `live` points; stops when at most `tolerance` nats can be missing.
    """

    def log_likelihood(theta: np.ndarray) -> float:
        value = float(joint.log_likelihood(torch.as_tensor(theta)))
        return value if math.isfinite(value) else -1e300

    if joint.size == 0:
        return log_likelihood(np.zeros(0)), 0.0
    sampler = dynesty.NestedSampler(
        log_likelihood, lambda u: prior_transform(joint, u), joint.size, nlive=live,
        rstate=np.random.default_rng(seed),
    )  # fmt: skip
    sampler.run_nested(dlogz=tolerance, print_progress=False)
    results = sampler.results
    return float(results.logz[-1]), float(results.logzerr[-1])


def prior_transform(joint: JointDensity, u: np.ndarray) -> np.ndarray:
    """From the unit cube to ϑ = (a, λ), so that uniform points become draws from the prior."""
    k, c = joint.structure.size, joint.covariance
    normal = ndtri(np.clip(u, 1e-15, 1 - 1e-15))
    if c.kind == "fixed":
        return normal[:k]
    d = c.d
    if c.kind == "full":
        root = _draw_root(u[k : k + d], normal[k + d :], d + 1 + c.strength)
        free = np.concatenate([np.log(np.diag(root)), root[np.tril_indices(d, -1)]])
    else:
        root = np.diag([1 / math.sqrt(_chi_square(v, 2 + c.strength)) for v in u[k:]])
        free = np.log(np.diag(root))
    return np.concatenate([normal[:k], free])


def _draw_root(u: np.ndarray, normal: np.ndarray, nu: float) -> np.ndarray:
    """Cholesky factor of an inverse-Wishart matrix with identity scale."""
    d = len(u)
    lower = np.zeros((d, d))
    lower[np.tril_indices(d, -1)] = normal
    lower[np.diag_indices(d)] = [math.sqrt(_chi_square(u[i], nu - i)) for i in range(d)]
    inverse = np.linalg.inv(lower)
    return np.linalg.cholesky(inverse.T @ inverse)


def _chi_square(u: float, nu: float) -> float:
    """The quantile function; scipy.stats has it too, at fifty times the price."""
    return 2.0 * float(gammaincinv(0.5 * nu, min(max(u, 1e-15), 1 - 1e-15)))
