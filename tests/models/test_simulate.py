from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sjepa.errors import DataError, LawError
from sjepa.models import Simulator, Transition
from sjepa.symbolic import Front, Law


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


@pytest.mark.parametrize("smooth", [True, False])
def test_paths_read_sampled_actions_as_the_law_was_found_to(smooth: bool) -> None:
    """Torques are sampled eight times a period: held they lag half a step behind smooth ones."""
    t = np.arange(0, 30, 0.3)
    values = np.sin(2.5 * t) if smooth else np.repeat([1.0, -0.5, 0.3, -1.2], 25)

    def torque(s: float) -> float:
        return float(np.sin(2.5 * s)) if smooth else float(values[min(int(s / 0.3 + 1e-9), 99)])

    exact = solve_ivp(
        lambda s, z: [z[1], -z[0] - 0.3 * z[1] + torque(s)],
        (0, t[-1]), [1.0, 0.0], t_eval=t, rtol=1e-10, atol=1e-10, max_step=0.05,
    ).y.T  # fmt: skip
    law = Law.from_string(["p", "-q - 0.3*p + u"], ["q", "p", "u"], ["q", "p"])
    front = replace(Front.of([]), form="weak" if smooth else "zoh")
    model = SimpleNamespace(law_=law, front_=front, transition_=Transition.of(law))
    paths = {
        holds: Simulator(source).simulate([1.0, 0.0], t, values).z
        for holds, source in ((not smooth, model), (True, law))
    }
    errors = {holds: np.abs(path - exact).max() for holds, path in paths.items()}
    # A straight line is off by at most (2.5 * 0.3)^2 / 8 of the torque between its samples.
    assert errors[not smooth] < (0.1 if smooth else 0.01)
    assert errors[True] > 0.15 if smooth else errors[True] < 0.01
