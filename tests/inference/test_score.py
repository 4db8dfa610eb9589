"""Scores in nats: the arithmetic by hand, and which laws stay rivals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sjepa import Law
from sjepa.inference.constants import ODDS, STRUCTURE
from sjepa.inference.score import Fit, Scores, TermValues


def fit(
    total: float, complexity: float = 2.0, parameters: int = 2, digits: float = 0.0,
    values: int = 400, rho: float = 0.0, blocks: int = 4,
) -> Fit:  # fmt: skip
    """A fit with this log likelihood, and residuals that are an autoregression."""
    e = np.random.default_rng(0).normal(size=(2000, 5, 1))
    for k in range(1, len(e)):
        e[k] = rho * e[k - 1] + math.sqrt(1 - rho**2) * e[k]
    law = Law.from_string(f"{total}*x", ["x"])
    each = np.full(blocks, total / blocks)
    return Fit(law, each, complexity, parameters, digits, lambda: e, values)


def test_a_score_is_likelihood_less_structure_coefficients_and_digits() -> None:
    one = fit(-100.0, complexity=3.0, parameters=2, digits=1.5, values=400)
    scores = Scores((one,))
    time = scores.correlation_time
    assert time == pytest.approx(1.0, abs=0.1)
    length = STRUCTURE * 3 + 2 * 0.5 * math.log(400 / time) + 1.5 + 2 * 3 / (400 - 3)
    assert scores.code_length(one) == pytest.approx(length, rel=1e-12)
    assert scores.score(one) == pytest.approx(-100 / time - length, rel=1e-12)
    assert scores.best is one and scores.lead(one) == 0 and scores.rivals == []


def test_noise_that_repeats_itself_counts_once() -> None:
    """An autoregression of 0.6 has a correlation time of 4: a quarter of the nats."""
    right, wrong = fit(-100.0, rho=0.6), fit(-140.0, rho=0.6)
    scores = Scores((wrong, right))
    assert scores.correlation_time == pytest.approx(4.0, rel=0.1)
    assert scores.lead(wrong) == pytest.approx(10.0, rel=0.1)


def test_what_a_worse_law_leaves_does_not_discount_the_evidence_against_it() -> None:
    right, wrong = fit(-100.0), fit(-140.0, rho=0.9)
    assert Scores((wrong, right)).lead(wrong) == pytest.approx(40.0, rel=0.1)


def test_rivals_are_within_the_odds_most_likely_first() -> None:
    best = fit(-100.0)
    near, nearer, far = (fit(-100.0 - gap) for gap in (0.9 * ODDS, 0.2 * ODDS, 1.2 * ODDS))
    scores = Scores((far, near, best, nearer))
    assert scores.best is best
    assert [f.total for f in scores.rivals] == [nearer.total, near.total]


def test_a_longer_law_must_pay_for_its_term() -> None:
    """A unit of structure and a coefficient of 400 values: 2.5 + 3 nats."""
    short = fit(-100.0, complexity=2.0, parameters=2)
    price = STRUCTURE + 0.5 * math.log(400)
    for gain, expected in ((price - 0.5, short), (price + 0.5, None)):
        long = fit(-100.0 + gain, complexity=3.0, parameters=3)
        scores = Scores((short, long))
        assert scores.best is (expected or long)


def test_the_standard_error_is_that_of_a_sum_of_blocks() -> None:
    gains = np.random.default_rng(0).normal(1.0, 3.0, size=(2000, 25))  # sets of 25 blocks
    like = fit(0.0)
    other = replace(like, log_likelihood=np.zeros(25))
    errors = [
        Scores((replace(like, log_likelihood=own + 10), other)).standard_error(other)
        for own in gains[:100]
    ]
    assert np.mean(errors) == pytest.approx(gains.sum(axis=1).std(), rel=0.1)
    single = fit(0.0, blocks=1)
    assert Scores((single,)).standard_error(single) is None


def test_near_cancelling_terms_pay_for_their_digits() -> None:
    x = np.linspace(-1, 1, 201)[:, None]
    terms = TermValues(x)
    plain = Law.from_string("x - 0.5*x**3", ["x"])
    rms = lambda v: math.sqrt(np.mean(v**2))  # noqa: E731
    whole = rms(x - 0.5 * x**3)
    expected = math.log(rms(x) / whole) + max(math.log(0.5 * rms(x**3) / whole), 0.0)
    assert terms.cancelling_digits(plain) == pytest.approx(expected, rel=1e-9)
    assert terms.cancelling_digits(Law.from_string("3*x", ["x"])) == 0.0
    # 1e6 (x - sin x) as two terms: each is about 1e6, their sum a tenth of that.
    large = Law.from_string("1e6*x - 1e6*sin(x)", ["x"])
    s = np.sin(x)
    digits = math.log(rms(x) / rms(x - s)) + math.log(rms(s) / rms(x - s))
    assert terms.cancelling_digits(large) == pytest.approx(digits, rel=1e-6)


def test_an_absurd_sum_costs_tens_of_nats() -> None:
    x = np.linspace(-1, 1, 201)[:, None]
    absurd = Law.from_string("3.2e9*x - 1.28e12*sin(0.0025*x)", ["x"])
    assert TermValues(x).cancelling_digits(absurd) > 20


def test_digits_do_not_depend_on_the_unit_of_the_law() -> None:
    x = np.random.default_rng(0).uniform(1, 2, size=(100, 2))
    one = Law.from_string(["p", "10*q - 9.5*p"], ["q", "p"])
    other = Law.from_string(["1e6*p", "1e7*q - 9.5e6*p"], ["q", "p"])
    values = TermValues(x)
    assert values.cancelling_digits(one) == pytest.approx(values.cancelling_digits(other), rel=1e-9)


def test_terms_whose_squares_no_double_holds_need_digits_too() -> None:
    points = np.linspace(0.1, 0.2, 50)[:, None]
    law = Law.from_string("1e180*x - 1e180*sin(x)", ["x"])
    assert 10 < TermValues(points).cancelling_digits(law) < 20  # both a few hundred times the sum
