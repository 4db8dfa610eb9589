"""Induced-dynamics complexity of laws alone: how simple a law the coordinates of an encoder admit.

The paper's C_dyn, with a correction, is in :mod:`sjepa.metrics.operator_complexity`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from torch import nn

from sjepa.backend import Backend, Problem
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories, differentiate, second_derivatives
from sjepa.data.names import state_names
from sjepa.data.rows import derivative_rows
from sjepa.errors import ConfigError, DataError
from sjepa.models.pretrained.embedder import encode_all
from sjepa.settings import RandomState, draw_seed
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.symbolic.front import knee


Encoder = Callable[[Any], Any] | nn.Module | None
Certificate = Literal["exact", "upper bound"]


@dataclass(frozen=True, eq=False)
class InducedComplexity:
    """C_dyn of an encoder without a correction, relative to data, library and a tolerance.

    Attributes
    ----------
    value : float
        The smallest complexity of a law whose unexplained share of the variance is at most `delta`
        for every coordinate's velocity; infinity if there is none.
    law : Law or None
        A law that attains it.
    delta : float
    certificate : "exact" or "upper bound"
        Whether the library was searched exhaustively. A grammar has more laws than any library.
    curve : DataFrame
        Complexity and equation for every delta at which they change, the strictest last.
    """

    value: float
    law: Law | None
    delta: float
    certificate: Certificate
    curve: pd.DataFrame

    def at(self, delta: float) -> float:
        """The complexity for another tolerance, which must be one the search went down to."""
        rows = self.curve[self.curve["delta"] <= delta * (1 + 1e-9)]
        return float(rows["complexity"].min()) if len(rows) else math.inf

    def __repr__(self) -> str:
        law = "no law" if self.law is None else "; ".join(self.law.lines(digits=4))
        return f"<C_dyn = {self.value:g} ({self.certificate}, delta {self.delta:.2g}): {law}>"


def induced_complexity(
    encoder: Encoder,
    data: Trajectories,
    library_or_grammar: Library | Grammar,
    delta: float | str = "auto",
    *,
    backend: str | Mapping[str, Any] | Backend = "subset",
    random_state: RandomState = 0,
    order: int = 1,
) -> InducedComplexity:
    """Complexity of the simplest adequate law in the coordinates of an encoder.

    This is the law-only variant of the paper's C_dyn: no correction, and the tolerance is a share
    of the variance of each coordinate's velocity, so that it has no units. (With a correction the
    minimum is nearly degenerate: the correction alone is nearly always cheaper than any law.) The
    encoder is frozen: only the law is searched. Complexity depends on the scale of the coordinates
    wherever the library is not closed under scaling; fix a convention (unit variance, for instance)
    when comparing encoders.

    Parameters
    ----------
    encoder : callable, nn.Module or None
        Maps one trajectory ``(T, *obs)`` to latents (T, d). None takes the observations themselves.
    data : Trajectories
    library_or_grammar : Library or Grammar
        Its inputs name the d latent coordinates; with ``order=2`` optionally also their velocities,
        after them.
    delta : float or "auto"
        The unexplained share of the variance of each coordinate's velocity (with ``order=2``:
        acceleration) that is tolerated;
        "auto" requires nine tenths of what the whole library explains, on a log scale.
    backend : name, mapping, class or instance
        Only one that `proves` certifies its answer.
    order : 1 or 2
        Whether the law gives first or second time derivatives.
    random_state : int, numpy RandomState or Generator, optional
        None draws a new seed.

    Examples
    --------
    A rotation takes two terms, and no law of one term is adequate:

    >>> t = np.arange(0, 3, 0.01)
    >>> data = Trajectories(np.stack([np.cos(2 * t), np.sin(2 * t)], axis=1), t)
    >>> library = Library.from_terms(["1", "a", "b"], inputs=["a", "b"])
    >>> induced_complexity(None, data, library, delta=0.01).value
    2.0
    """
    source = library_or_grammar
    if not isinstance(source, Library | Grammar):
        raise ConfigError(f"Give a Library or a Grammar, got {source!r:.60}.", "library_or_grammar")
    if order not in (1, 2):
        raise ConfigError(f"order must be 1 or 2, got {order}.")
    latents = encode(encoder, data, source.inputs, order)
    z, dz, names, outputs = _regression_rows(latents, source, order)
    measure = "terms" if isinstance(source, Library) else "tree"
    seed = draw_seed(random_state)
    problems = [_problem(source, z, dz, j, outputs, seed) for j in range(len(outputs))]
    limit = _limit(delta, problems)
    solver = make_backend(backend)
    fronts = [problem.with_(adequate=limit).solve(solver) for problem in problems]
    curve = _curve(fronts, names, outputs, measure)
    reached = curve[curve["delta"] <= limit * (1 + 1e-9)]
    exact = isinstance(source, Library) and all(_proven(f, limit) for f in fronts)
    if not len(reached):
        value, law = math.inf, None
    else:
        row = reached.loc[reached["complexity"].idxmin()]
        value, law = float(row["complexity"]), row["law"]
    table = curve.drop(columns="law")
    return InducedComplexity(value, law, limit, "exact" if exact else "upper bound", table)


def _regression_rows(
    latents: Trajectories, source: Library | Grammar, order: int
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """What the terms see, what they explain, and the names of the law's inputs and outputs."""
    if order == 2:
        d = latents.obs_shape[0]
        z, dz = derivative_rows(second_derivatives(latents))
        names = state_names(source.inputs, d)
        return z[:, : len(source.inputs)], dz[:, d:], names, names[d:]
    return *derivative_rows(differentiate(latents)), tuple(source.inputs), tuple(source.inputs)


def encode(
    encoder: Encoder, data: Trajectories, names: Sequence[str], order: int = 1
) -> Trajectories:
    """Latent trajectories with the given names."""
    flat = [x.reshape(len(x), -1) for x in data.x]
    latents = flat if encoder is None else encode_all(encoder, data.x)
    shape = latents[0].shape
    if len(names) not in (shape[1], order * shape[1]):
        raise DataError(
            f"The encoder gives latents of shape {shape} for a trajectory; the library is for "
            f"{len(names)} coordinates ({', '.join(names)})."
        )
    return Trajectories(latents, data.t, names=list(names[: shape[1]]), gaps="keep")


def _problem(
    source: Library | Grammar,
    z: np.ndarray,
    dz: np.ndarray,
    j: int,
    outputs: Sequence[str],
    seed: int,
) -> Problem:
    """The search for one equation: the cheapest of each make the cheapest law."""
    name = outputs[j]
    if isinstance(source, Library):
        library = source.with_mask(source.mask(outputs)[:, [j]])
        return Problem(z, dz[:, [j]], source.inputs, [name], library=library, seed=seed)
    return Problem(z, dz[:, [j]], source.inputs, [name], grammar=source, seed=seed)


def _limit(delta: float | str, problems: Sequence[Problem]) -> float:
    if delta != "auto":
        try:
            value = float(delta)
        except ValueError:
            raise ConfigError(f"delta is a number or 'auto', got {delta!r}.") from None
        if not value > 0:
            raise ConfigError(f"delta must be positive, got {value}.")
        return value
    floor = 0.0
    for problem in problems:
        allowed = problem.candidate_library.mask(problem.outputs)[:, 0]
        full = problem.sums.solve(allowed, 0)
        floor = max(floor, float(problem.sums.loss(full[:, None])[0]))
    return knee(min(floor, 1.0))


def _proven(front: Front, limit: float) -> bool:
    """Whether the backend proved the cheapest adequate equation, or that there is none."""
    for candidate in front:
        if candidate.loss <= limit * (1 + 1e-9):
            return candidate.certified
    return bool(len(front)) and all(c.certified for c in front)


def _curve(
    fronts: Sequence[Front], names: Sequence[str], outputs: Sequence[str], measure: str
) -> pd.DataFrame:
    """For every loss at which some equation changes: the cheapest law with no larger loss."""
    levels = sorted({c.loss for f in fronts for c in f}, reverse=True)
    rows: list[dict[str, Any]] = []
    for level in levels:
        picked = [next((c for c in f if c.loss <= level), None) for f in fronts]
        candidates = [c for c in picked if c is not None]
        if len(candidates) < len(fronts):
            break
        complexity = float(sum(getattr(c, measure) for c in candidates))
        if rows and rows[-1]["complexity"] == complexity:
            continue
        law = Law([c.law.expressions[0] for c in candidates], names, outputs, canonical=False)
        rows.append(
            {
                "delta": level,
                "complexity": complexity,
                "equation": "; ".join(law.lines(digits=5)),
                "certified": all(c.certified for c in candidates),
                "law": law,
            }
        )
    columns = ["delta", "complexity", "equation", "certified", "law"]
    return pd.DataFrame(rows, columns=columns)
