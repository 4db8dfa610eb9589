"""Noise of observation: the evidence against quadrature, and intervals that hold."""

import warnings

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import t as student

from sjepa import Law
from sjepa.bayes import Prior, posterior
from sjepa.bayes.observation_noise import fit_observed
from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import Sizes
from sjepa.bayes.transitions import StepModel, Transitions
from sjepa.data import Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.errors import ConfigError, NumericalWarning
from sjepa.inference.constants import DEGREES_OF_FREEDOM
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import shoot


def decays(seed=0, rate=0.7, noise=0.02):
    rng = np.random.default_rng(seed)
    t = np.arange(0, 3, 0.1)
    x = [a * np.exp(-rate * t)[:, None] for a in rng.uniform(1, 2, size=8)]
    return Trajectories([v + noise * rng.normal(size=v.shape) for v in x], t, names=["x"])


def test_evidence_is_the_integral_over_coefficient_and_starts():
    data = decays()
    segments = Segments.of(data)
    structure = ParametricLaw(Law.from_string("-0.7*x", ["x"]), 1.0)
    rows = Transitions.of(data)
    units, prior = Sizes.of([structure], rows, StepModel()), Prior(coefficients=3.0)
    found = fit_observed(structure, segments, units, prior)
    # x = start exp(-a t) with Student's noise: start by start, on a grid around the best.
    run = shoot(structure.law, segments)
    scale = segments.unit[0] * run.noise.scale[segments.trajectory, 0][:, None, None]
    times = segments.t - segments.t[:, :1]
    seen = segments.x[..., 0]
    grid = np.linspace(-1.2, -0.3, 301)
    steps = np.linspace(-8, 8, 161)
    logs = []
    for a in grid:
        shape = np.exp(a * times)
        inner = (shape**2).sum(axis=1)
        middle = (shape * seen).sum(axis=1) / inner
        width = scale[:, 0, 0] / np.sqrt(inner)
        start = middle[:, None] + width[:, None] * steps
        left = (seen[:, None] - start[..., None] * shape[:, None]) / scale
        density = student.logpdf(left, DEGREES_OF_FREEDOM) - np.log(scale)
        each = logsumexp(density.sum(axis=2), axis=1) + np.log(width * (steps[1] - steps[0]))
        prior_of = -0.5 * (a / 3) ** 2 - np.log(3) - 0.5 * np.log(2 * np.pi)
        logs.append(each.sum() + prior_of)
    exact = logsumexp(logs) + np.log(grid[1] - grid[0])
    # Ours is the density of values in units of the segments' noise.
    ours = found.log_evidence - seen.size * np.log(segments.unit[0])
    assert ours == pytest.approx(exact, abs=0.5)
    weights = np.exp(np.array(logs) - max(logs))
    mean = (weights * grid).sum() / weights.sum()
    spread = np.sqrt((weights * (grid - mean) ** 2).sum() / weights.sum())
    assert float(found.mode[0]) == pytest.approx(mean, abs=0.2 * spread)
    assert float(found.root.abs()[0, 0]) == pytest.approx(spread, rel=0.1)


@pytest.fixture(scope="module")
def pendulums():
    data = simulate("damped_pendulum", seed=40, noise=0.03)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error", NumericalWarning
        )  # nothing to doubt: the noise is what it is taken for
        result = posterior(
            data[np.arange(4)], library=["q", "p", "sin(q)", "q**3"], noise="observation",
            backend="subset",
        )  # fmt: skip
    return result, data[np.arange(4, 8)]


def test_intervals_of_long_rollouts_hold_what_is_seen(pendulums):
    result, held_out = pendulums
    assert [{str(t) for _, t in row} for row in result.law.terms] == [{"p"}, {"p", "sin(q)"}]
    table = result.calibration(held_out, horizons=(1, 40), draws=200, starts=60)
    assert 0.8 < table.coverage(1) < 0.97
    assert 0.8 < table.coverage(40) < 0.97


def test_states_move_without_noise(pendulums):
    draws = pendulums[0].draws(20)
    start = torch.tensor([1.0, 0.0], dtype=torch.float64)
    bare = draws.rollout(draws.expand(start), 0.05, steps=4, noise=False)
    seen = draws.rollout(draws.expand(start), 0.05, steps=400)
    assert torch.equal(bare[:, 0], draws.expand(start))
    assert torch.equal(bare[:, 1], draws(draws.expand(start), 0.05))
    # Noise of the transition would add up: 400 steps of it to twenty times as much.
    noise = draws.root.diagonal(dim1=1, dim2=2)[0]
    assert (seen[:, -1].std(0) < 4 * noise).all()
    step = pendulums[0].predict([1.0, 0.0], 0.05, draws=400)
    assert (step.std >= noise.numpy()).all() and (step.std < 2 * noise.numpy()).all()


def test_what_does_not_go_with_it_is_refused():
    for options in (
        {"correction": "independent"},
        {"covariance": "full"},
    ):
        with pytest.raises(ConfigError, match="observation"):
            posterior(
                decays(), candidates=Law.from_string("-x", ["x"]), noise="observation", **options
            )
