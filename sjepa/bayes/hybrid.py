"""A law with a Gaussian-process correction, integrated out: one structure's evidence and draws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.bayes.covariance import lower_factor
from sjepa.bayes.function_draws import Paths, draw_paths
from sjepa.bayes.joint import JointDensity
from sjepa.bayes.laplace import PosteriorMode, find_mode
from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import GP, Sizes, residuals
from sjepa.bayes.process import Kernel, KernelBlock, ProcessRows, safe_cholesky
from sjepa.bayes.structure_fit import FailedFit, Group, StructureFit
from sjepa.bayes.transitions import Transitions
from sjepa.errors import ConfigError
from sjepa.symbolic import Law


# Kernel parameters are first found on this many rows; more only settle the details.
_FIRST_ROWS = 300


class HybridJoint:
    """log p(D, ϑ | E) for ϑ = (a, λ, η) with g integrated out.

    The first parameters are those of :class:`JointDensity`. η holds log length scales, and log
    amplitudes or the lower factor of B, each standard normal a priori in the units of the prior.
    The residual of a step is Δt g(z_C, ε) + η_noise for a field (Σ_Δt with its own Δt for every
    step), g + noise for a map.
    """

    def __init__(
        self, joint: JointDensity, settings: GP, sizes: Sizes, rows: Transitions | None = None
    ) -> None:
        kind = joint.covariance.kind
        if settings.outputs != "multi" and kind == "full":
            raise ConfigError(
                f"A correction with {settings.outputs} outputs has a diagonal covariance; "
                "set covariance='diagonal' or correction='multi'."
            )
        self.joint, self.settings = joint, settings
        self.data = joint.rows if rows is None else rows
        self.d, self.s = joint.covariance.d, self.data.inputs.shape[1]
        self.unit = joint.prior.amplitude * sizes.signal
        kernel = Kernel.of(settings, joint.rows.inputs)
        self.rows = self._rows(kernel)

    def _rows(self, kernel: Kernel) -> ProcessRows:
        step, data = self.joint.step, self.data
        x, n = kernel.standardized(data.inputs), len(data)

        def column(value: Tensor | float) -> Tensor:
            return torch.as_tensor(value, dtype=torch.float64).expand(n, 1).squeeze(1)

        inducing = _centers(x, self.settings.inducing) if n > self.settings.exact else None
        return ProcessRows(
            kernel, x, column(step.gain(data.dt)), column(step.spread(data.dt)), inducing
        )

    @property
    def size(self) -> int:
        """Number of kernel parameters η."""
        d, s = self.d, self.s
        return {"independent": d * (s + 1), "shared": s + d, "multi": s + d * (d + 1) // 2}[
            self.settings.outputs
        ]

    def blocks(self, eta: Tensor, root: Tensor) -> list[KernelBlock]:
        """Kernels for η (size,) and the covariance's factor (d, d)."""
        d, s = self.d, self.s
        middle = math.log(self.joint.prior.lengthscale)
        if self.settings.outputs == "multi":
            mix = self.unit[:, None] * lower_factor(eta[s:], d)
            return [KernelBlock(torch.arange(d), middle + eta[:s], mix, root)]
        if self.settings.outputs == "shared":
            logs = (middle + eta[:s]).expand(d, s)
            amplitudes = eta[s:].exp() * self.unit
        else:
            table = eta.reshape(d, s + 1)
            logs, amplitudes = middle + table[:, :s], table[:, s].exp() * self.unit
        return [
            KernelBlock(
                torch.tensor([j]), logs[j], amplitudes[j].reshape(1, 1), root[j, j].reshape(1, 1)
            )
            for j in range(d)
        ]

    def errors(self, alpha: Tensor) -> Tensor:
        """Residuals of the law at each step, (..., n, d)."""
        return residuals(self.joint.structure, alpha, self.data, self.joint.step)

    def split(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """α, L and η."""
        k = self.joint.size
        return (*self.joint.split(theta[..., :k]), theta[..., k:])

    def log_marginal(self, theta: Tensor) -> Tensor:
        """log p(D | E, α, η, Σ), the negative of the paper's criterion for the correction."""
        alpha, root, eta = self.split(theta)
        residual = self.errors(alpha)
        terms = [self.rows.log_marginal(b, residual[:, b.columns]) for b in self.blocks(eta, root)]
        return torch.stack(terms).sum()

    def __call__(self, theta: Tensor) -> Tensor:
        eta = theta[self.joint.size :]
        prior = -0.5 * eta.square().sum() - 0.5 * len(eta) * math.log(2 * math.pi)
        return self.log_marginal(theta) + prior + self.joint.log_prior(theta[: self.joint.size])

    def start(self) -> Tensor:
        return torch.cat([self.joint.start(), torch.zeros(self.size, dtype=torch.float64)])


@dataclass(frozen=True, eq=False)
class HybridFit:
    """A structure with its correction."""

    target: HybridJoint
    mode: PosteriorMode
    method: str = "laplace"

    @property
    def structure(self) -> ParametricLaw:
        return self.target.joint.structure

    @property
    def log_evidence(self) -> float:
        return self.mode.log_evidence

    @property
    def log_density(self) -> float:
        return self.mode.log_joint - float(self.target.joint.scales.log().sum())

    @property
    def status(self) -> str:
        note = self.mode.status()
        if self.target.rows.inducing is None:
            return note
        bound = f"lower bound with {len(self.target.rows.inducing)} inducing points"
        return bound if note == "ok" else f"{note}; {bound}"

    @property
    def law(self) -> Law:
        return self.structure.law_at(self.target.split(self.mode.theta)[0])

    def draw(self, n: int, generator: torch.Generator) -> list[Group]:
        """Draws in groups that share kernel parameters and Σ; see ``GP.sets``."""
        sets = min(self.target.settings.sets, n)
        k = self.structure.size
        shared = self.mode.theta[k:].expand(sets, -1)
        if sets > 1:
            shared = self.mode.sample(sets, generator)[:, k:]
        slope, spread = self._conditional()
        groups = []
        for h, size in enumerate(_sizes(n, sets)):
            noise = torch.randn(size, k, generator=generator, dtype=torch.float64)
            a = self.mode.theta[:k] + slope @ (shared[h] - self.mode.theta[k:]) + noise @ spread.T
            theta = torch.cat([a, shared[h].expand(size, -1)], dim=-1)
            groups.append(self._group(theta, generator))
        return groups

    def _group(self, theta: Tensor, generator: torch.Generator) -> Group:
        target = self.target
        alpha, root, eta = target.split(theta)
        residual = target.errors(alpha)
        paths = tuple(
            draw_paths(
                target.rows, b, residual[..., b.columns], target.settings.features, generator
            )
            for b in target.blocks(eta[0], root[0])
        )
        return Group(self.structure, alpha, root, Paths(target.rows.kernel, paths))

    def _conditional(self) -> tuple[Tensor, Tensor]:
        """How a depends on the other parameters in the Gaussian, and the factor of what is left."""
        k, hessian = (
            self.structure.size,
            (self.mode.vectors * self.mode.values) @ self.mode.vectors.T,
        )
        covariance = torch.linalg.inv(hessian[:k, :k])
        return -covariance @ hessian[:k, k:], safe_cholesky(0.5 * (covariance + covariance.T))


def fit_hybrid(joint: JointDensity, settings: GP, sizes: Sizes) -> StructureFit:
    """Laplace's approximation over coefficients, covariance and kernel parameters."""
    target = HybridJoint(joint, settings, sizes)
    start, axes, n = target.start(), None, len(joint.rows)
    if n > _FIRST_ROWS:
        subset = torch.linspace(0, n - 1, _FIRST_ROWS).long()
        u = None if joint.rows.u is None else joint.rows.u[subset]
        thinned = Transitions(
            joint.rows.z[subset], joint.rows.target[subset], joint.rows.dt[subset], u
        )
        first = find_mode(HybridJoint(joint, settings, sizes, thinned), start, large=True)
        if first is not None:
            start, axes = first.theta, first.axes
    mode = find_mode(target, start, large=n > _FIRST_ROWS, axes=axes)
    if mode is None:
        return FailedFit(joint.structure, "no finite posterior mode", "laplace")
    return HybridFit(target, mode)


def _sizes(n: int, parts: int) -> list[int]:
    return [n // parts + (i < n % parts) for i in range(parts)]


def _centers(x: Tensor, count: int) -> Tensor:
    """Inducing points: centers of clusters of the inputs."""
    from sklearn.cluster import KMeans

    clusters = KMeans(min(count, len(x)), n_init=1, random_state=0).fit(x.numpy())
    return torch.as_tensor(clusters.cluster_centers_)
