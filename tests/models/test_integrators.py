"""Fixed-step integrators keep their promised order; simulation always comes back."""

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.integrate import solve_ivp
from torch import Tensor

from sjepa.errors import ConfigError, DataError
from sjepa.models import INTEGRATORS, Transition, integrate


ORDERS = {"euler": 1, "midpoint": 2, "rk4": 4, "verlet": 2}


def damped_pendulum(inputs: Tensor) -> Tensor:
    q, v, drag = inputs.unbind(-1)
    return torch.stack([v, -q.sin() - drag * v], dim=-1)


def fixed_steps(name: str, steps: int, drag: float = 0.3) -> Tensor:
    z = torch.tensor([[1.0, 0.5]], dtype=torch.float64)
    u = torch.tensor([[drag]], dtype=torch.float64)
    for _ in range(steps):
        z = INTEGRATORS[name](damped_pendulum, z, 1.0 / steps, u)
    return z[0]


def test_every_integrator_has_a_promised_order() -> None:
    assert ORDERS.keys() == INTEGRATORS.keys()


@pytest.mark.parametrize("name", ORDERS)
def test_halving_the_step_divides_the_error_by_two_to_the_order(name: str) -> None:
    exact = solve_ivp(
        lambda t, z: [z[1], -math.sin(z[0]) - 0.3 * z[1]],
        (0, 1),
        [1.0, 0.5],
        rtol=1e-13,
        atol=1e-14,
    ).y[:, -1]
    errors = [np.linalg.norm(fixed_steps(name, n).numpy() - exact) for n in (16, 32)]
    # The next term of the expansion is smaller by a factor of the step, 1/16.
    assert math.log2(errors[0] / errors[1]) == pytest.approx(ORDERS[name], abs=0.2)


@pytest.mark.parametrize("name", ORDERS)
def test_each_sample_takes_its_own_step(name: str) -> None:
    z = torch.randn(5, 2, dtype=torch.float64)
    dt, u = torch.rand(5, 1, dtype=torch.float64), torch.rand(5, 1, dtype=torch.float64)
    together = INTEGRATORS[name](damped_pendulum, z, dt, u)
    for i in range(5):
        alone = INTEGRATORS[name](damped_pendulum, z[i], dt[i].item(), u[i])
        torch.testing.assert_close(together[i], alone)


@pytest.mark.parametrize("name", ORDERS)
def test_a_slope_that_is_known_already_saves_an_evaluation_and_nothing_else(name: str) -> None:
    z, u = torch.randn(3, 2, dtype=torch.float64), torch.zeros(3, 1, dtype=torch.float64)
    calls = []

    def counted(inputs: Tensor) -> Tensor:
        calls.append(1)
        return damped_pendulum(inputs)

    plain = INTEGRATORS[name](counted, z, 0.1, u)
    without = len(calls)
    slope = damped_pendulum(torch.cat([z, u], -1))
    assert torch.equal(INTEGRATORS[name](counted, z, 0.1, u, slope), plain)
    assert len(calls) - without == without - 1


def test_verlet_does_not_let_the_energy_drift() -> None:
    def oscillator(z: Tensor) -> Tensor:
        return torch.stack([z[..., 1], -z[..., 0]], dim=-1)

    energies = {}
    for name in ("verlet", "midpoint"):
        z = torch.tensor([1.0, 0.0], dtype=torch.float64)
        for _ in range(4000):
            z = INTEGRATORS[name](oscillator, z, 0.2)
        energies[name] = z.square().sum().item()
    # Verlet's error oscillates within dt²/4 of the true energy 1; midpoint gains dt⁴/4 a step.
    assert abs(energies["verlet"] - 1.0) <= 0.2**2 / 4 * 1.1
    assert energies["midpoint"] > 1.5


def test_verlet_needs_positions_and_velocities() -> None:
    with pytest.raises(ConfigError, match="3 coordinates"):
        INTEGRATORS["verlet"](lambda z: z, torch.zeros(3), 0.1)
    with pytest.raises(ConfigError, match="order=2"):
        Transition(torch.nn.Identity(), integrator="verlet")


@settings(deadline=None, max_examples=25)
@given(rate=st.floats(-2.0, 1.0), start=st.floats(-3.0, 3.0))
def test_simulation_follows_exponentials(rate: float, start: float) -> None:
    t = np.linspace(0.5, 3.0, 7)
    result = integrate(lambda _, z: rate * z, np.array([start]), t)
    assert result.status == "ok" and result.reached == 7
    exact = start * np.exp(rate * (t - 0.5))
    # Tolerances of the solver, times the growth that carries an early error to the end.
    np.testing.assert_allclose(result.z[:, 0], exact, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["DOP853", "RK45", "LSODA", "Radau", "BDF"])
def test_a_law_that_blows_up_ends_in_nan_with_a_flag(method: str) -> None:
    t = np.linspace(0.0, 3.0, 31)
    result = integrate(lambda _, z: z**2, np.array([1.0]), t, method=method)  # 1 / (1 - t)
    assert result.status == "diverged"
    assert 9 <= result.reached <= 10  # times below 1
    np.testing.assert_allclose(
        result.z[: result.reached, 0], 1 / (1 - t[: result.reached]), rtol=1e-4
    )
    assert np.isnan(result.z[result.reached :]).all()


@pytest.mark.parametrize("method", ["DOP853", "LSODA", "Radau"])
def test_a_law_that_leaves_its_domain_ends_in_nan_with_a_flag(method: str) -> None:
    def field(_: float, z: np.ndarray) -> np.ndarray:
        return -np.sqrt(z) - 1.0  # reaches 0 and becomes NaN

    result = integrate(
        field, np.array([1.0]), np.linspace(0, 5, 11), method=method, max_evaluations=20_000
    )
    assert result.status in ("diverged", "budget")
    assert np.isnan(result.z[-1]).all() and np.isfinite(result.z[0]).all()
    assert result.evaluations <= 20_001


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_a_start_at_the_edge_of_the_domain_is_no_error_of_the_solver(method: str) -> None:
    """The Jacobian of an implicit solver looks beyond the edge, and is NaN there."""
    result = integrate(
        lambda _, z: -np.sqrt(z) - 1.0, np.zeros(1), np.linspace(0, 1, 3), method=method
    )
    assert result.status == "diverged" and result.reached == 1
    assert np.isnan(result.z[1:]).all() and result.z[0] == 0


def test_an_error_of_the_law_itself_is_not_taken_for_divergence() -> None:
    def broken(_: float, z: np.ndarray) -> np.ndarray:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        integrate(broken, np.ones(1), np.linspace(0, 1, 3), method="Radau")


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_evaluations_and_seconds_are_capped(method: str) -> None:
    def stiff(_: float, z: np.ndarray) -> np.ndarray:
        return -1e7 * (z - np.cos(1e6 * z))

    few = integrate(
        stiff, np.array([1.0]), np.linspace(0, 9, 5), method=method, max_evaluations=500
    )
    assert few.status == "budget" and few.evaluations == 501

    calls = []

    def slow(t: float, z: np.ndarray) -> np.ndarray:
        calls.append(t)
        time.sleep(0.01)  # or longer: never more than 20 calls in 0.2 s
        return stiff(t, z)

    late = integrate(slow, np.array([1.0]), np.linspace(0, 9, 5), method=method, max_seconds=0.2)
    assert late.status == "budget" and len(calls) <= 21


def test_a_single_time_is_the_start() -> None:
    result = integrate(lambda _, z: z, np.ones(2), np.array([1.0]))
    assert result.status == "ok" and result.z.tolist() == [[1.0, 1.0]]


def test_simulation_refuses_what_it_cannot_start_from() -> None:
    with pytest.raises(DataError, match="increasing"):
        integrate(lambda _, z: z, np.ones(1), np.array([0.0, 0.0]))
    with pytest.raises(DataError, match="finite"):
        integrate(lambda _, z: z, np.array([np.nan]), np.array([0.0, 1.0]))
    with pytest.raises(ConfigError, match="RK45"):
        integrate(lambda _, z: z, np.ones(1), np.array([0.0, 1.0]), method="RK46")
