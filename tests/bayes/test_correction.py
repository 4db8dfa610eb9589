import gpytorch
import numpy as np
import pytest
import torch
from scipy import stats

from benchmarks.bayes_data import drag_pendulum
from sjepa.bayes import GP, posterior
from sjepa.bayes.hybrid import HybridJoint, fit_hybrid
from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import Sizes
from sjepa.bayes.process import Kernel, KernelBlock, ProcessRows
from sjepa.bayes.transitions import StepModel, Transitions
from sjepa.errors import ConfigError
from sjepa.models import Transition
from tests.bayes.bayes_problems import WITHOUT_DRAG, make_joint


def toy(n: int = 25, q: int = 1, seed: int = 0) -> tuple[ProcessRows, KernelBlock, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, generator=g, dtype=torch.float64)
    settings = GP()
    kernel = Kernel.of(settings, x)
    rows = ProcessRows(kernel, kernel.standardized(x), 0.1 + torch.rand(n, generator=g).double(),
                0.5 + torch.rand(n, generator=g).double())  # fmt: skip
    mix = torch.tensor([[0.8, 0.0], [0.5, 0.6]]).double()[:q, :q]
    root = torch.tensor([[0.3, 0.0], [0.1, 0.2]]).double()[:q, :q]
    block = KernelBlock(torch.arange(q), torch.tensor([0.2, -0.3]).double(), mix, root)
    return rows, block, torch.randn(n, q, generator=g, dtype=torch.float64)


def dense(rows: ProcessRows, block: KernelBlock, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Matérn 5/2 by GPyTorch itself, called the usual way."""
    kernel = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=2).double()
    kernel.lengthscale = block.logs.exp()
    return kernel(x, y).to_dense().detach()


def test_the_marginal_likelihood_is_gpytorchs_where_steps_are_equal() -> None:
    rows, block, errors = toy()
    rows = ProcessRows(rows.kernel, rows.inputs, torch.ones(25).double(), torch.ones(25).double())

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: gpytorch.likelihoods.Likelihood) -> None:
            super().__init__(rows.inputs, errors[:, 0], likelihood)
            self.mean = gpytorch.means.ZeroMean()
            self.kernel = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=2)
            )

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Model(likelihood).double()
    model.kernel.base_kernel.lengthscale = block.logs.exp()
    model.kernel.outputscale = float(block.mix.square())
    likelihood.noise = float(block.root.square())
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with torch.no_grad():
        expected = float(mll(model(rows.inputs), errors[:, 0])) * 25
    assert float(rows.log_marginal(block, errors)) == pytest.approx(expected, abs=1e-4)


def test_the_marginal_likelihood_of_correlated_outputs_with_steps_of_their_own() -> None:
    rows, block, errors = toy(q=2)
    k = dense(rows, block, rows.inputs, rows.inputs).numpy()
    gain, spread = rows.gain.numpy(), rows.spread.numpy()
    b, sigma = (m.numpy() @ m.numpy().T for m in (block.mix, block.root))
    covariance = np.zeros((50, 50))
    for i in range(25):
        for j in range(25):
            covariance[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = gain[i] * gain[j] * k[i, j] * b
        covariance[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] += spread[i] ** 2 * sigma
    expected = stats.multivariate_normal(np.zeros(50), covariance).logpdf(
        errors.reshape(-1).numpy()
    )
    assert float(rows.log_marginal(block, errors)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("q", [1, 2])
def test_inducing_points_bound_the_marginal_likelihood_from_below(q: int) -> None:
    rows, block, errors = toy(40, q)
    exact = float(rows.log_marginal(block, errors))
    bounds = [
        float(ProcessRows(rows.kernel, rows.inputs, rows.gain, rows.spread, rows.inputs[:m])
              .log_marginal(block, errors))
        for m in (5, 20, 40)
    ]  # fmt: skip
    assert bounds[0] < bounds[1] < bounds[2] < exact + 1e-6
    # With a point at every input nothing is lost.
    assert bounds[2] == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("q", [1, 2])
def test_the_bound_is_titsias_formula_written_with_dense_matrices(q: int) -> None:
    """With few points, where what they leave out of the prior variance counts."""
    rows, block, errors = toy(25, q)
    points = rows.inputs[:6]
    sparse = ProcessRows(rows.kernel, rows.inputs, rows.gain, rows.spread, points)
    k_mm, k_mn = dense(rows, block, points, points), dense(rows, block, points, rows.inputs)
    nystrom = (k_mn.T @ torch.linalg.solve(k_mm, k_mn)).numpy()
    gain, spread = rows.gain.numpy(), rows.spread.numpy()
    b, sigma = (m.numpy() @ m.numpy().T for m in (block.mix, block.root))
    covariance = np.kron(gain[:, None] * nystrom * gain, b) + np.kron(np.diag(spread**2), sigma)
    fitted = stats.multivariate_normal(np.zeros(25 * q), covariance).logpdf(errors.reshape(-1))
    left_out = (gain / spread) ** 2 @ (1 - np.diag(nystrom)) * np.trace(np.linalg.solve(sigma, b))
    assert left_out > 10
    found = float(sparse.log_marginal(block, errors))
    assert found == pytest.approx(fitted - 0.5 * left_out, abs=1e-4)


@pytest.mark.parametrize("inducing", [False, True])
@pytest.mark.parametrize("q", [1, 2])
def test_drawn_functions_have_the_posterior_mean_and_variance(q: int, inducing: bool) -> None:
    from sjepa.bayes.function_draws import Paths, draw_paths

    rows, block, errors = toy(30, q)
    if inducing:  # one at every input, where the answer is known
        rows = ProcessRows(rows.kernel, rows.inputs, rows.gain, rows.spread, rows.inputs)
    n = 2000
    part = draw_paths(rows, block, errors.expand(n, -1, -1), 256, torch.Generator().manual_seed(1))
    near = rows.inputs[:4] + 0.1
    far = torch.tensor([[8.0, -8.0], [0.0, 9.0]]).double()
    x = torch.cat([near, far])
    raw = x * rows.kernel.spread + rows.kernel.mean
    g = Paths(rows.kernel, (part,))(raw.expand(n, -1, -1))
    k, across = dense(rows, block, rows.inputs, rows.inputs), dense(rows, block, x, rows.inputs)
    b, sigma = block.mix @ block.mix.T, block.root @ block.root.T
    c = torch.kron(rows.gain[:, None] * k * rows.gain, b)
    c = c + torch.kron(rows.spread.square().diag(), sigma)
    cross = torch.kron(across * rows.gain, b)
    mean = (cross @ torch.linalg.solve(c, errors.reshape(-1))).reshape(-1, q)
    variance = b.diagonal().repeat(6) - (cross @ torch.linalg.solve(c, cross.T)).diagonal()
    # Standard error of a mean over 2,000 draws, and a little for the random features.
    torch.testing.assert_close(g.mean(0), mean, atol=0.05, rtol=0.0)
    torch.testing.assert_close(g.std(0).reshape(-1), variance.sqrt(), atol=0.04, rtol=0.05)


def test_a_drawn_function_is_a_function() -> None:
    result = posterior(
        drag_pendulum(0, 2, 20, 0.01), candidates=WITHOUT_DRAG, correction=GP(outputs="shared", sets=2)
    )  # fmt: skip
    draws = result.draws(12, seed=0)
    z = torch.randn(12, 5, 2, dtype=torch.float64)
    together = draws.correction(z)
    alone = torch.stack([draws.correction(z[:, i : i + 1])[:, 0] for i in range(5)], dim=1)
    torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-12)
    # One step is the law's own step plus dt times the function, as in the likelihood.
    group, members = draws.groups[0], draws.members[0]
    law = Transition(group.structure.law_at(group.coefficients[0]).torch(), integrator="rk4")
    b = int(members[0])
    expected = law(z[b], 0.05) + 0.05 * together[b]
    torch.testing.assert_close(draws(z, 0.05)[b], expected, rtol=1e-10, atol=1e-12)
    z.requires_grad_()
    (slope,) = torch.autograd.grad(draws(z, 0.05).sum(), z)
    assert slope.isfinite().all() and slope.abs().sum() > 0


@pytest.mark.parametrize("outputs", ["independent", "multi"])
def test_the_correction_becomes_the_missing_drag(outputs: str) -> None:
    data = drag_pendulum(11, 6, 25, 0.005)
    result = posterior(data, candidates=WITHOUT_DRAG, correction=GP(outputs=outputs, sets=2))
    held_out = np.concatenate(drag_pendulum(12, 10, 40, 0.0).x)[::8]
    inside = np.abs(held_out) <= np.abs(np.concatenate(data.x)).max(axis=0)
    held_out = held_out[inside.all(axis=1)]
    drag = -0.4 * held_out[:, 1] * np.abs(held_out[:, 1])
    mean, std = result.correction(held_out, draws=100)
    assert 1 - np.mean((mean[:, 1] - drag) ** 2) / drag.var() >= 0.95
    outside = result.correction(np.array([[0.0, 5.0], [0.0, -5.0]]), draws=100)[1]
    assert (outside[:, 1] > 4 * std[:, 1].mean()).all()


def test_inducing_points_serve_where_there_are_more_rows_than_the_limit() -> None:
    data = drag_pendulum(11, 4, 25, 0.005)
    few = posterior(
        data, candidates=WITHOUT_DRAG, correction=GP(outputs="shared", exact=50, inducing=60)
    )
    full = posterior(data, candidates=WITHOUT_DRAG, correction=GP(outputs="shared"))
    assert "60 inducing points" in few.structures["status"][0]
    x = data.x[0][[3, 10, 20]]
    a, b = (r.correction(x, draws=300)[0] for r in (few, full))
    np.testing.assert_allclose(a, b, atol=0.08)
    assert few.structures["evidence"][0] <= full.structures["evidence"][0] + 0.5


def test_evidence_weighs_a_law_against_its_correction() -> None:
    """With a correction, a law that leaves nothing over still beats one that needs it."""
    from tests.bayes.bayes_problems import TRUE

    result = posterior(
        drag_pendulum(11, 4, 15, 0.005), candidates=[WITHOUT_DRAG, TRUE], correction="shared",
        gamma=0.0,
    )  # fmt: skip
    assert "Abs(p)" in str(result.law) and result.weights[0] > 0.9


def test_laplace_over_kernel_parameters_uses_the_true_curvature() -> None:
    data = drag_pendulum(2, 2, 20, 0.01)
    step = StepModel("continuous", "euler", "time")
    joint = make_joint(WITHOUT_DRAG, data, step, "full")
    structure = ParametricLaw(WITHOUT_DRAG, 1.0)
    units = Sizes.of([structure], Transitions.of(data), step)
    target = HybridJoint(joint, GP(outputs="multi"), units)
    fit = fit_hybrid(joint, GP(outputs="multi"), units)
    theta, h = fit.mode.theta, 1e-4  # type: ignore[attr-defined]
    direction = torch.randn(len(theta), generator=torch.Generator().manual_seed(0)).double()
    second = (
        target(theta + h * direction) - 2 * target(theta) + target(theta - h * direction)
    ) / h**2
    expected = direction @ fit.mode.hessian @ direction  # type: ignore[attr-defined]
    assert -float(second) == pytest.approx(float(expected), rel=1e-3)


def test_settings_that_contradict_each_other_are_refused() -> None:
    data = drag_pendulum(2, 2, 10, 0.01)
    with pytest.raises(ConfigError, match="diagonal covariance"):
        posterior(data, candidates=WITHOUT_DRAG, correction="shared", covariance="full")
    with pytest.raises(ConfigError, match="matern52"):
        GP(kernel="matern")
    with pytest.raises(ConfigError, match="sets"):
        GP(sets=0)
