import math

import numpy as np
import pytest
import torch
from scipy import stats

from benchmarks.bayes_data import drag_pendulum
from sjepa.bayes.covariance import Covariance
from sjepa.bayes.laplace import find_mode, repair
from sjepa.bayes.transitions import StepModel
from sjepa.symbolic import Law
from tests.bayes.bayes_problems import ONE, PROBLEMS, TRUE, TWO, make_joint
from tests.bayes.nested import nested_evidence, prior_transform


def test_laplace_is_near_the_integral_over_coefficient_and_noise() -> None:
    joint = make_joint(*ONE)

    a, free = (torch.linspace(-e, e, 241, dtype=torch.float64) for e in (2.0, 2.5))
    grid = torch.cartesian_prod(a, free)
    values = torch.vmap(joint)(grid).reshape(241, 241)
    # Trapezoids of a smooth density that vanishes at the border are as good as exact.
    volume = (a[1] - a[0]) * (free[1] - free[0])
    answer = float(values.flatten().logsumexp(0) + volume.log())
    mode = find_mode(joint, joint.start())
    assert mode is not None and mode.status() == "ok"
    assert mode.log_evidence == pytest.approx(answer, abs=0.1)


def test_with_known_noise_the_evidence_is_a_gaussian_of_all_observations() -> None:
    sigma = np.array([[0.09, 0.06], [0.06, 0.08]])
    law, data, step, _ = TWO
    joint = make_joint(law, data, step, sigma, coefficients=0.7)
    z, y = joint.rows.z.numpy(), joint.rows.target.numpy()
    x = np.stack([np.kron(row, np.eye(2)) for row in z]).reshape(-1, 4)
    covariance = 0.49 * x @ x.T + np.kron(np.eye(len(z)), sigma)
    expected = stats.multivariate_normal(np.zeros(y.size), covariance).logpdf(y.reshape(-1))
    mode = find_mode(joint, joint.start())  # of a quadratic, where Laplace is exact
    assert mode is not None
    assert mode.log_evidence == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", ["full", "diagonal", "isotropic"])
def test_the_covariance_prior_is_inverse_wishart_times_the_jacobian(kind: str) -> None:
    covariance = Covariance.make(kind, torch.tensor([0.5, 2.0]).double(), 1.5)
    free = torch.tensor([0.3, -0.4, 0.2][: covariance.size]).double()

    def sigma(x: torch.Tensor) -> torch.Tensor:
        root = covariance.relative(x)
        s = root @ root.T
        return torch.stack({"full": [s[0, 0], s[1, 0], s[1, 1]], "diagonal": [s[0, 0], s[1, 1]],
                            "isotropic": [s[0, 0]]}[kind])  # fmt: skip

    jacobian = torch.linalg.slogdet(torch.func.jacrev(sigma)(free))[1]
    s = (covariance.relative(free) @ covariance.relative(free).T).numpy()
    if kind == "full":
        density = stats.invwishart(df=2 + 1 + 1.5, scale=np.eye(2)).logpdf(s)
    else:
        entries = np.diag(s) if kind == "diagonal" else [s[0, 0]]
        density = sum(stats.invwishart(df=3.5, scale=1.0).logpdf(v) for v in entries)
    assert float(covariance.log_prior(free)) == pytest.approx(density + float(jacobian), abs=1e-9)


def test_draws_for_nested_sampling_follow_the_prior_density() -> None:
    joint = make_joint(*TWO)
    rng = np.random.default_rng(0)
    draws = np.array([prior_transform(joint, rng.uniform(size=joint.size)) for _ in range(1500)])
    # E over the prior of f / prior is the integral of f: a normal density integrates to 1.
    center, spread = np.median(draws, axis=0), 0.5 * draws.std(axis=0)
    proposal = stats.norm(center, spread)
    log_ratio = [
        proposal.logpdf(d).sum() - float(joint.log_prior(torch.as_tensor(d))) for d in draws
    ]
    assert np.exp(log_ratio).mean() == pytest.approx(1.0, abs=0.25)


def test_nested_sampling_agrees_with_laplace() -> None:
    joint = make_joint(*ONE)
    value, error = nested_evidence(joint, live=150)
    mode = find_mode(joint, joint.start())
    assert mode is not None and error < 0.3
    assert value == pytest.approx(mode.log_evidence, abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PROBLEMS)[1:])
def test_nested_sampling_agrees_on_the_larger_problems(name: str) -> None:
    joint = make_joint(*PROBLEMS[name])
    value, _ = nested_evidence(joint, live=500)
    mode = find_mode(joint, joint.start())
    assert mode is not None
    assert value == pytest.approx(mode.log_evidence, abs=0.5)


@pytest.mark.slow
def test_nested_sampling_agrees_where_a_law_is_nonlinear_in_its_numbers() -> None:
    law = Law.from_string(["p", "-1.2*sin(0.9*q) - 0.4*p*abs(p)"], ["q", "p"])
    joint = make_joint(law, drag_pendulum(0, 4, 25, 0.01), StepModel("continuous", "rk4"), "full")
    mode = find_mode(joint, joint.start())
    value, _ = nested_evidence(joint, live=300)
    assert mode is not None
    # Laplace sees one of the two equal modes (-a, -b) of a sin(b q).
    assert value - math.log(2) == pytest.approx(mode.log_evidence, abs=0.5)


def test_the_evidence_does_not_depend_on_the_units_of_the_states() -> None:
    law, data, step, _ = TWO
    values = []
    for unit in (1.0, 1000.0):
        scaled = data.map(lambda x, unit=unit: x * unit, names=["x", "y"])
        joint = make_joint(law, scaled, step)
        mode = find_mode(joint, joint.start())
        assert mode is not None
        # Densities shrink by the unit for each of the observed numbers.
        values.append(mode.log_evidence + 2 * len(joint.rows) * math.log(unit))
    assert values[1] == pytest.approx(values[0], abs=1e-4)


def test_the_hessian_matches_finite_differences() -> None:
    joint = make_joint(TRUE, drag_pendulum(1, 2, 20, 0.01), StepModel("continuous", "rk4"))
    mode = find_mode(joint, joint.start())
    assert mode is not None
    d, h = len(mode.theta), 1e-4
    eye = h * torch.eye(d, dtype=torch.float64)
    numeric = torch.stack([
        torch.stack([
            (joint(mode.theta + a + b) - joint(mode.theta + a - b)
             - joint(mode.theta - a + b) + joint(mode.theta - a - b)) / (4 * h * h)
            for b in eye]) for a in eye])  # fmt: skip
    torch.testing.assert_close(mode.hessian, -numeric, rtol=1e-4, atol=1e-2)


def test_a_hessian_that_is_not_positive_definite_is_repaired_and_reported() -> None:
    def flat(theta: torch.Tensor) -> torch.Tensor:
        return -0.5 * theta[0] ** 2 - 0.0 * theta[1] ** 2 - 0.1 * theta[2] ** 2

    mode = find_mode(flat, torch.ones(3).double())
    assert mode is not None and mode.repaired == 1
    assert "1 of 3 directions" in mode.status()
    # The flat direction counts as wide as the prior, whose precision is 1.
    assert mode.log_evidence == pytest.approx(1.5 * math.log(2 * math.pi) - 0.5 * math.log(0.2))
    values, _, count = repair(torch.diag(torch.tensor([4.0, -3.0]).double()))
    assert count == 1 and sorted(values.tolist()) == [1.0, 4.0]


def test_a_density_that_is_nowhere_finite_gives_no_mode() -> None:
    assert find_mode(lambda theta: theta.sum() * math.nan, torch.zeros(2).double()) is None
