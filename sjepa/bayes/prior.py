"""Settings of priors and of the process correction, and the units in which they are meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sjepa.bayes.parametric import ParametricLaw, jacobian
from sjepa.bayes.transitions import StepModel, Transitions
from sjepa.errors import ConfigError
from sjepa.settings import choice_of, whole_of


@dataclass(frozen=True, kw_only=True)
class Prior:
    """p(α | E) and p(Σ), in units that make them mean the same for any data.

    Parameters
    ----------
    width : float
        A coefficient is normal around 0. Its standard deviation is `width` times the value with
        which its term alone would be as large as the whole right-hand side.
    coefficients : float, optional
        One standard deviation for all coefficients instead, in their own units.
    noise : float, optional
        Guess of the standard deviation of the transition noise; by default the
        residual of the best candidate on the proposal data.
    strength : float
        How many observations the guess of the noise is worth.

    The correction's own priors: `amplitude` is the median size of the correction as a share of
    the right-hand side, `lengthscale` its median length scale in standard deviations of the
    inputs; both are log-normal with a standard deviation of 1 in the logarithm.
    """

    width: float = 2.0
    coefficients: float | None = None
    noise: float | None = None
    strength: float = 1.0
    amplitude: float = 0.3
    lengthscale: float = 1.5

    def __post_init__(self) -> None:
        for name in ("width", "coefficients", "noise", "strength", "amplitude", "lengthscale"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} of a prior must be positive, got {value!r}.")


@dataclass(frozen=True, eq=False)
class Sizes:
    """Scales of the data: of right-hand sides, of the noise, and the rows they were taken from.

    ``signal`` and ``noise`` are (d,); ``rows`` are the transitions they were taken from.
    """

    signal: Tensor
    noise: Tensor
    rows: Transitions

    @classmethod
    def of(cls, structures: Sequence[ParametricLaw], rows: Transitions, step: StepModel) -> Sizes:
        """Taken from the candidate that predicts the rows best."""
        spread = rows.target.std(0).clamp_min(1e-300)
        best, lowest = structures[0], float("inf")
        for structure in structures:
            error = float(
                (residuals(structure, structure.start, rows, step) / spread).square().sum()
            )
            if error < lowest:
                best, lowest = structure, error
        signal = best(rows.inputs, best.start).square().mean(0).sqrt()
        residual = residuals(best, best.start, rows, step) / step.spread(rows.dt)
        noise = residual.square().mean(0).sqrt().maximum(1e-6 * spread)
        return cls(signal.maximum(1e-6 * spread), noise, rows)

    def coefficient_scales(self, structure: ParametricLaw, prior: Prior) -> Tensor:
        """Prior standard deviation of each coefficient, (K,)."""
        if prior.coefficients is not None:
            return torch.full((structure.size,), prior.coefficients, dtype=torch.float64)
        if structure.size == 0:
            return torch.ones(0, dtype=torch.float64)
        slope = jacobian(lambda a: structure(self.rows.inputs, a), structure.start)  # (n, d, K)
        size = slope.square().nan_to_num(0.0, 0.0, 0.0).mean(0).sqrt()  # (d, K)
        term_size = size[structure.owner, torch.arange(structure.size)]
        term_size = torch.where(term_size > 0, term_size, self.signal[structure.owner])
        return prior.width * self.signal[structure.owner] / term_size


def residuals(
    structure: ParametricLaw, coefficients: Tensor, rows: Transitions, step: StepModel
) -> Tensor:
    """z_T minus where the law leads from z_C, for coefficients (..., K): (..., n, d)."""
    wide = coefficients.unsqueeze(-2)

    def field(inputs: Tensor) -> Tensor:
        return structure(inputs, wide)

    return rows.target - step.mean(field, rows.z, rows.dt, rows.u)


OUTPUTS = ("independent", "shared", "multi")


@dataclass(frozen=True, kw_only=True)
class GP:
    """A Gaussian process added to the law: g ~ GP(0, k) of states and actions.

    Parameters
    ----------
    outputs : "independent", "shared" or "multi"
        A kernel for each coordinate; one kernel with an amplitude for each coordinate; or a
        matrix-valued kernel B ⊗ k, which also models their correlation.
    kernel : "matern52" or "rbf"
        With one length scale for each input.
    exact : int
        Up to this many transitions the marginal likelihood is exact; beyond, it is the collapsed
        bound with `inducing` points.
    features : int
        Random frequencies of the prior paths that coherent draws start from.
    sets : int
        Draws of kernel parameters and covariance that posterior draws share. Each costs a
        factorization; with 1, the posterior mode is used.
    """

    outputs: str = "independent"
    kernel: str = "matern52"
    exact: int = 3000
    inducing: int = 200
    features: int = 256
    sets: int = 8

    def __post_init__(self) -> None:
        choice_of(self.outputs, "outputs", OUTPUTS)
        choice_of(self.kernel, "kernel", ("matern52", "rbf"))
        for name in ("exact", "inducing", "features", "sets"):
            whole_of(getattr(self, name), name, 1)

    @classmethod
    def make(cls, correction: object) -> GP | None:
        if correction is None or isinstance(correction, cls):
            return correction
        if isinstance(correction, str):
            return cls(outputs=correction)
        raise ConfigError(
            f"correction is None, a GP, or one of {', '.join(OUTPUTS)}; got {correction!r}."
        )
