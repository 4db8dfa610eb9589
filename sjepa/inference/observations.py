"""Evidence of coordinates and their law together: on the observations, which all encoders share.

In its own coordinates a law may be right and say nothing, as that of a constant of motion is. So
observations that were not fitted are encoded, the law is simulated through them, and a probe maps
its path back. The probe only judges: nothing is reconstructed in learning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.polynomial import legendre

from sjepa.data import Trajectories
from sjepa.inference.constants import LENGTH, ODDS
from sjepa.inference.evidence import Adequacy, Simulation
from sjepa.inference.noise import INFORMATION, Array, profile, smooth_share
from sjepa.inference.score import Fit, TermValues
from sjepa.inference.segments import FLOOR, Segments
from sjepa.inference.shooting import shoot
from sjepa.symbolic import Law


Encode = Callable[[Array], Array]

# A probe is a polynomial of this degree, or of the highest that has no more terms than this.
DEGREE, MAX_TERMS = 7, 120
# Residuals are mostly noise if less than half of them is told by the ones before.
MOSTLY = 0.5


@dataclass(frozen=True, eq=False)
class Probe:
    """Polynomials of coordinates, within the range (2, d) that they were fitted on."""

    ends: Array
    powers: Array
    weights: Array

    @classmethod
    def of(cls, z: Array, x: Array) -> Probe:
        """Observations (rows, r) as functions of coordinates (rows, d), by least squares."""
        d = z.shape[1]
        degree = max(n for n in range(1, DEGREE + 1) if n == 1 or comb(n + d, d) <= MAX_TERMS)
        grid = np.indices([degree + 1] * d).reshape(d, -1).T
        powers = grid[grid.sum(axis=1) <= degree]
        probe = cls(np.stack([z.min(axis=0), z.max(axis=0)]), powers, np.empty(0))
        weights = np.linalg.lstsq(probe.features(z), x, rcond=1e-9)[0]
        return cls(probe.ends, powers, weights)

    def features(self, z: Array) -> Array:
        """(..., d) -> (..., p), outside the range continued along straight lines."""
        low, high = self.ends
        at = (2 * z - low - high) / np.maximum(high - low, 1e-300)
        inside = np.clip(at, -1, 1)
        n = np.arange(int(self.powers.max()) + 1)
        slope = np.sign(at)[..., None] ** (n + 1) * n * (n + 1) / 2  # at the ends
        each = legendre.legvander(inside, n[-1]) + slope * (at - inside)[..., None]
        parts = [each[..., j, power] for j, power in enumerate(self.powers.T)]
        return np.asarray(np.prod(parts, axis=0))

    def __call__(self, z: Array) -> Array:
        return np.asarray(self.features(z) @ self.weights)

    def outside(self, z: Array) -> float:
        """The share of coordinates (rows, d) that lie outside the range."""
        low, high = self.ends
        return float(((z < low) | (z > high)).any(axis=-1).mean())


@dataclass(eq=False)
class Observations:
    """Evidence on held-out observations, each trajectory (n, r) whole.

    `train` are trajectories that encoders were fitted on: coefficients and probes are fitted on
    them. All candidates are compared on the same segments, those of the one that comes first.
    """

    train: Trajectories
    holdout: Trajectories
    order: int = 1
    zoh: bool = False
    segments: Segments | None = None

    def fit(self, encode: Encode, law: Law, complexity: float) -> Fit:
        """The score of an encoder with its law, whose coefficients are fitted to other data."""
        law = shoot(law, self._segments(self.train, encode)).law.canonical()
        segments = self._segments(self.holdout, encode, like=self.segments)
        self.segments = self.segments or segments
        shot = shoot(law, segments, refit=False)
        residual = self._measured(segments) - self._probe(encode)(shot.path)
        noise = profile(residual, segments.trajectory, self._least)
        terms = TermValues(segments.inputs_of(law))
        return Fit(
            law, noise.log_likelihood, complexity, 0, terms.cancelling_digits(law),
            lambda: residual, residual.size, segments.memory,
            shot.path[0].size + noise.scale.size, INFORMATION,
        )  # fmt: skip

    def is_incomplete(self, fit: Fit) -> bool:
        """Whether linear predictions from the first observations explain far more than the law.

        Then the observations move in ways that the coordinates do not follow.
        """
        assert self.segments is not None
        span = self.segments.x.shape[1]
        known = [x[k : k + span] for x in self.train.x for k in range(0, len(x) - span + 1, span)]
        if len(known) < 2 * self.train.obs_shape[0]:  # too few to learn from
            return False
        paths, measured = np.stack(known, axis=1), self._measured(self.segments)
        start, others = (np.insert(x[0], 0, 1.0, axis=1) for x in (paths, measured))
        maps = np.stack([np.linalg.lstsq(start, row, rcond=None)[0] for row in paths])
        left = measured - others @ maps
        left[0] = np.median(left[1:], axis=0)  # the start itself is no prediction
        likely = profile(left, self.segments.trajectory, self._least).log_likelihood
        gain = (likely - fit.log_likelihood) / fit.correlation_time
        error = float(np.sqrt(len(gain)) * gain.std(ddof=1)) if len(gain) > 1 else np.inf
        return bool(gain.sum() - error > ODDS)

    def adequacy(self, encode: Encode, law: Law, exact: bool = True) -> Adequacy:
        """Whether the residuals in a law's own coordinates are noise.

        Those of an encoder that is not `exact` contain its own error, too.
        """

        def cut(length: float = LENGTH) -> Segments:
            return self._segments(self.holdout, encode, length=length)

        simulation = Simulation(cut(), lambda law: 0.0, cut=cut)
        found = simulation.adequacy(law)
        if exact or found.adequate is not False:
            return found
        share = smooth_share(simulation.shots[law].residual)
        if share > MOSTLY:
            return found
        return Adequacy(
            None,
            f"The residuals are mostly noise, but predictable to {share:.0%}: the encoder is not "
            "exact, or a small term is missing. More trajectories, or another encoder, would tell.",
            found.p_value,
        )

    def outside(self, encode: Encode) -> float:
        """The share of the held-out data that lies outside the range of the others."""
        return self._probe(encode).outside(self._states(self.holdout, encode))

    def _segments(self, data: Trajectories, encode: Encode, **how: Any) -> Segments:
        z = Trajectories([encode(x) for x in data.x], data.t, data.u, gaps="keep")
        return Segments.of(z, order=self.order, zoh=self.zoh, **how)

    def _probe(self, encode: Encode) -> Probe:
        return Probe.of(self._states(self.train, encode), np.concatenate(self.train.x))

    def _states(self, data: Trajectories, encode: Encode) -> Array:
        z = [encode(x) for x in data.x]
        if self.order == 2:
            rates = (np.gradient(a, t, axis=0) for a, t in zip(z, data.t, strict=True))
            z = [np.concatenate(pair, axis=1) for pair in zip(z, rates, strict=True)]
        return np.concatenate(z)

    def _measured(self, segments: Segments) -> Array:
        span = segments.x.shape[1]
        rows = [self.holdout.x[i][k : k + span] for i, k in segments.places]
        return np.stack(rows, axis=1).astype(float)

    @cached_property
    def _least(self) -> Array:
        return np.asarray(FLOOR * np.concatenate(self.holdout.x).std(axis=0))
