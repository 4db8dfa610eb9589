"""Lags: the past of a signal as the part of its state that was not measured."""

import numpy as np
import pytest
from scipy.linalg import expm

import sjepa
from sjepa import Discrete, Law, Smooth, Weak
from sjepa.data import Trajectories, with_lags
from sjepa.errors import ConfigError, DataError
from tests.command import run


STEP = 0.1


def driven(n=300, seed=0):
    """Positions of an oscillator under held pushes, by the matrix exponential; and the exact map."""
    a = np.array([[0.0, 1.0, 0.0], [-2.0, -0.3, 1.0], [0.0, 0.0, 0.0]])
    move = expm(STEP * a)
    u = np.repeat(np.random.default_rng(seed).normal(size=n // 10), 10)
    z = [np.array([1.0, 0.0])]
    for push in u[:-1]:
        z.append(move[:2] @ [*z[-1], push])
    phi, gain = move[:2, :2], move[:2, 2]
    # Cayley and Hamilton: q[t+1] = tr q[t] - det q[t-1] + inputs.
    trace, det = np.trace(phi), np.linalg.det(phi)
    exact = {
        "q": trace,
        "q_lag1": -det,
        "u1": gain[0],
        "u1_lag1": phi[0, 1] * gain[1] - phi[1, 1] * gain[0],
    }
    return np.array(z)[:, :1], u, exact


def test_a_driven_oscillator_from_its_position_alone_is_the_exact_map():
    q, u, exact = driven()
    front = sjepa.discover(
        q[:150], STEP, u=u[:150], feature_names=["q"], derivatives=sjepa.Discrete(lags=1)
    )
    law = front.best()
    assert front.form == "discrete" and law.outputs == ("q", "q_lag1", "u1_lag1")
    found = {str(term): c for c, term in law.terms[0]}
    assert found == pytest.approx(exact, rel=1e-6)
    assert law.lines()[1:] == ["q_lag1[t+1] = q", "u1_lag1[t+1] = u1"]
    assert law.score(q[150:], STEP, u[150:]) > 0.999999
    path = law.simulate([q[1, 0], q[0, 0], u[0]], STEP * np.arange(1, 100), u[1:100]).z
    np.testing.assert_allclose(path[:, 0], q[1:100, 0], atol=1e-8)


def test_a_map_of_second_order_in_time():
    x = [0.1, 0.1]
    for _ in range(300):
        x.append(1 - 1.4 * x[-1] ** 2 + 0.3 * x[-2])
    law = sjepa.discover(
        np.array(x), 1.0, feature_names=["x"], derivatives=sjepa.Discrete(lags=1)
    ).best()
    assert law.round(6) == Law.from_string(
        ["1 - 1.4*x**2 + 0.3*x_lag1", "x"], ["x", "x_lag1"], ["x", "x_lag1"], "discrete"
    )


def test_delay_coordinates_of_a_wave_are_a_vector_field():
    t = np.arange(300) * 0.05
    front = sjepa.discover(
        np.cos(2 * t),
        t,
        feature_names=["x"],
        library=["x", "x_lag1"],
        derivatives=sjepa.Smooth(lags=1),
    )
    # x(t - s) = x cos 2s - (x'/2) sin 2s, solved for x'.
    rate = {str(term): c for c, term in front.best().terms[0]}
    assert rate == pytest.approx({"x": 2 / np.tan(0.1), "x_lag1": -2 / np.sin(0.1)}, rel=1e-3)


def test_rows_hold_the_values_and_actions_before():
    data = Trajectories(
        [np.arange(5.0)[:, None], np.arange(10.0, 14)[:, None]],
        1.0,
        [np.arange(5.0) * 2, np.arange(4.0)],
    )
    lagged = with_lags(data, 2)
    assert lagged.names == ("x1", "x1_lag1", "x1_lag2", "u1_lag1", "u1_lag2")
    assert lagged.x[0].tolist() == [[2, 1, 0, 2, 0], [3, 2, 1, 4, 2], [4, 3, 2, 6, 4]]
    assert lagged.x[1].tolist() == [[12, 11, 10, 1, 0], [13, 12, 11, 2, 1]]
    assert lagged.u[0].ravel().tolist() == [4, 6, 8] and lagged.t[0].tolist() == [2, 3, 4]


def test_what_lags_cannot_do_is_said():
    q, u, _ = driven(60)
    for options, error, why in (
        ({"derivatives": {"name": "discrete", "lags": -1}}, ConfigError, "lags"),
        ({"derivatives": Smooth(lags=1), "order": 2}, ConfigError, "not both"),
        ({"derivatives": Weak(lags=1), "u": u}, ConfigError, "need a map"),
        (
            {"derivatives": Weak(lags=1), "x": Trajectories(q, STEP, u), "t": None},
            ConfigError,
            "need a map",
        ),
        ({"derivatives": Discrete(lags=70)}, DataError, "do not fit"),
        (
            {"derivatives": Discrete(lags=1), "t": np.cumsum(1 + np.arange(60))},
            DataError,
            "equal steps",
        ),
    ):
        with pytest.raises(error, match=why):
            sjepa.discover(**{"x": q, "t": STEP, **options})


def test_lags_on_the_command_line(tmp_path):
    q, u, exact = driven(120)
    data, out = tmp_path / "data.csv", tmp_path / "law.json"
    t = STEP * np.arange(len(q))
    np.savetxt(data, np.column_stack([t, q, u]), delimiter=",", header="t,q,push", comments="")
    done = run(
        "discover",
        data,
        "--time",
        "t",
        "--actions",
        "push",
        "--derivatives",
        "discrete",
        "--set",
        "derivatives.lags=1",
        "--out",
        out,
    )
    assert "push_lag1[t+1] = push" in done.stdout, done.stderr
    found = {str(term): c for c, term in Law.load(out).terms[0]}
    assert found["q_lag1"] == pytest.approx(exact["q_lag1"], rel=1e-5)
    assert (
        "kept alone"
        in run(
            "discover",
            data,
            "--time",
            "t",
            "--derivatives",
            "discrete",
            "--set",
            "derivatives.lags=1",
            "--out",
            tmp_path / "run",
        ).stderr
    )


@pytest.mark.parametrize("window", [2, 5.5, "20", True])
def test_a_window_is_a_number_of_observations(window: object) -> None:
    t = np.arange(0, 5, 0.1)
    with pytest.raises(ConfigError, match="window"):
        sjepa.discover(np.cos(t), t, derivatives=sjepa.Weak(window=window))  # type: ignore[arg-type]
