"""Laws for accelerations: in frozen coordinates, in C_dyn and in simulation."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sjepa import SJEPA, Library, Trajectories, induced_complexity
from sjepa.data import second_derivatives
from sjepa.data.derivatives import initial_state
from sjepa.data.rows import derivative_rows
from sjepa.errors import ConfigError, DataError


T = np.arange(0.0, 8.0, 0.04)


def swing(q: float, p: float) -> np.ndarray:
    """(angle, rate) of a pendulum, by an adaptive solver of high order."""
    path = solve_ivp(
        lambda t, s: [s[1], -np.sin(s[0])], (0, T[-1]), [q, p], "DOP853", T, rtol=1e-10, atol=1e-12
    )
    return path.y.T


STATES = [swing(q, 0.2 * k) for k, q in enumerate((0.4, 0.9, 1.4, 1.9, 2.2))]
ANGLES = [s[:, :1] for s in STATES]
LIBRARY = Library.from_terms(["1", "z1", "z1_dot", "sin(z1)", "z1**3"], ["z1", "z1_dot"])


def test_positions_alone_give_the_law_of_their_acceleration() -> None:
    model = SJEPA(1, encoder="identity", order=2, library=LIBRARY, backend="subset")
    model.fit(ANGLES, T)
    assert model.law_.lines(3) == ["z1'' = -sin(z1)"]
    assert model.law_.inputs == ("z1", "z1_dot")


def test_velocities_and_accelerations_are_those_of_the_solver() -> None:
    moved = second_derivatives(Trajectories(ANGLES, T))
    for found, true in zip(moved.trajectories.x, STATES, strict=True):
        np.testing.assert_allclose(found[3:-3], true[3:-3], atol=1e-4)
    inputs, targets = derivative_rows(moved)
    np.testing.assert_allclose(targets[:, 1], -np.sin(inputs[:, 0]), atol=1e-3)
    # Options are those of both derivatives.
    rough = second_derivatives(Trajectories(ANGLES, T), method="finite_difference", order=2)
    step = T[1] - T[0]
    central = (ANGLES[0][2:] - ANGLES[0][:-2]) / (2 * step)
    np.testing.assert_allclose(rough.trajectories.x[0][1:-1, 1:], central, atol=1e-12)
    again = (central[2:] - central[:-2]) / (2 * step)
    np.testing.assert_allclose(rough.x_dot[0][2:-2, 1:], again, atol=1e-10)


def test_simulation_starts_from_a_few_observations_and_follows_the_solver() -> None:
    model = SJEPA(1, encoder="identity", order=2, library=LIBRARY).fit(ANGLES, T)
    run = model.simulate(ANGLES[3][:5], T)
    assert run.status == "ok" and run.z.shape == (len(T), 2)
    # The velocity at the start comes from a parabola through five points, good to a few 1e-4.
    np.testing.assert_allclose(run.z, STATES[3], atol=0.02)
    assert model.score(ANGLES, T) > 0.999
    with pytest.raises(DataError, match="at least two successive observations"):
        model.simulate(ANGLES[3][:1], T)
    with pytest.raises(ConfigError, match="needs velocities"):
        model.predict(ANGLES[3])


def test_induced_complexity_of_second_order_is_that_of_the_law() -> None:
    data = Trajectories(ANGLES, T)
    found = induced_complexity(None, data, LIBRARY, 1e-3, order=2)
    assert found.value == 2.0 and found.certificate == "exact"  # sin costs two
    assert found.law is not None and found.law.lines(3) == ["z1'' = -sin(z1)"]
    # The linear oscillator, for who tolerates a quarter of the variance.
    assert found.at(0.3) == 1.0 < found.at(0.1)
    bent = induced_complexity(lambda x: np.sinh(x), data, LIBRARY, 1e-3, order=2)
    assert bent.value > found.value
    with pytest.raises(ConfigError, match="order must be 1 or 2"):
        induced_complexity(None, data, LIBRARY, order=3)


def test_a_library_of_positions_alone_is_enough() -> None:
    narrow = Library.from_terms(["z1", "sin(z1)"], ["z1"])
    model = SJEPA(1, encoder="identity", order=2, library=narrow, backend="subset").fit(ANGLES, T)
    assert model.law_.lines(3) == ["z1'' = -sin(z1)"]
    assert model.score(ANGLES, T) > 0.999


def test_the_initial_state_of_a_parabola_is_exact() -> None:
    t = np.array([1.0, 1.1, 1.3, 1.6])
    z = np.stack([2 + 3 * (t - 1) - 4 * (t - 1) ** 2, t], axis=1)
    np.testing.assert_allclose(initial_state(z, t), [2, 1, 3, 1], atol=1e-10)
    np.testing.assert_allclose(initial_state(z[:2, 1:], t), [1, 1], atol=1e-10)
