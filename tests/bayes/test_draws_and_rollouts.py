import numpy as np
import pytest
import torch
from scipy import stats

from benchmarks.bayes_data import drag_pendulum
from sjepa.bayes import Posterior, Prior, posterior
from sjepa.data import Trajectories, simulate
from sjepa.errors import ConfigError, DataError
from sjepa.symbolic import Law
from tests.bayes.bayes_problems import TRUE, WITHOUT_DRAG, linear_map


@pytest.fixture(scope="module")
def pendulum() -> Posterior:
    """A posterior that is undecided between laws."""
    laws = [TRUE, WITHOUT_DRAG, Law.from_string(["p", "-sin(q) - 0.4*p"], ["q", "p"])]
    return posterior(drag_pendulum(1, 2, 12, 0.03), candidates=laws, gamma=0.3, noise="time")


def test_each_draw_is_one_law_with_its_own_numbers(pendulum: Posterior) -> None:
    draws = pendulum.draws(40, seed=3)
    assert len({id(g.structure) for g in draws.groups}) > 1
    z = torch.randn(40, 3, 2, dtype=torch.float64)
    found = draws(z, 0.05)
    for group, members in zip(draws.groups, draws.members, strict=True):
        for coefficients, b in zip(group.coefficients, members.tolist(), strict=True):
            field = group.structure.law_at(coefficients).numpy()
            x = z[b].numpy()
            k1 = field(x)
            k2 = field(x + 0.025 * k1)
            k3 = field(x + 0.025 * k2)
            k4 = field(x + 0.05 * k3)
            expected = x + 0.05 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            np.testing.assert_allclose(found[b].numpy(), expected, rtol=1e-12)
    torch.testing.assert_close(draws(z, 0.05), found, rtol=0, atol=0)


def test_structures_are_drawn_by_their_weights(pendulum: Posterior) -> None:
    draws = pendulum.draws(4000, seed=0)
    shares = {id(g.structure): len(g) / 4000 for g in draws.groups}
    for weight, fit in zip(pendulum.weights, pendulum.fits, strict=True):
        # Three standard errors of a share.
        assert abs(shares.get(id(fit.structure), 0.0) - weight) < 3 * np.sqrt(0.25 / 4000)


def test_a_rollout_repeats_the_step_and_adds_noise_of_the_draws_covariance(
    pendulum: Posterior,
) -> None:
    draws = pendulum.draws(6, seed=1)
    z0 = torch.tensor([0.5, 1.0]).double()
    dt = torch.tensor([0.1, 0.3]).double()
    path = draws.rollout(z0, dt, noise=False)
    once = draws(draws.expand(z0), 0.1)
    torch.testing.assert_close(path[:, 1], once)
    torch.testing.assert_close(path[:, 2], draws(once, 0.3))
    torch.testing.assert_close(draws.rollout(z0, dt[:1], noise=False), path[:, :2])
    means = draws.expand(torch.zeros(20_000, 2).double())
    noise = draws.add_noise(means, torch.tensor([0.25]).double(), torch.Generator().manual_seed(0))
    sample = noise.mT @ noise / 20_000
    torch.testing.assert_close(sample, 0.25 * draws.covariance, rtol=0.06, atol=2e-5)


def test_samples_of_one_state_a_draw_have_the_mean_and_covariance_of_that_draw(
    pendulum: Posterior,
) -> None:
    draws = pendulum.draws(6, seed=1)
    z, generator, n = torch.randn(6, 2).double(), torch.Generator().manual_seed(0), 4000
    with torch.no_grad():
        mean = draws(z, 0.25)
        apart = torch.stack([draws.sample(z, 0.25, generator=generator) for _ in range(n)]) - mean
    wanted = 0.25 * draws.covariance
    deviation = wanted.diagonal(dim1=-2, dim2=-1).sqrt()
    # Five standard errors of a mean, and at least as many of a covariance.
    assert bool((apart.mean(0).abs() < 5 * deviation / n**0.5).all())
    found = torch.einsum("nbi,nbj->bij", apart, apart) / n
    allowed = 5 * (2 / n) ** 0.5 * deviation[:, :, None] * deviation[:, None, :]
    assert bool(((found - wanted).abs() < allowed).all())


def test_the_same_seed_gives_the_same_draws_and_another_seed_others(pendulum: Posterior) -> None:
    x0, t = np.array([1.0, 0.0]), np.arange(0, 1, 0.1)
    a, b, c = (pendulum.rollout(x0, t, draws=20, seed=s).z for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)


def test_many_starts_are_rolled_out_together(pendulum: Posterior) -> None:
    x0 = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    t = np.array([0.0, 0.1, 0.15, 0.4])
    run = pendulum.rollout(x0, t, draws=30, noise=False)
    assert run.z.shape == (30, 3, 4, 2) and run.diverged == 0.0
    alone = pendulum.rollout(x0[1], t, draws=30, noise=False)
    np.testing.assert_allclose(run.z[:, 1], alone.z)
    low, high = run.interval(0.9)
    assert (low <= run.mean).all() and (run.mean <= high).all()


def test_gradients_reach_states_and_actions() -> None:
    data = simulate("forced_oscillator", seed=0, trajectories=3, points=60)
    names = [*data.names, *data.input_names]  # type: ignore[misc]
    law = Law.from_string([names[1], f"-{names[0]} + 0.5*{names[2]}"], names, outputs=names[:2])
    result = posterior(data, candidates=law)
    draws = result.draws(5)
    actions = torch.zeros(10, 1, dtype=torch.float64, requires_grad=True)
    path = draws.rollout(torch.zeros(2).double(), 0.1, actions, noise=False)
    path[:, -1].sum().backward()
    assert path.shape == (5, 11, 2)
    assert actions.grad is not None and (actions.grad.abs().sum(1)[:-1] > 0).all()
    # Actions of their own for each draw.
    each = torch.randn(5, 1, dtype=torch.float64)
    z = torch.randn(5, 2, dtype=torch.float64)
    both = draws(z, 0.1, each)
    torch.testing.assert_close(both[2], draws(z, 0.1, each[2])[2])
    table = result.calibration(data, horizons=(1, 5), draws=50, starts=20).table
    assert list(table["horizon"]) == [1, 5]
    u = data.u[0]  # type: ignore[index]
    assert result.rollout(data.x[0][0], data.t[0], u, draws=10).z.shape == (10, 60, 2)
    assert result.predict(data.x[0][:4], 0.1, u[:4], draws=10).mean.shape == (4, 2)


def test_with_known_noise_the_predictive_density_is_normal() -> None:
    data = linear_map([[0.8]], [[0.3]], 30)
    law = Law.from_string(["0.8*x"], ["x"], dynamics="discrete")
    result = posterior(data, candidates=law, covariance=0.09, prior=Prior(coefficients=1.0))
    x, y = data.x[0][:-1, 0], data.x[0][1:, 0]
    # By hand: b ~ N(0, 1) and the data.
    precision = 1.0 + x @ x / 0.09
    mean = x @ y / 0.09 / precision
    new, targets = 0.7, np.linspace(-0.3, 1.2, 7)
    expected_of = stats.norm(mean * new, np.sqrt(0.09 + new**2 / precision))
    expected = expected_of.logpdf(targets)
    prediction = result.predict(np.full((7, 1), new), draws=8000)
    np.testing.assert_allclose(prediction.log_density(targets[:, None]), expected, atol=0.03)
    np.testing.assert_allclose(prediction.mean, mean * new, atol=0.01)
    draws = result.draws(5)  # a map needs no step size
    start = torch.full((5, 1), new, dtype=torch.float64)
    torch.testing.assert_close(draws(start), draws(start, 1.0))
    np.testing.assert_allclose(prediction.std[:, 0], expected_of.std(), rtol=0.03)
    low, high = prediction.interval(0.8)
    np.testing.assert_allclose(low[0, 0], expected_of.ppf(0.1), atol=0.03)
    np.testing.assert_allclose(high[0, 0], expected_of.ppf(0.9), atol=0.03)
    assert (prediction.epistemic_std < prediction.std).all()


def test_rollouts_that_diverge_are_counted_not_raised() -> None:
    rng = np.random.default_rng(0)
    x = np.cumsum(0.01 * rng.normal(size=(40, 1)), axis=0) + 1.0
    law = Law.from_string(["0.5*x**3"], ["x"])
    result = posterior(x, 0.1, candidates=law, feature_names=["x"])
    run = result.rollout(np.array([5.0]), np.arange(0, 20, 0.1), draws=50)
    assert run.diverged > 0.2
    assert np.isfinite(run.z[:, 0]).all()


def test_intervals_cover_what_they_claim_on_data_from_the_model() -> None:
    result = posterior(drag_pendulum(5, 20, 25, 0.01), candidates=TRUE)
    found = result.calibration(
        drag_pendulum(6, 40, 30, 0.01), horizons=(1, 10), starts=300, draws=200
    )
    # One posterior knows the noise to about 3 %, which is 1.5 % of coverage; a standard error of
    # the share is 1 % for single steps, and 2 to 3 % where windows overlap.
    assert found.coverage(1, 0.9) == pytest.approx(0.9, abs=0.04)
    assert found.coverage(10, 0.9) == pytest.approx(0.9, abs=0.07)
    assert max(found.error(1), found.error(10)) < 0.06
    assert found.table["sharpness"].is_monotonic_increasing
    assert found.table["log_density"].is_monotonic_decreasing


def test_calibration_unmasks_too_narrow_intervals() -> None:
    sure = posterior(drag_pendulum(5, 8, 25, 0.01), candidates=TRUE, covariance=0.003**2)
    found = sure.calibration(drag_pendulum(6, 10, 30, 0.01), horizons=(1,))
    # 90 % of a normal three times too narrow.
    expected = 2 * stats.norm.cdf(0.3 * stats.norm.ppf(0.95)) - 1
    assert found.coverage(1, 0.9) == pytest.approx(expected, abs=0.06)
    assert found.error(1) > 0.2


def test_wrong_calls_say_what_to_do(pendulum: Posterior) -> None:
    draws = pendulum.draws(4)
    with pytest.raises(DataError, match=r"draws.expand\(z\)"):
        draws(torch.zeros(3, 2).double(), 0.1)
    with pytest.raises(DataError, match="pass dt"):
        draws(torch.zeros(4, 2).double())
    with pytest.raises(DataError, match="number of steps"):
        draws.rollout(torch.zeros(2).double(), 0.1)
    with pytest.raises(DataError, match="step size dt"):
        pendulum.predict(np.zeros((3, 2)))
    with pytest.raises(DataError, match="increasing times"):
        pendulum.rollout(np.zeros(2), [0.0, 1.0, 0.5])
    with pytest.raises(DataError, match="2 coordinates"):
        pendulum.predict(np.zeros((3, 5)), 0.1)
    with pytest.raises(ConfigError, match="from 1"):
        pendulum.draws(0)
    with pytest.raises(DataError, match="whole numbers from 1"):
        pendulum.calibration(Trajectories([np.zeros((9, 2))], 0.1), horizons=(0,))


def test_plots_return_axes_with_the_data_on_them(pendulum: Posterior) -> None:
    ax = pendulum.plot()
    assert [p.get_width() for p in ax.patches] == pytest.approx(pendulum.weights.tolist())
    held_out = drag_pendulum(9, 2, 30, 0.03)
    run = pendulum.rollout(held_out.x[0][0], held_out.t[0], draws=50)
    panels = run.plot(held_out.x[0])
    assert len(panels) == 2
    np.testing.assert_allclose(panels[1].lines[-1].get_ydata(), held_out.x[0][:, 1])
    found = pendulum.calibration(held_out, horizons=(1, 5), draws=50)
    assert len(found.plot().lines) == 3
    assert len(found.plot_horizons()) == 4
