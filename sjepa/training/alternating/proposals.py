"""Dynamics search: latents become a regression problem, a backend's answer a trainable part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor

from sjepa.backend import Backend, Budget, Problem
from sjepa.data import Trajectories, differentiate
from sjepa.data.rows import derivative_rows, discrete_rows, zoh_rows
from sjepa.models import SparseLaw, TreeLaw
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.symbolic.law import Dynamics
from sjepa.training.alternating.latent_model import SymbolicPart


# A law needs far fewer rows than there are; backends without a Gram matrix slow down on more.
MAX_ROWS = 200_000


class StructurePolicy(NamedTuple):
    """Who decides which terms a law has while coordinates and coefficients are trained.

    ``emit`` says whether a law within the library is trained as the library or as it stands,
    ``relaxed`` whether terms that a proposal left out may come back by gradient, and
    ``propose_every_cycle`` whether later cycles ask the backend again or resume from their law.
    """

    emit: Literal["library", "tree"]
    relaxed: bool
    propose_every_cycle: bool

    @classmethod
    def of(cls, backend: Backend) -> StructurePolicy:
        """A backend that owns the structure is asked in every cycle, and terms it omits stay
        out; any other only initializes the paper's relaxed library."""
        owns = backend.owns_structure
        return cls("tree" if backend.trees else "library", not owns, owns)


@dataclass(frozen=True)
class Proposal:
    """What a backend found, and the law that was taken from it."""

    front: Front
    law: Law


def latent_rows(
    z: Tensor,
    dt: Tensor,
    mask: Tensor | None = None,
    integrator: str = "euler",
    u: Tensor | None = None,
    dynamics: Dynamics = "continuous",
) -> tuple[np.ndarray, np.ndarray]:
    """States (n, d) and their velocities (n, d) from latents (B, T, d) with steps (B, T - 1).

    For a map the next states take the place of the velocities.

    With actions `u` (B, T, m), held during each step, the rows are (state, action) and the mean
    velocity of a step.

    For Euler the velocity is (z_{t+1} - z_t) / Δt, which makes the fitted law the best Euler
    predictor rather than the best vector field. Any other integrator gets derivatives of high
    order, with smoothing where the latents are noisy.
    """
    states = z.detach().double().cpu().numpy()
    steps = dt.detach().double().cpu().numpy()
    lengths = np.full(len(states), states.shape[1]) if mask is None else mask.sum(1).cpu().numpy()
    times = np.concatenate([np.zeros((len(steps), 1)), steps.cumsum(axis=1)], axis=1)

    def cut(padded: np.ndarray) -> list[np.ndarray]:
        return [a[:n] for a, n in zip(padded, lengths, strict=True)]

    actions = None if u is None else cut(u.double().cpu().numpy())
    latents = Trajectories(cut(states), cut(times), actions, gaps="keep")
    if dynamics == "discrete":
        return discrete_rows(latents)
    if integrator == "euler":
        return zoh_rows(latents, "start")
    return derivative_rows(differentiate(latents)) if u is None else zoh_rows(latents)


def propose(
    backend: Backend,
    states: np.ndarray,
    slopes: np.ndarray,
    space: Library | Grammar,
    *,
    warm: Front | None = None,
    seed: int = 0,
    seconds: float | None = None,
    tolerance: float = 0.02,
    dynamics: Dynamics = "continuous",
) -> Proposal:
    """Ask a backend for laws and take the simplest one within a tolerance of the best."""
    every = -(-len(states) // MAX_ROWS)
    problem = Problem(
        states[::every],
        slopes[::every],
        names=space.inputs,
        outputs=space.inputs[: slopes.shape[1]],
        library=space if isinstance(space, Library) else None,
        grammar=space if isinstance(space, Grammar) else None,
        dynamics=dynamics,
        budget=Budget(seconds=seconds),
        seed=seed,
        warm=warm,
    )
    front = problem.solve(backend)
    return Proposal(front, front.select(tolerance=tolerance))


def as_part(law: Law, space: Library | Grammar, policy: StructurePolicy) -> SymbolicPart:
    """A trainable part that starts as this law.

    A law within a library becomes the library itself: relaxed all allowed terms stay trainable,
    otherwise only those of the law. Anything else, and every tree, is emitted as it is.
    """
    if isinstance(space, Library):
        if policy.emit == "library" and space.covers(law):
            part = SparseLaw(space, law.outputs, law.dynamics)
            return part.set_law_(law, shrink=not policy.relaxed)
        return TreeLaw(law, space)
    return TreeLaw(law)
