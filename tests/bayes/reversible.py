"""Structures sampled together with their numbers: a check of the finite-candidate weights.

Reversible-jump Markov chain Monte Carlo over all structures of a small grammar. Evidences are not
used: the chain visits (E, α, Σ), and the share of its time in a structure is its posterior
probability. Jumps propose a structure uniformly and its parameters from a wide distribution around
its mode, independent of where the chain is, so that the dimensions match with a Jacobian of 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from sjepa.bayes.candidates import structures
from sjepa.bayes.joint import JointDensity
from sjepa.bayes.laplace import PosteriorMode, find_mode
from sjepa.bayes.prior import Prior, Sizes
from sjepa.bayes.transitions import StepModel, Transitions
from sjepa.data import Trajectories
from sjepa.errors import ConfigError
from sjepa.symbolic import Front, Law, Library
from sjepa.symbolic.law import Dynamics


# Degrees of freedom of the proposals: tails heavier than those of any posterior here.
TAILS = 5.0
# Larger grammars are for candidate sets.
MAX_STRUCTURES = 4096
BATCHES = 20


@dataclass(frozen=True, eq=False)
class StructureChain:
    """Where a chain has been.

    Attributes
    ----------
    laws : list of Law
        One for each structure, at its mode.
    weights : array
        Share of the steps spent in each.
    errors : array
        Standard errors of the weights, from the means of 20 stretches of the chain.
    acceptance : float
    keys : list
        Equal for laws that differ in their numbers only.
    """

    laws: list[Law]
    weights: np.ndarray
    errors: np.ndarray
    acceptance: float
    keys: list[Any]

    @property
    def structures(self) -> pd.DataFrame:
        """The structures, heaviest first."""
        rows = {
            "weight": self.weights, "error": self.errors,
            "equation": ["; ".join(law.lines(digits=4)) for law in self.laws],
        }  # fmt: skip
        return pd.DataFrame(rows).sort_values("weight", ascending=False, ignore_index=True)

    def distance(self, other: Any) -> float:
        """Total variation from the weights of a :class:`Posterior` or another chain.

        A structure that the other does not have counts with all of its weight.
        """
        mine = dict(zip(self.keys, self.weights, strict=True))
        keys = other.keys if isinstance(other, StructureChain) else [
            f.structure.key for f in other.fits
        ]  # fmt: skip
        theirs = dict(zip(keys, other.weights, strict=True))
        return 0.5 * sum(abs(mine.get(k, 0.0) - theirs.get(k, 0.0)) for k in mine | theirs)


def all_laws(
    library: Library, outputs: Sequence[str], dynamics: Dynamics = "continuous"
) -> list[Law]:
    """A law for every support of a library: the structures of a small grammar."""
    allowed = np.asarray(library.mask(outputs), dtype=bool)
    free = np.argwhere(allowed)
    if 2 ** len(free) > MAX_STRUCTURES:
        raise ConfigError(
            f"{len(free)} pairs of term and output have more than {MAX_STRUCTURES} structures; "
            "mask the library, or compare candidates with posterior()."
        )
    laws = []
    for used in product((False, True), repeat=len(free)):
        values = np.zeros(allowed.shape)
        values[tuple(free[list(used)].T)] = 0.5
        laws.append(library.law(values, tuple(outputs), dynamics))
    return laws


def sample_structures(
    x: Any,
    t: Any = None,
    *,
    u: Any = None,
    laws: Front | Iterable[Front | Law],
    prior: Prior | None = None,
    gamma: float = 1.0,
    measure: str = "auto",
    library: Library | None = None,
    weights: Mapping[str, float] | None = None,
    covariance: Any = "diagonal",
    integrator: str = "rk4",
    noise: Literal["step", "time"] = "step",
    steps: int = 20_000,
    seed: int = 0,
) -> StructureChain:
    """Sample which of some laws moved given states, by reversible jumps.

    Arguments are those of :func:`sjepa.bayes.posterior`; `laws` are all structures that are
    possible at all, for instance those of :func:`all_laws`. For equal answers give both a prior
    with its own scales, ``Prior(coefficients=..., noise=...)``: by default scales are taken from
    the best candidate, which may not be the same one.
    """
    if steps < 20 * BATCHES:
        raise ConfigError(f"A chain needs at least {20 * BATCHES} steps, got {steps}.", "steps")
    data = Trajectories.of(x, t, u, states=True)
    found = structures(laws, measure=measure, library=library, weights=weights)
    step, rows = StepModel(found[0].law.dynamics, integrator, noise), Transitions.of(data)
    sizes = Sizes.of(found, rows, step)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    joints, modes = [], []
    for structure in found:
        joint = JointDensity(structure, rows, step, sizes, prior or Prior(), covariance)
        joints.append(joint)
        modes.append(find_mode(joint, joint.start()))
    if not any(m is not None for m in modes):
        raise ConfigError("No structure has a finite posterior mode on these data.")
    asked = rng.integers(len(found), size=steps + 1)
    score = np.full(steps + 1, -np.inf)
    for i, mode in enumerate(modes):
        times = np.flatnonzero(asked == i)
        if mode is not None and len(times):
            scored = _scores(joints[i], mode, len(times), generator)
            score[times] = scored - gamma * found[i].complexity
    at, value, accepted = -1, -np.inf, 0
    visits = np.empty(steps, dtype=int)
    luck = np.log(rng.uniform(size=steps + 1))
    for k in range(steps + 1):
        if score[k] > -np.inf and luck[k] < score[k] - value:
            at, value, accepted = asked[k], score[k], accepted + 1
        if k:
            visits[k - 1] = at
    visits = visits[visits >= 0]
    shares = np.stack([
        np.bincount(part, minlength=len(found)) / len(part)
        for part in np.array_split(visits, BATCHES)
    ])  # fmt: skip
    at_mode = [
        s.law if m is None else s.law_at(j.split(m.theta)[0])
        for s, j, m in zip(found, joints, modes, strict=True)
    ]
    return StructureChain(
        at_mode, np.bincount(visits, minlength=len(found)) / len(visits),
        shares.std(axis=0, ddof=1) / math.sqrt(BATCHES), accepted / steps, [s.key for s in found],
    )  # fmt: skip


def _scores(
    joint: JointDensity, mode: PosteriorMode, count: int, generator: torch.Generator
) -> np.ndarray:
    """log p(D, ϑ | E) - log q(ϑ) of parameters proposed around a mode, by a multivariate t."""
    d = len(mode.theta)
    normal = torch.randn(count, d, generator=generator, dtype=torch.float64)
    # Gamma from normals, since its own sampler takes no generator.
    chi = torch.randn(count, int(TAILS), generator=generator, dtype=torch.float64).square().sum(1)
    drawn = normal / (chi / TAILS).sqrt()[:, None]
    theta = mode.theta + drawn @ mode.axes.T
    density: Tensor = torch.func.vmap(joint, chunk_size=512)(theta)
    log_q = (
        math.lgamma((TAILS + d) / 2) - math.lgamma(TAILS / 2) - 0.5 * d * math.log(TAILS * math.pi)
        + 0.5 * float(mode.values.log().sum())
        - 0.5 * (TAILS + d) * torch.log1p(drawn.square().sum(1) / TAILS)
    )  # fmt: skip
    return (density - log_q).nan_to_num(-torch.inf, -torch.inf, -torch.inf).numpy()
