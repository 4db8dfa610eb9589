"""Evidence of coordinates and their law together: on the observations, which all encoders share.

In its own coordinates a law may be right and say nothing, as that of a constant of motion is. So
observations that were not fitted are encoded, the law is simulated through them, and a probe maps
its path back. The probe only judges: nothing is reconstructed in learning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from scipy.linalg import cho_solve
from scipy.special import stdtr

from sjepa.data import Trajectories
from sjepa.data.derivatives import Smoothing, differentiate
from sjepa.data.noise import noise_level
from sjepa.inference.adequacy import predicted_power
from sjepa.inference.constants import MIN_BLOCKS, ODDS, SIGNIFICANCE
from sjepa.inference.corrections import segment_blocks
from sjepa.inference.evidence import Adequacy, Simulation, adequacy_of
from sjepa.inference.noise import INFORMATION, Array, profile
from sjepa.inference.score import Fit, TermValues
from sjepa.inference.segments import FLOOR, MAX_SEGMENTS, Segments
from sjepa.inference.shooting import ShootingFit, shoot
from sjepa.symbolic import Law


Encode = Callable[[Array], Array]

# A probe is a polynomial of at most this degree and of no more terms than this, fitted to about so
# many rows, with a ridge for terms that the rows do not tell apart.
DEGREE, MAX_TERMS, ROWS, RIDGE = 30, 120, 8_000, 1e-9


@dataclass(frozen=True, eq=False)
class Probe:
    """Polynomials of the first coordinates, within the range (2, d) that they were fitted on."""

    center: Array
    axes: Array
    ends: Array
    powers: Array
    weights: Array

    @classmethod
    def of(cls, z: list[Array], x: list[Array], sizes: tuple[int, ...] = ()) -> Probe:
        """Observations (n, r) of each trajectory as functions of its coordinates (n, d).

        Of how high a degree, and of how many of the coordinates (one of `sizes`, by default all),
        is what predicts every other trajectory best from the rest.
        """
        every = max(1, sum(map(len, z)) // ROWS)
        z, x = ([one[::every] for one in many] for many in (z, x))
        if len(z) == 1:  # its blocks in turn
            z, x = (np.array_split(many[0], 8) for many in (z, x))
        half = np.concatenate([np.full(len(one), i % 2) for i, one in enumerate(z)])
        rows, seen = np.concatenate(z), np.concatenate(x)
        least = FLOOR**2 * seen.var(axis=0) + 1e-300
        found: list[tuple[float, Probe]] = []
        for size in sizes or (rows.shape[1],):
            probe = cls._plain(rows[:, :size])
            features = probe.features(rows)
            degrees = probe.powers.sum(axis=1)
            counts = [int((degrees <= n).sum()) for n in range(1, int(degrees.max()) + 1)]
            counts = [p for p in counts if 4 * p <= len(rows)] or counts[:1]
            missed = np.zeros(len(counts))
            for k in (0, 1):
                solutions = _prefixes(features[half == k], seen[half == k], counts)
                for i, (p, weights) in enumerate(zip(counts, solutions, strict=True)):
                    left = seen[half != k] - features[half != k, :p] @ weights
                    # Typical errors: a few rows lie outside the range of the others.
                    missed[i] += float(np.log(left**2 + least).mean())
            best = int(missed.argmin())
            (weights,) = _prefixes(features, seen, counts[best : best + 1])
            powers = probe.powers[: counts[best]]
            found.append((float(missed[best]), replace(probe, powers=powers, weights=weights)))
        return min(found, key=lambda pair: pair[0])[1]

    @classmethod
    def _plain(cls, rows: Array) -> Probe:
        """Without weights: principal axes, their range, and all terms by ascending degree."""
        d = rows.shape[1]
        center = rows.mean(axis=0)
        variance, axes = np.linalg.eigh(np.atleast_2d(np.cov(rows.T)))
        axes = axes / np.sqrt(np.maximum(variance, 1e-12 * variance.max() + 1e-300))
        turned = (rows - center) @ axes
        degree = max(n for n in range(1, DEGREE + 1) if n == 1 or comb(n + d, d) <= MAX_TERMS)
        grid = np.indices([degree + 1] * d).reshape(d, -1).T
        total = grid.sum(axis=1)
        powers = grid[np.argsort(total, kind="stable")][: int((total <= degree).sum())]
        ends = np.stack([turned.min(axis=0), turned.max(axis=0)])
        return cls(center, axes, ends, powers, np.empty(0))

    def features(self, z: Array) -> Array:
        """(..., d) -> (..., p), outside the range continued along straight lines."""
        z, (low, high) = self._turned(z), self.ends
        at = (2 * z - low - high) / np.maximum(high - low, 1e-300)
        inside = np.clip(at, -1, 1)
        n = np.arange(int(self.powers.max()) + 1)
        slope = np.sign(at)[..., None] ** (n + 1) * n * (n + 1) / 2  # at the ends
        each = legendre.legvander(inside, n[-1]) + slope * (at - inside)[..., None]
        parts = [each[..., j, power] for j, power in enumerate(self.powers.T)]
        return np.asarray(np.prod(parts, axis=0))

    def __call__(self, z: Array) -> Array:
        return np.asarray(self.features(z) @ self.weights)

    def _turned(self, z: Array) -> Array:
        return np.asarray((z[..., : len(self.center)] - self.center) @ self.axes)


def _simulated(count: int) -> list[int]:
    """The trajectories, evenly spread, that segments are cut from: there are no more segments."""
    chosen = np.linspace(0, count - 1, min(count, MAX_SEGMENTS)).round()
    return [int(i) for i in chosen]


def _prefixes(features: Array, values: Array, counts: list[int]) -> list[Array]:
    """Least squares on the first columns alone, for several numbers of them."""
    p = max(counts)
    gram = features[:, :p].T @ features[:, :p] + RIDGE * len(features) * np.eye(p)
    root, moment = np.linalg.cholesky(gram), features[:, :p].T @ values
    return [cho_solve((root[:k, :k], True), moment[:k]) for k in counts]


@dataclass(eq=False)
class Observations:
    """Evidence on held-out observations, each trajectory (n, r) whole.

    `train` are trajectories that encoders were fitted on: coefficients and probes are fitted on
    them; without `refit` laws keep their coefficients. All candidates are compared on the same
    segments, those of the one that comes first. What is explained of an observation are its
    `values`, by default all.
    """

    train: Trajectories
    holdout: Trajectories
    order: int = 1
    zoh: bool = False
    segments: Segments | None = None
    refit: bool = True
    values: Encode = np.asarray

    def __post_init__(self) -> None:
        self._windows: dict[int, tuple[tuple[int, int], ...] | None] = {}
        self._known = [np.asarray(self.values(x)) for x in self.train.x]
        self._others = [np.asarray(self.values(x)) for x in self.holdout.x]

    def fit(self, encode: Encode, law: Law, complexity: float) -> Fit:
        """The score of an encoder with its law, whose coefficients are fitted to other data."""
        if self.refit:
            law = shoot(law, self._segments(self.train, encode)).law.canonical()
        segments = self._segments(self.holdout, encode, like=self.segments)
        self.segments = self.segments or segments
        path = shoot(law, segments, refit=False).path
        probe = self._probe(self._states(self.train, encode), self._known)
        residual = self._measured(segments) - probe(path)
        with np.errstate(over="ignore", invalid="ignore"):  # for paths that run away
            noise = profile(residual, segments.trajectory, self._least)
        terms = TermValues(segments.inputs_of(law))
        return Fit(
            law, noise.log_likelihood, complexity, 0, terms.cancelling_digits(law),
            lambda: residual, residual.size, segments.memory,
            path[0].size + noise.scale.size, INFORMATION,
        )  # fmt: skip

    def is_incomplete(self, encode: Encode, fit: Fit) -> bool:
        """Whether the observations move in ways that the coordinates should follow and do not.

        Linear predictions from the first observations explain far more than the law then, and
        what the coordinates leave of the observations depends on them: the sign that a square
        lost does, a nuisance of its own does not.
        """
        return self._falls_behind(fit) and self._leaves_related(encode)

    def _falls_behind(self, fit: Fit) -> bool:
        assert self.segments is not None
        span = self.segments.x.shape[1]
        known = [x[k : k + span] for x in self._known for k in range(0, len(x) - span + 1, span)]
        if len(known) < 2 * self._known[0].shape[1]:  # too few to learn from
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

    def _leaves_related(self, encode: Encode) -> bool:
        """Whether coordinates predict the size of their residual, on other trajectories.

        Too few trajectories do not show that it cannot.
        """
        z = self._states(self.train, encode)
        probe = self._probe(z, self._known)
        left = [x - probe(own) for x, own in zip(self._known, z, strict=True)]
        if len(z) < 2 * MIN_BLOCKS:
            return True
        share = np.concatenate(left).var(axis=0) / np.concatenate(self._known).var(axis=0)
        sizes = [np.log(one**2 + self._least**2) for one in left]
        gain = np.zeros(len(z))
        for k in (0, 1):
            known = np.concatenate(sizes[k::2]).mean(axis=0)
            learned = Probe.of(z[k::2], sizes[k::2])
            for i in range(1 - k, len(z), 2):
                better = (sizes[i] - known) ** 2 - (sizes[i] - learned(z[i])) ** 2
                gain[i] = float((better * share).mean())
        t = gain.mean() / max(float(gain.std(ddof=1)), 1e-300) * np.sqrt(len(gain))
        return bool(stdtr(len(gain) - 1, -t) < SIGNIFICANCE)

    def adequacy(self, encode: Encode, law: Law, exact: bool = True) -> Adequacy:
        """Whether the residuals in a law's own coordinates are noise.

        Those of an encoder of few parameters, which is not `exact`, contain its errors: functions
        of the state, without bound outside the range that it was fitted on. What these explain does
        not tell of the law.
        """
        data = Simulation(
            self._segments(self.holdout, encode), lambda law: 0.0, self.refit,
            cut=lambda length: self._segments(self.holdout, encode, length=length),
        )  # fmt: skip
        found = data.adequacy(law)
        if exact or found.adequate is not False:
            return found
        shot = data.shots[law]
        low, high = self._range(encode)
        if self.order == 2:
            low, high = (end[: len(end) // 2] for end in (low, high))
        x = shot.segments.x
        inside = np.all((x >= low) & (x <= high), axis=(1, 2))
        if inside.any() and not inside.all():
            shot = shoot(law, shot.segments.part(inside), refit=self.refit)
            within = adequacy_of(shot, lambda length: None)
            if within.adequate is not False:
                reason = "Within the range of the training data: " + within.reason
                return within._replace(reason=f"{reason} Outside it, they are not noise.")
        size = self._encoder_error(shot, encode)
        if size is None:
            return found
        return Adequacy(
            None,
            f"The residuals are predictable from the state, and mostly errors of the encoder: a "
            f"function of the state, {size:.1%} of the spread, which other trajectories confirm. "
            "Whether a small term is missing beside it, another encoder would tell.",
            found.p_value,
        )

    def _encoder_error(self, shot: ShootingFit, encode: Encode) -> float | None:
        """The error of the encoder, a share of the spread; None where the law must be wrong.

        An encoder errs in the same way wherever its state comes back, a law the more the longer it
        is followed. So a function of the simulated state is learned from the training data: it must
        explain more of the residuals than corrections of the law predict of them.
        """
        known = shoot(shot.law, self._segments(self.train, encode), refit=self.refit)
        # With its coefficients: those that suit few other paths best would hide what a law lacks.
        shot = shoot(known.law, shot.segments, refit=False)
        x = np.moveaxis(known.segments.x, 1, 0)
        left = x - known.path[..., : x.shape[2]]
        pairs = (list(np.moveaxis(values, 1, 0)) for values in (known.path, left))
        segments, error = shot.segments, self._probe(*pairs)(shot.path)
        left = shot.residual - segments.scaled(error)
        gain = profile(left, segments.trajectory, segments.least).total - shot.noise.total
        few = segments.trajectory.max() < MIN_BLOCKS
        blocks = segment_blocks(shot, (np.arange(len(left[0])) if few else segments.trajectory) % 2)
        if not blocks.enough or gain < predicted_power(blocks) / 2:
            return None
        return float((error.std(axis=(0, 1)) / segments.spread).max())

    def _range(self, encode: Encode) -> tuple[Array, Array]:
        z = np.concatenate(self._states(self.train, encode))
        return z.min(axis=0), z.max(axis=0)

    def outside(self, encode: Encode) -> float:
        """The share of the held-out data that lies outside the range of the others."""
        low, high = self._range(encode)
        z = np.concatenate(self._states(self.holdout, encode))
        return float(((z < low) | (z > high)).any(axis=1).mean())

    def _segments(self, data: Trajectories, encode: Encode, **how: Any) -> Segments:
        some = _simulated(len(data))
        x, t = [encode(data.x[i]) for i in some], [data.t[i] for i in some]
        z = Trajectories(x, t, data.u and [data.u[i] for i in some], gaps="keep")
        if self.order == 1:  # how wide a window may be depends on the motion, which all share
            if id(data) not in self._windows:
                self._windows[id(data)] = differentiate(z).windows
            how["smoothing"] = Smoothing(noise_level(z.x, z.t), self._windows[id(data)])
        return Segments.of(z, order=self.order, zoh=self.zoh, **how)

    def _probe(self, z: list[Array], x: list[Array]) -> Probe:
        """Positions may tell all of the observations, and velocities are noisier."""
        d = z[0].shape[1]
        return Probe.of(z, x, (d // 2, d) if self.order == 2 else (d,))

    def _states(self, data: Trajectories, encode: Encode) -> list[Array]:
        z = [encode(x) for x in data.x]
        if self.order == 2:
            rates = (np.gradient(a, t, axis=0) for a, t in zip(z, data.t, strict=True))
            z = [np.concatenate(pair, axis=1) for pair in zip(z, rates, strict=True)]
        return z

    def _measured(self, segments: Segments) -> Array:
        span, some = segments.x.shape[1], [self._others[i] for i in _simulated(len(self._others))]
        return np.stack([some[i][k : k + span] for i, k in segments.places], axis=1).astype(float)

    @cached_property
    def _least(self) -> Array:
        return np.asarray(FLOOR * np.concatenate(self._others).std(axis=0))
