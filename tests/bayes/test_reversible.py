"""A chain over all structures of a small grammar against weights that are known."""

from __future__ import annotations

import numpy as np
import pytest

from sjepa.bayes import Prior, posterior
from sjepa.errors import ConfigError
from sjepa.symbolic import Library

from .bayes_problems import linear_map
from .reversible import all_laws, sample_structures


TERMS = ["1", "x", "x**2"]
LIBRARY = Library.from_terms(TERMS, ["x"])
DATA = linear_map([[0.6]], [[0.3]], 25, seed=3)
NOISE, WIDTH, GAMMA = 0.09, 0.7, 0.5


def exact() -> dict[frozenset[str], float]:
    """Posterior of every support: y ~ N(0, σ² I + s² X Xᵀ), times exp(-γ Ω)."""
    x = DATA.x[0][:, 0]
    columns = dict(zip(TERMS, (np.ones(len(x) - 1), x[:-1], x[:-1] ** 2), strict=True))
    price = dict(zip(TERMS, (0.5, 1.0, 1.5), strict=True))
    score = {}
    for bits in range(8):
        used = [t for i, t in enumerate(TERMS) if bits >> i & 1]
        design = np.stack([columns[t] for t in used], axis=1) if used else np.zeros((len(x) - 1, 0))
        cov = NOISE * np.eye(len(x) - 1) + WIDTH**2 * design @ design.T
        evidence = -0.5 * np.linalg.slogdet(cov)[1] - 0.5 * x[1:] @ np.linalg.solve(cov, x[1:])
        score[frozenset(used)] = evidence - GAMMA * sum(price[t] for t in used)
    top = max(score.values())
    total = sum(np.exp(s - top) for s in score.values())
    return {used: float(np.exp(s - top) / total) for used, s in score.items()}


def chain(steps: int = 20_000, seed: int = 0):  # type: ignore[no-untyped-def]
    return sample_structures(
        DATA, laws=all_laws(LIBRARY, ["x"], "discrete"), prior=Prior(coefficients=WIDTH),
        covariance=NOISE, gamma=GAMMA, measure="terms", library=LIBRARY, steps=steps, seed=seed,
    )  # fmt: skip


def test_the_chain_spends_its_time_as_the_posterior_says() -> None:
    found, truth = chain(), exact()
    assert len(found.laws) == 8 and found.weights.sum() == pytest.approx(1.0)
    for law, weight, error in zip(found.laws, found.weights, found.errors, strict=True):
        used = frozenset(str(t) for row in law.terms for _, t in row)
        assert weight == pytest.approx(truth[used], abs=max(5 * error, 0.005))
    assert sorted(truth.values())[-2] > 0.02  # a second structure has to be visited, too
    assert found.structures["weight"].is_monotonic_decreasing


def test_candidate_weights_agree_and_a_missing_candidate_shows() -> None:
    settings = {
        "prior": Prior(coefficients=WIDTH), "covariance": NOISE, "gamma": GAMMA, "measure": "terms",
        "library": LIBRARY,
    }  # fmt: skip
    laws = all_laws(LIBRARY, ["x"], "discrete")
    found = chain()
    whole = posterior(DATA, candidates=laws, **settings)
    assert found.distance(whole) < 0.02 and found.distance(found) == 0.0
    heaviest = whole.fits[0].structure.key
    fewer = [f.structure.law for f in whole.fits if f.structure.key != heaviest]
    partial = posterior(DATA, candidates=fewer, **settings)
    assert found.distance(partial) == pytest.approx(whole.weights[0], abs=0.02)


def test_unknown_noise_is_sampled_as_well() -> None:
    """The evidence is an integral by Laplace, which the chain does not use."""
    prior = Prior(coefficients=WIDTH, noise=0.3)
    laws = all_laws(LIBRARY, ["x"], "discrete")
    found = sample_structures(
        DATA, laws=laws, prior=prior, gamma=GAMMA, measure="terms", library=LIBRARY
    )
    known = posterior(
        DATA, candidates=laws, prior=prior, covariance="diagonal", gamma=GAMMA, measure="terms",
        library=LIBRARY,
    )  # fmt: skip
    assert found.distance(known) < 0.03


def test_algorithm_2_retains_from_the_front_alone() -> None:
    library = Library.from_terms(["1", "x", "y"], ["x", "y"])
    data = linear_map([[0.9, 0.2], [-0.2, 0.9]], [[0.3, 0.0], [0.0, 0.3]], 60)
    laws = all_laws(library, ["x", "y"], "discrete")
    given = {"candidates": laws, "measure": "terms", "library": library, "max_candidates": 30}
    mixed, pareto = (posterior(data, retained=rule, **given) for rule in ("mixed", "pareto"))
    costs = [f.structure.complexity for f in pareto.fits]
    assert len(set(costs)) == len(costs) < len(mixed.fits) <= 30
    assert {f.structure.key for f in pareto.fits} <= {f.structure.key for f in mixed.fits}
    with pytest.raises(ConfigError, match="'mixed' or 'pareto'"):
        posterior(data, retained="best", **given)  # type: ignore[arg-type]


def test_large_grammars_and_short_chains_are_refused() -> None:
    with pytest.raises(ConfigError, match="more than 4096 structures"):
        all_laws(Library.paper(["x", "y"]), ["x", "y"])
    with pytest.raises(ConfigError, match="at least 400 steps"):
        chain(steps=10)
