"""The paper's propositions, as far as models and losses go, checked by running them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from benchmarks.paper.scores import rollout_bound
from sjepa.models import Correction, Transition
from sjepa.training.losses import correction_penalty, one_step_loss, rollout_loss


def randn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Function(nn.Module):
    """Any function of the joined inputs as a part of a transition."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function(inputs)


def pendulum(z: Tensor) -> Tensor:
    return torch.stack([z[..., 1], -z[..., 0].sin()], dim=-1)


def test_any_bijection_of_the_latent_space_predicts_equally_well() -> None:
    """Proposition 1: E~ = h o E with F~ = h o F o h^-1 is exact whenever E with F is."""

    def h(z: Tensor) -> Tensor:  # a shear followed by sinh: smooth, invertible, nonlinear
        return torch.stack([z[..., 0], z[..., 1] + z[..., 0] ** 3], dim=-1).sinh()

    def h_inverse(w: Tensor) -> Tensor:
        z = w.asinh()
        return torch.stack([z[..., 0], z[..., 1] - z[..., 0] ** 3], dim=-1)

    original = Transition(Function(pendulum), integrator="rk4")
    z = original.rollout(randn(0, 50, 2), 0.05, steps=1)  # (50, 2, 2): context, target
    transformed = Transition(
        Function(lambda w: h(original(h_inverse(w), 0.05))), dynamics="discrete"
    )
    assert one_step_loss(original(z[:, 0], 0.05), z[:, 1]) == 0
    assert (h(z) - z).abs().mean() > 0.1  # truly other coordinates
    torch.testing.assert_close(transformed(h(z[:, 0])), h(z[:, 1]), atol=1e-10, rtol=1e-10)


def test_a_constant_encoder_with_the_identity_beats_every_informative_model() -> None:
    """Proposition 2: without a representation term the collapsed solution is a global minimum."""
    x = Transition(Function(pendulum), integrator="rk4").rollout(randn(0, 200, 2), 0.05, steps=5)

    nothing = Correction(2).double()
    for parameter in nothing.parameters():
        nn.init.zeros_(parameter)

    def objective(encoder, law: Tensor, xi: float = 0.0) -> Tensor:
        model = Transition(Function(lambda z: z @ law), nothing)
        z = encoder(x)
        rollout, c = model.rollout_with_corrections(z[:, 0], 0.05, steps=5)
        return (
            one_step_loss(model(z[:, :-1], 0.05), z[:, 1:])
            + 0.35 * rollout_loss(rollout[:, 1:], z[:, 1:])
            + 2.5e-4 * (law.square() + xi).sqrt().sum()
            + 2e-2 * correction_penalty(c, nothing.parameters())
        )

    z0 = torch.tensor([0.65, -0.35], dtype=torch.float64)
    collapsed = objective(lambda x: z0.expand_as(x), torch.zeros(2, 2).double())
    assert collapsed == 0

    # An informative rival: the true coordinates with the best linear law, trained to the end.
    law = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    rival = torch.optim.LBFGS([law], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        rival.zero_grad()
        loss = objective(lambda x: x, law, xi=1e-8)
        loss.backward()
        return loss

    rival.step(closure)
    assert objective(lambda x: x, law) > 1e-4


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31), integrator=st.sampled_from(["euler", "rk4"]))
def test_moving_a_function_from_correction_to_law_changes_no_prediction(
    seed: int, integrator: str
) -> None:
    """Proposition 3: (F + r) + (c - r) predicts what F + c predicts, at every horizon."""
    torch.manual_seed(seed)
    c, mix = Correction(2).double(), randn(seed, 2, 2)

    def r(z: Tensor) -> Tensor:
        return (z @ mix).sin()

    one = Transition(Function(pendulum), c, integrator=integrator)
    other = Transition(
        Function(lambda z: pendulum(z) + r(z)),
        Function(lambda z: c(z) - r(z)),
        integrator=integrator,
    )
    z0 = randn(seed, 8, 2)
    torch.testing.assert_close(one.rollout(z0, 0.05, steps=20), other.rollout(z0, 0.05, steps=20))
    assert not torch.allclose(one.parts(z0)[1], other.parts(z0)[1])


@pytest.mark.parametrize("penalty", [0.0, 0.015, 1.0, 9.0])
def test_the_penalty_shrinks_the_correction_by_one_over_one_plus_lambda(penalty: float) -> None:
    """Proposition 4, with our own loss terms and a correction free at each of 40 inputs."""
    sites, repeats = 40, 25
    z = randn(0, sites, 2)
    targets = pendulum(z) + z.cos() + 0.3 * randn(1, repeats, sites, 2)  # noisy Z_T given Z_C
    c = torch.zeros(sites, 2, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([c], max_iter=100, tolerance_grad=1e-14, tolerance_change=0.0)

    def closure() -> Tensor:
        solver.zero_grad()
        model = Transition(Function(pendulum), Function(lambda _: c), dynamics="discrete")
        loss = one_step_loss(model(z).expand_as(targets), targets) + penalty * correction_penalty(c)
        loss.backward()
        return loss

    solver.step(closure)
    discrepancy = targets.mean(0) - pendulum(z)  # m - F
    torch.testing.assert_close(c.detach(), discrepancy / (1 + penalty), atol=1e-8, rtol=0)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    L=st.sampled_from([0.0, 0.5, 1.0, 1.3]),
    delta=st.floats(0.0, 0.5),
    e0=st.floats(0.0, 1.0),
)
def test_rollout_errors_respect_the_bound(seed: int, L: float, delta: float, e0: float) -> None:
    """Proposition 5 for random L-Lipschitz maps H and truths T within delta of them."""
    a, b = (torch.linalg.qr(randn(seed + k, 3, 3)).Q for k in range(2))

    def H(z: Tensor) -> Tensor:  # orthogonal o sin o orthogonal is 1-Lipschitz
        return L * ((z @ a).sin() @ b)

    def T(z: Tensor) -> Tensor:
        bump = (7.0 * z).cos()
        return H(z) + delta * bump / bump.norm(dim=-1, keepdim=True).clamp(min=1.0)

    z = randn(seed + 2, 16, 3)
    start = randn(seed + 3, 16, 3)
    true, free = [z], [z + e0 * start / start.norm(dim=-1, keepdim=True)]
    for _ in range(12):
        true.append(T(true[-1]))
        free.append(H(free[-1]))
    truth, rollout = torch.stack(true, 1), torch.stack(free, 1)
    error = (rollout - truth).norm(dim=-1).amax(0).numpy()
    assert (error <= rollout_bound(L, delta, 12, e0) * (1 + 1e-9) + 1e-9).all()


@pytest.mark.parametrize("L", [0.5, 1.0, 1.3])
def test_the_bound_is_attained_by_a_linear_map_with_a_constant_error(L: float) -> None:
    delta, e0, horizon = 0.1, 0.2, 15
    T = Transition(Function(lambda z: L * z + delta), dynamics="discrete")
    H = Transition(Function(lambda z: L * z), dynamics="discrete")
    start = torch.ones(1, 1, dtype=torch.float64)
    error = T.rollout(start, steps=horizon) - H.rollout(start - e0, steps=horizon)
    bound = rollout_bound(L, delta, horizon, e0)
    np.testing.assert_allclose(error[0, :, 0].numpy(), bound, rtol=1e-12)
    h = np.arange(horizon + 1)
    growth = h if L == 1 else (L**h - 1) / (L - 1)
    np.testing.assert_allclose(bound, L**h * e0 + delta * growth, rtol=1e-12)
