"""From states to a posterior over laws in one call (the paper's finite-candidate inference)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sjepa.backend import Backend, Budget
from sjepa.backend.executors import run_on
from sjepa.bayes.candidates import propose, retain, structures
from sjepa.bayes.joint import JointDensity
from sjepa.bayes.observation_noise import fit_observed
from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import GP, Prior, Sizes
from sjepa.bayes.result import Posterior
from sjepa.bayes.structure_fit import StructureFit, fit
from sjepa.bayes.transitions import StepModel, Transitions
from sjepa.callbacks import ProgressBar
from sjepa.data import Trajectories
from sjepa.data.derivative_settings import DerivativeSettings
from sjepa.errors import ConfigError, DataError, NumericalWarning
from sjepa.inference.constants import MIN_BLOCKS
from sjepa.inference.segments import Segments
from sjepa.settings import RandomState, choice_of, draw_seed, number_of, whole_of
from sjepa.symbolic import Front, Grammar, Law, Library


# Correlation of successive residuals below which the noise looks like observation noise, whose
# correlation is -0.5.
ALTERNATING = -0.25


def posterior(
    x: Any,
    t: Any = None,
    *,
    u: Any = None,
    candidates: Front | Law | Iterable[Front | Law] | None = None,
    backend: str | Mapping[str, Any] | type[Backend] | Backend | Sequence[Any] = "stlsq",
    library: Library | Sequence[str] | None = None,
    grammar: Grammar | None = None,
    feature_names: Sequence[str] | None = None,
    derivatives: str | DerivativeSettings | None = None,
    proposal_fraction: float = 0.5,
    proposal_data: Trajectories | None = None,
    n_bootstrap: int = 4,
    max_candidates: int = 20,
    retained: Literal["mixed", "pareto"] = "mixed",
    gamma: float = 1.0,
    measure: str = "auto",
    prior: Prior | None = None,
    covariance: Any = "auto",
    correction: str | GP | None = None,
    integrator: str = "rk4",
    noise: Literal["step", "time", "observation"] = "step",
    random_state: RandomState = 0,
    budget: Budget | float | None = None,
    verbose: Any = None,
) -> Posterior:
    """Posterior over the laws of given states, and what it predicts.

    Candidate structures are searched on one part of the trajectories and compared on the rest
    by their evidence, which integrates over coefficients and transition covariance (by Laplace's
    approximation).

    Parameters
    ----------
    x, t, u, feature_names
        States (T, d), times and actions as in :func:`sjepa.discover`, or a Trajectories.
    candidates : Front, Law, or several of them
        Structures to compare, found on other data. Then all of x is evidence, and nothing is
        searched.
    backend, library, grammar, derivatives, budget
        How candidates are searched, see :func:`sjepa.discover`; several backends as a list.
        By default derivatives take states as exact, because transition noise is part of
        the motion, which windows of the weak form would smooth away. With observation noise
        the data decide. ``Budget(executor=..., workers=...)`` says where candidates are searched
        and their evidence is computed; the result does not depend on it.
    proposal_fraction : float
        Share of the trajectories (of a single one: its first part) on which candidates are
        searched, the rest being evidence.
    proposal_data : Trajectories, optional
        Other data to search candidates on; then all of x is evidence.
    n_bootstrap : int
        Further searches on resampled trajectories, for more candidates; a law that never became
        a candidate has no weight, even if true. Backends that write expression trees search once.
    max_candidates : int
        Largest number of candidates, by error and complexity on the data they were proposed on.
    retained : "mixed" or "pareto"
        Which: half from the front of error and complexity and the rest by their score, or, as in
        the paper's Algorithm 2, from that front alone. The front has at most one law of each
        complexity, so that rivals of the same complexity get no weight.
    gamma : float
        Structures have the prior probability exp(-gamma * complexity), up to a constant.
    measure : "terms", "tree" or "auto"
        The complexity of that prior; "auto" takes the one of the search.
    prior : Prior
        Of coefficients, noise and correction.
    covariance : "full", "diagonal", "isotropic", a variance or a matrix
        Of the transition noise; numbers are taken as known. By default full, and diagonal
        beside corrections with independent outputs.
    correction : "independent", "shared", "multi" or GP
        Adds a Gaussian process to every law; see :class:`sjepa.bayes.GP`.
    integrator : str
        Integrator of one step of a vector field. "euler" is the likelihood published in the
        paper; the default has smaller errors for long steps.
    noise : "step", "time" or "observation"
        Whether every step has the same noise, or noise in proportion to its length; or whether
        states follow the law exactly and observations of them are noisy. Laws are then compared by
        simulations through segments of the data, whose starts are integrated out, and rollouts
        start from a distribution around the observation.
    random_state, verbose
        As in :func:`sjepa.discover`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = [rng.normal(size=(1, 1))]
    >>> for _ in range(500): x.append(0.8 * x[-1] + 0.1 * rng.normal(size=(1, 1)))
    >>> laws = [Law.from_string(e, ["x"], dynamics="discrete") for e in ("x", "x + 0.1*x**3", "1")]
    >>> result = posterior(np.concatenate(x), 1.0, candidates=laws, feature_names=["x"])
    >>> [str(term) for _, term in result.law.terms[0]]
    ['x']
    """
    trajectories = Trajectories.of(x, t, u, names=feature_names, states=True)
    settings = Prior() if prior is None else prior
    seed, effort = draw_seed(random_state), Budget.of(budget)
    choice_of(noise, "noise", ("step", "time", "observation"))
    if derivatives is None:
        derivatives = "auto" if noise == "observation" else "smooth"
    if not isinstance(settings, Prior):
        raise ConfigError(f"prior is a sjepa.bayes.Prior, got {type(settings).__name__}.")
    choice_of(retained, "retained", ("mixed", "pareto"))
    max_candidates, gamma = whole_of(max_candidates, "max_candidates", 1), number_of(gamma, "gamma")
    whole_of(n_bootstrap, "n_bootstrap")
    first, second = _split(
        trajectories, proposal_fraction, proposal_data, candidates is not None, seed
    )
    proposals: Any = candidates
    if candidates is None:
        backends = list(backend) if isinstance(backend, list | tuple) else [backend]
        proposals = propose(
            first, backends, library=library, grammar=grammar, derivatives=derivatives,
            n_bootstrap=n_bootstrap, seed=seed, budget=effort,
        )  # fmt: skip
    proposed = structures(
        proposals,
        measure=measure,
        library=library if isinstance(library, Library) else None,
        weights=None if grammar is None else grammar.weights,
    )
    step = StepModel(proposed[0].law.dynamics, integrator, noise)
    rows, holdout = Transitions.of(second), Transitions.of(first)
    _check_inputs(proposed[0].law, trajectories)
    _check_movement(rows, proposed[0].law)
    compared = retain(proposed, holdout, step, max_candidates, gamma, retained)
    sizes = Sizes.of(compared, holdout, step)
    gp = GP.make(correction)
    segments = _segments(second, gp, covariance) if noise == "observation" else None
    if isinstance(covariance, str) and covariance == "auto":
        covariance = "full" if gp is None or gp.outputs == "multi" else "diagonal"
    fits: list[StructureFit] = []
    work = _Evidence(rows, step, sizes, settings, covariance, gp, segments)
    results = run_on(effort.executor, work, compared, effort.workers)
    with ProgressBar(verbose, "evidence of candidates") as bar:
        for i in range(len(compared)):
            bar.show(f"evidence of candidate {i + 1} of {len(compared)}", i / len(compared))
            fits += [] if (structure_fit := next(results)) is None else [structure_fit]
        bar.show("done", 1.0)
    if len(fits) < len(compared):
        text = (
            f"{len(compared) - len(fits)} of {len(compared)} candidates have no finite evidence on "
            "these data: rescale the columns, or leave out terms that depend on each other."
        )
        if not fits:
            raise DataError(text)
        warnings.warn(text, NumericalWarning, stacklevel=2)
    result = Posterior(fits, gamma, step)
    if gp is None and segments is None:
        _warn_observed(result, second)
    return result


@dataclass(frozen=True, eq=False)
class _Evidence:
    """The evidence of one candidate, wherever it is computed."""

    rows: Transitions
    step: StepModel
    sizes: Sizes
    prior: Prior
    covariance: Any
    gp: GP | None
    segments: Segments | None

    def __call__(self, number: int, structure: ParametricLaw) -> StructureFit | None:
        """None where a covariance has no Cholesky factor in double precision."""
        try:
            return self.fit(structure)
        except (np.linalg.LinAlgError, torch.linalg.LinAlgError):
            return None

    def fit(self, structure: ParametricLaw) -> StructureFit:
        if self.segments is not None:
            return fit_observed(structure, self.segments, self.sizes, self.prior)
        joint = JointDensity(
            structure, self.rows, self.step, self.sizes, self.prior, self.covariance
        )
        if self.gp is None:
            return fit(joint)
        from sjepa.bayes.hybrid import fit_hybrid

        return fit_hybrid(joint, self.gp, self.sizes)


def _segments(data: Trajectories, gp: GP | None, covariance: Any) -> Segments:
    named = isinstance(covariance, str) and covariance == "auto"
    if gp is not None or not named:
        raise ConfigError(
            "noise='observation' has a covariance of its own, and no correction: leave those out.",
            "noise",
        )
    segments = Segments.of(data)
    if len(segments) < MIN_BLOCKS:
        raise DataError(f"Simulations need {MIN_BLOCKS} segments, these data give {len(segments)}.")
    return segments


def _split(
    trajectories: Trajectories,
    fraction: float,
    proposal_data: Trajectories | None,
    has_candidates: bool,
    seed: int,
) -> tuple[Trajectories, Trajectories]:
    """Where candidates come from, which also sets the units of the priors, and the evidence."""
    if proposal_data is not None:
        if proposal_data.obs_shape != trajectories.obs_shape:
            raise DataError(
                f"proposal_data has observations of shape {proposal_data.obs_shape}, "
                f"x of {trajectories.obs_shape}."
            )
        return proposal_data.map(lambda a: a, names=trajectories.names), trajectories
    if has_candidates:
        return trajectories, trajectories
    if not 0 < number_of(fraction, "proposal_fraction") < 1:
        raise ConfigError(f"proposal_fraction is a share between 0 and 1, got {fraction!r}.")
    first, second = trajectories.split((fraction, 1 - fraction), seed=seed)
    return first, second


def _check_inputs(law: Law, trajectories: Trajectories) -> None:
    d = trajectories.obs_shape[0]
    m = trajectories.u[0].shape[1] if trajectories.u else 0
    if len(law.outputs) != d or len(law.inputs) != d + m:
        raise DataError(
            f"The candidates have {len(law.outputs)} equations in {', '.join(law.inputs)}; the "
            f"data have {d} coordinates and {m} actions."
        )


def _check_movement(rows: Transitions, law: Law) -> None:
    still = ((rows.target - rows.z).abs().amax(0) == 0).tolist()
    if any(still):
        raise DataError(
            f"{law.outputs[still.index(True)]} never changes in the evidence; leave it out."
        )


def _warn_observed(result: Posterior, evidence: Trajectories) -> None:
    """Observation noise makes successive one-step residuals anticorrelated: warn of it."""
    rows, law = Transitions.of(evidence), result.law

    def field(inputs: Tensor) -> Tensor:
        return torch.as_tensor(law.numpy()(inputs.numpy()))

    residual = (rows.target - result.step.mean(field, rows.z, rows.dt, rows.u)).numpy()
    parts = np.split(residual, np.cumsum(evidence.lengths - 1)[:-1])
    before = np.concatenate([p[:-1] for p in parts])
    after = np.concatenate([p[1:] for p in parts])
    if len(before) < 30:
        return
    size = np.sqrt((before**2).sum(axis=0) * (after**2).sum(axis=0))
    lag = float(((before * after).sum(axis=0) / np.maximum(size, 1e-300)).min())
    if lag < ALTERNATING:
        warnings.warn(
            f"One-step residuals alternate (correlation {lag:.2f}), as with observation noise. "
            "They are treated as noise of the transition, so intervals of long rollouts will be "
            "too wide; use noise='observation'.",
            NumericalWarning,
            stacklevel=3,
        )
