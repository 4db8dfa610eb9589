import numpy as np
import pytest

from sjepa.errors import DataError, LawError
from sjepa.models import Simulator
from sjepa.symbolic import Law


T = np.linspace(0, 4, 201)


def test_a_second_order_law_moves_positions_and_velocities() -> None:
    # q'' = -1.69 q from (1, 0) is cos 1.3 t.
    simulator = Simulator(Law.from_string("-1.69*q", ["q", "v"], ["v"]))
    assert simulator.order == 2 and simulator.names == ("q", "v")
    path = simulator.simulate([1.0, 0.0], T).z
    exact = np.stack([np.cos(1.3 * T), -1.3 * np.sin(1.3 * T)], axis=1)
    np.testing.assert_allclose(path, exact, atol=1e-7)
    # Central differences are exact to step² / 6 times the third derivative (2.2); one-sided
    # ones at the ends to step / 2 times the second (1.7).
    seen = simulator.states(exact[:, :1], T)
    np.testing.assert_allclose(seen[1:-1], exact[1:-1], atol=2e-4)
    np.testing.assert_allclose(seen, exact, atol=0.02)


def test_a_map_makes_one_step_a_time() -> None:
    simulator = Simulator(Law.from_string("0.5*x + u", ["x", "u"], ["x"], "discrete"))
    u = np.array([1.0, 0.0, 2.0])[:, None]
    assert simulator.simulate([4.0], [0, 1, 2], u).z[:, 0].tolist() == [4.0, 3.0, 1.5]
    np.testing.assert_allclose(simulator.velocity(np.array([[4.0]]), u[:1]), [[-1.0]])
    doubling = Simulator(Law.from_string("10*x", ["x"], dynamics="discrete")).simulate(
        [1.0], range(20)
    )
    assert doubling.status == "diverged" and doubling.reached == 8
    assert np.isnan(doubling.z[8:]).all() and doubling.z[7] == 1e7


def test_actions_are_held_until_the_next_time() -> None:
    # x' = u with u = 1, 2, 3, ... held over steps of 1 adds up to 1, 3, 6, ...
    simulator = Simulator(Law.from_string("u", ["x", "u"], ["x"]))
    t = np.arange(5.0)
    path = simulator.simulate([0.0], t, np.arange(1.0, 6.0)[:, None]).z[:, 0]
    np.testing.assert_allclose(path, [0, 1, 3, 6, 10], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Simulator(Law.from_string("x*y", ["x", "y"], ["f"])), "must be its first inputs"),
        (lambda: Simulator(Law.from_string("x", ["x"])).simulate([1.0, 2.0], T), "give 1 numbers"),
        (lambda: Simulator(Law.from_string("x+u", ["x", "u"], ["x"])).simulate([1.0], T), "give u"),
        (
            lambda: Simulator(Law.from_string("x+u", ["x", "u"], ["x"])).simulate([1.0], T, T[:5]),
            "one row for each time",
        ),
        (
            lambda: Simulator(Law.from_string("x", ["x"])).states(np.ones((5, 2)), T[:5]),
            "not the state",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: object, message: str) -> None:
    with pytest.raises((LawError, DataError), match=message):
        call()  # type: ignore[operator]
