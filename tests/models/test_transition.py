"""The transition: parts, ways and rollouts from many starts."""

import copy
import pickle
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from sjepa.errors import ConfigError, DataError
from sjepa.models import Correction, NeuralField, Transition


class Law(nn.Module):
    """A stand-in for an emitted law: d/dt (q, p) = (p, -k sin q + u)."""

    def __init__(self, actions: int = 0) -> None:
        super().__init__()
        self.k = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
        self.actions = actions

    def forward(self, inputs: Tensor) -> Tensor:
        q, p, *u = inputs.unbind(-1)
        return torch.stack([p, -self.k * q.sin() + (u[0] if self.actions else 0.0)], dim=-1)


class Acceleration(nn.Module):
    """A stand-in for a second-order law: only d²q/dt² is given."""

    def forward(self, inputs: Tensor) -> Tensor:
        return -inputs[..., :1].sin()


def transition(kind: str = "continuous", integrator: str = "euler", actions: int = 0) -> Transition:
    torch.manual_seed(0)
    return Transition(
        Law(actions),
        Correction(2, action_dim=actions).double(),
        dynamics=kind,
        integrator=integrator,
    )


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_the_euler_step_is_the_paper_s_equation() -> None:
    model, z, dt = transition(), randn(7, 2), randn(7, 1).abs()
    law, correction = model.parts(z)
    torch.testing.assert_close(model(z, dt), z + dt * (law + correction))
    torch.testing.assert_close(model.field(z), law + correction)


def test_discrete_dynamics_predict_the_next_state_itself() -> None:
    model, z = transition("discrete"), randn(7, 2)
    law, correction = model.parts(z)
    torch.testing.assert_close(model(z), law + correction)


@pytest.mark.parametrize(
    ("kind", "integrator"),
    [("discrete", "euler"), *product(["continuous"], ["euler", "midpoint", "rk4"])],
)
def test_a_rollout_equals_a_naive_loop_over_windows(kind: str, integrator: str) -> None:
    model = transition(kind, integrator, actions=1)
    z, dt, u = randn(3, 12, 2), randn(3, 11).abs() / 10, randn(3, 11, 1)
    k = 4
    fast = model.rollout(z[:, : 12 - k], dt.unfold(1, k, 1), u.unfold(1, k, 1).mT)
    assert fast.shape == (3, 8, k + 1, 2)
    for b, start in product(range(3), range(8)):
        state = z[b, start]
        for h in range(k + 1):
            torch.testing.assert_close(fast[b, start, h], state)
            if h < k:
                state = model(state, dt[b, start + h].item(), u[b, start + h])


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize("integrator", ["euler", "midpoint", "rk4"])
def test_corrections_along_a_rollout_are_raw_and_change_nothing(kind: str, integrator: str) -> None:
    model = transition(kind, integrator, actions=1)
    z0, dt, u = randn(5, 2), randn(5, 6).abs() / 10, randn(5, 6, 1)
    states, corrections = model.rollout_with_corrections(z0, dt, u)
    torch.testing.assert_close(states, model.rollout(z0, dt, u))
    torch.testing.assert_close(corrections, model.parts(states[:, :-1], u)[1])


def test_an_absent_part_is_zero() -> None:
    z = randn(4, 2)
    symbolic = Transition(Law())
    assert torch.equal(symbolic.parts(z)[1], torch.zeros_like(z))
    assert torch.equal(symbolic.field(z), symbolic.parts(z)[0])
    neural = Transition(correction=NeuralField(2).double())
    assert torch.equal(neural.parts(z)[0], torch.zeros_like(z))
    assert torch.equal(neural.field(z), neural.parts(z)[1])


@pytest.mark.parametrize("integrator", ["euler", "midpoint", "rk4", "verlet"])
def test_a_second_order_law_moves_like_its_first_order_form(integrator: str) -> None:
    second = Transition(Acceleration(), order=2, integrator=integrator)
    z0, dt = randn(6, 2), torch.full((6, 50), 0.01, dtype=torch.float64)
    reference = Transition(Law(), integrator="rk4").rollout(z0, dt)
    # Half a time unit in steps of 0.01: 1 % for first order, far below for the others.
    tolerance = 2e-2 if integrator == "euler" else 1e-4
    torch.testing.assert_close(second.rollout(z0, dt), reference, atol=tolerance, rtol=0)
    states, corrections = second.rollout_with_corrections(z0, dt)
    torch.testing.assert_close(states, second.rollout(z0, dt))
    assert corrections.shape == (6, 50, 1)


def test_a_second_order_law_takes_a_correction_of_its_acceleration() -> None:
    correction = Correction(2, output_dim=1).double()
    model = Transition(Acceleration(), correction, order=2, integrator="verlet")
    z0, dt = randn(6, 2), torch.full((6, 5), 0.1, dtype=torch.float64)
    states, corrections = model.rollout_with_corrections(z0, dt)
    torch.testing.assert_close(states, model.rollout(z0, dt))
    torch.testing.assert_close(corrections, correction(states[:, :-1]))


def test_side_information_reaches_both_parts() -> None:
    model = transition(actions=1)
    z, u = randn(4, 2), randn(4, 1)
    for before, after in zip(model.parts(z, u), model.parts(z, u + 1.0), strict=True):
        assert (before != after).any(dim=-1).all()


def test_gradients_of_a_rollout_match_finite_differences() -> None:
    model = transition(integrator="rk4")
    z0 = randn(3, 2).requires_grad_()
    dt = torch.full((3, 5), 0.1, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: model.rollout(z, dt), (z0,))


def test_a_transition_copies_and_pickles() -> None:
    model, z = transition(integrator="rk4"), randn(4, 2)
    clone = copy.deepcopy(model)
    assert torch.equal(clone(z, 0.1), model(z, 0.1))
    model.symbolic.k.data.add_(1.0)
    assert not torch.equal(clone(z, 0.1), model(z, 0.1))
    assert torch.equal(pickle.loads(pickle.dumps(model))(z, 0.1), model(z, 0.1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Transition(), ConfigError, "symbolic law, a correction, or both"),
        (lambda: Transition(Law(), dynamics="flow"), ConfigError, "'flow'"),
        (lambda: Transition(Law(), integrator="rk5"), ConfigError, "Did you mean 'rk4'"),
        (lambda: Transition(Law(), dynamics="discrete", order=2), ConfigError, "order"),
        (lambda: transition()(randn(2, 2)), DataError, "step size"),
        (lambda: transition()(randn(2, 2), randn(2)), DataError, r"dt\[\.\.\., None\]"),
        (lambda: transition().rollout(randn(2, 2), 0.1), DataError, "pass steps"),
        (lambda: transition().rollout(randn(2, 2), randn(2, 3), steps=4), DataError, "'dt': 3"),
        (lambda: transition().rollout(randn(2, 2), 0.1, steps=0), DataError, "at least one"),
    ],
)
def test_a_wrong_call_is_refused_with_the_remedy(call, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("field", "bound"), [(NeuralField, 3.0), (Correction, 1.0)])
def test_neural_fields_are_bounded_and_can_start_at_zero(field: type, bound: float) -> None:
    inputs = 100.0 * torch.randn(3, 50, 4)
    out = field(3, action_dim=1)(inputs)
    assert out.shape == (3, 50, 3)
    assert out.abs().max() <= bound
    torch.nn.init.constant_((saturated := field(3, action_dim=1)).net[-1].bias, 50.0)
    assert saturated(inputs).max().item() == pytest.approx(bound)
    started = field(3, action_dim=1, zero_init=True)
    assert not started(inputs).any()
    started(inputs).sum().backward()
    assert started.net[-1].bias.grad.abs().min() > 0  # and it can leave zero


def test_the_paper_s_networks_have_the_paper_s_sizes() -> None:
    def count(m: nn.Module) -> int:
        return sum(p.numel() for p in m.parameters())

    assert count(NeuralField(2)) == (2 + 1) * 96 + (96 + 1) * 96 + (96 + 1) * 2
    assert count(Correction(2)) == (2 + 1) * 48 + (48 + 1) * 48 + (48 + 1) * 2


def test_a_bound_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="positive"):
        Correction(2, bound=0.0)
