"""Static problems: what they are, and when a formula counts as found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sjepa import Law
from sjepa.backend.budget import cpu_time
from sjepa.errors import ConfigError
from sjepa.studies.backends import PROBLEMS, Cell, benchmark, plot_results, summary
from sjepa.studies.backends.cells import static_task
from sjepa.studies.backends.problems import noisy_sample, recovered, static_scores


def test_there_are_enough_problems_of_each_family() -> None:
    families = {name.split("-")[0] for name in PROBLEMS}
    assert families == {"nguyen", "keijzer", "vladislavleva", "feynman", "strogatz"}
    assert len(PROBLEMS) >= 60


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_has_data_in_its_box_and_around_it(name: str) -> None:
    problem = PROBLEMS[name]
    x, y = problem.sample(100, seed=0)
    far, beyond = problem.sample(100, seed=0, beyond=True)
    assert x.shape == far.shape == (100, len(problem.inputs))
    assert np.isfinite(y).all() and np.isfinite(beyond).all() and y.std() > 0
    low, high = np.array(problem.low), np.array(problem.high)
    assert ((x >= low) & (x <= high)).all()
    assert not ((far >= low) & (far <= high)).all(axis=1).any()


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("nguyen-7", [1.0], math.log(2) + math.log(2)),
        ("keijzer-14", [1.0, 2.0], 8 / 7),
        ("vladislavleva-1", [2.0, 3.0], math.exp(-1) / (1.2 + 0.25)),
        ("feynman-I.12.2", [2.0, 3.0, 4.0, 5.0], 6 / (4 * math.pi * 4 * 25)),
        ("feynman-I.29.16", [3.0, 4.0, 1.0, 1.0], 1.0),
        ("strogatz-glider-theta", [2.0, 0.0], 1.5),
    ],
)
def test_formulas_are_those_of_the_literature(
    name: str, values: list[float], expected: float
) -> None:
    assert PROBLEMS[name].law.numpy()(values)[0] == pytest.approx(expected)


TRUTH = Law.from_string(["x**2 + x"], ["x"], ["y"], "discrete")
BOXES = [np.linspace(-1, 1, 50)[:, None], np.linspace(1, 2, 50)[:, None]]


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ("x*(x + 1)", True),
        ("x**2 + x + 7", True),  # up to a constant sum
        ("3*x**2 + 3*x", True),  # up to a constant factor
        ("3*x**2 + 3*x + 1", False),
        ("x**2 + 1.001*x", False),
        ("2", False),
        ("log(x) + x", False),  # not defined everywhere
    ],
)
def test_recovered_is_equal_up_to_a_constant(found: str, same: bool) -> None:
    law = Law.from_string([found], ["x"], ["y"], "discrete")
    assert recovered(law, TRUTH, BOXES) is same


def test_numbers_may_be_off_by_the_noise_but_imitations_do_not_pass() -> None:
    problem = PROBLEMS["nguyen-1"]
    near = Law.from_string(["1.002*x**3 + x**2 + x"], ["x"], ["y"], "discrete")
    assert static_scores(near, problem, 0.01, 5)["recovered"]
    assert not static_scores(near, problem, 0.0, 5)["recovered"]
    x, y = problem.sample(500, 0)
    powers = np.polynomial.Polynomial.fit(x[:, 0], y, 3, domain=[-1, 1]).coef
    sine = Law.from_string(["1.55*exp(x) - 1.4"], ["x"], ["y"], "discrete")
    scores = static_scores(sine, problem, 0.01, 5)
    assert not scores["recovered"] and scores["r2_beyond"] < scores["r2"] < 0.999
    np.testing.assert_allclose(powers, [0, 1, 1, 1], atol=1e-9)  # the data are the formula's


def test_noise_is_a_share_of_the_spread() -> None:
    x, noisy = noisy_sample(PROBLEMS["nguyen-1"], 0.1, 3)
    clean = PROBLEMS["nguyen-1"].law.numpy()(x)[:, 0]
    assert (noisy - clean).std() == pytest.approx(0.1 * clean.std(), rel=0.1)


def test_the_suite_runs_and_failures_are_rows() -> None:
    names = ["nguyen-1", "feynman-I.12.1", "pendulum"]
    table = benchmark(names, ["subset", "stlsq+subset"], [0.0], [0])
    assert (table["error"] == "").all() and table["recovered"].all()
    static = table[table["system"] != "pendulum"]
    assert (static["r2_beyond"] > 1 - 1e-9).all() and static["valid_time"].isna().all()
    assert summary(table)["cells"].tolist() == [3, 3]
    plot_results(table)
    broken = benchmark(["nguyen-1"], ["subset"], options={"subset": {"nodes": 3}})
    assert "has no option 'nodes'" in broken["error"][0]
    with pytest.raises(ConfigError, match="odes, static, all"):
        benchmark(suite="dynamic")


def test_every_backend_is_given_the_same_problem_and_ends_at_the_noise() -> None:
    quiet, noisy = (static_task(Cell("nguyen-1", "stlsq", noise, 3)) for noise in (0.0, 0.01))
    assert quiet.clock is cpu_time and quiet.budget.seconds == 60.0
    truth = PROBLEMS["nguyen-1"].law
    assert quiet.losses(truth)[0] <= quiet.enough < 1e-18
    assert 0.8e-4 < noisy.losses(truth)[0] <= noisy.enough < 1.2e-4
