"""Time as an input of a law: drives of known and unknown frequency, from data to simulation."""

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Law
from sjepa.errors import ConfigError, DataError
from sjepa.symbolic.term_templates import TermTemplate, one_wave
from tests.command import run as command


T = np.arange(0, 40, 0.08)
NAMES = ["q", "p"]


def driven(
    start: tuple[float, float] = (1.0, 0.0), phase: float = 0.0, noise: float = 0.0,
    t: np.ndarray = T,
) -> np.ndarray:  # fmt: skip
    def field(s: float, z: np.ndarray) -> list[float]:
        return [z[1], -2 * z[0] - 0.3 * z[1] + np.sin(1.7 * s + phase)]

    x = solve_ivp(field, (t[0], t[-1]), start, t_eval=t, rtol=1e-10, atol=1e-12).y.T
    return np.asarray(x + noise * x.std(axis=0) * np.random.default_rng(1).normal(size=x.shape))


def agrees(law: Law, phase: float = 0.0, within: float = 1e-4) -> bool:
    """Whether the law's values are those of the true one, over the range of the data."""
    rng = np.random.default_rng(0)
    q, p, t = rng.uniform([-1, -1, 0], [1, 1, 40], (200, 3)).T
    true = np.stack([p, -2 * q - 0.3 * p + np.sin(1.7 * t + phase)], axis=1)
    return bool((np.abs(law(np.stack([q, p, t], axis=1)) - true) < within).all())


@pytest.mark.parametrize("noise, within", [(0.0, 1e-4), (0.01, 0.05)])
@pytest.mark.parametrize(
    "terms, phase",
    [(["sin(1.7*t)"], 0.0), (["sin(w*t)"], 0.0), (["sin(w*t)", "cos(w*t)"], 0.8),
     (["sin(w*t + a)"], 0.8)],
)  # fmt: skip
def test_a_drive_by_the_clock_is_found(
    terms: list[str], phase: float, noise: float, within: float
) -> None:
    front = sjepa.discover(
        driven(phase=phase, noise=noise), T, feature_names=NAMES, library=["q", "p", *terms]
    )
    assert front.verdict is not None and front.verdict.adequate
    assert front.best().inputs == ("q", "p", "t")
    assert agrees(front.best(), phase, within)
    assert front.form != "zoh"  # no input is held: there is only the time


def test_a_sine_and_a_cosine_with_one_letter_are_one_wave() -> None:
    names = ["x", "t"]
    read = [TermTemplate.read(s, names) for s in ("sin(w*t)", "x*cos(w*t)", "cos(w*t)", "cos(v*t)")]
    wave, other, third = one_wave(read)
    np.testing.assert_allclose(
        Law([wave.expr_at([1.7, 0.8])], names, ["y"])(np.array([[0.0, 0.0], [5.0, 2.0]]))[:, 0],
        np.sin([0.8, 1.7 * 2 + 0.8]),
    )
    assert (other, third) == (read[1], read[3])
    states = [TermTemplate.read(s, ["x"]) for s in ("sin(w*x)", "cos(w*x)")]
    assert one_wave(states) == states


def test_fast_drives_over_many_periods_and_several_trajectories() -> None:
    t = np.arange(0, 120, 0.12)
    x = [driven(start, 0.3, 0.01, t) for start in ((1.0, 0.0), (-0.5, 1.0))]
    front = sjepa.discover(x, [t, t], feature_names=NAMES, library=["q", "p", "sin(w*t + a)"])
    assert agrees(front.best(), 0.3, 0.05)


def test_second_order_maps_grammars_and_given_derivatives() -> None:
    x = driven()
    second = sjepa.discover(
        x[:, :1], T, order=2, feature_names=["q"], library=["q", "q_dot", "sin(w*t)"]
    ).best()
    assert second.inputs == ("q", "q_dot", "t") and second.lines(2)[0].endswith("sin(1.7*t)")
    still = Law.from_string(["0.9*x + 0.3*sin(0.7*t)"], ["x", "t"], ["x"], dynamics="discrete")
    steps = np.arange(60.0)
    path = still.simulate([1.0], steps).z
    found = sjepa.discover(
        path, steps, derivatives="discrete", feature_names=["x"], library=["x", "sin(0.7*t)"]
    ).best()
    assert found.equivalent(still)
    slopes = np.stack([x[:, 1], -2 * x[:, 0] - 0.3 * x[:, 1] + np.sin(1.7 * T)], axis=1)
    library = sjepa.Library.from_terms(["q", "p", "sin(1.7*t)"], [*NAMES, "t"])
    given = sjepa.discover(x, T, x_dot=slopes, feature_names=NAMES, library=library).best()
    assert agrees(given, within=1e-9)


def test_time_goes_on_while_other_inputs_are_held() -> None:
    law = Law.from_string(["p", "-2*q - 0.3*p + sin(1.7*t) + u1"], ["q", "p", "u1", "t"], NAMES)
    t = np.arange(5.0, 25.0, 0.1)
    u = np.sign(np.sin(0.9 * t))[:, None]
    x = [np.array([1.0, 0.0])]
    for start, end, push in zip(t[:-1], t[1:], u[:, 0], strict=False):
        step = solve_ivp(
            lambda s, z, push=push: [z[1], -2 * z[0] - 0.3 * z[1] + np.sin(1.7 * s) + push],
            (start, end), x[-1], rtol=1e-10, atol=1e-12,
        )  # fmt: skip
        x.append(step.y[:, -1])
    assert np.abs(law.simulate([1.0, 0.0], t, u).z - np.array(x)).max() < 1e-6
    front = sjepa.discover(
        np.array(x), t, u=u, feature_names=NAMES, library=["q", "p", "u1", "sin(w*t)"]
    )
    assert front.form == "zoh" and front.best().inputs == ("q", "p", "u1", "t")
    grid = np.random.default_rng(2).uniform(-1, 1, (50, 4))
    grid[:, 3] += 10
    assert np.abs(front.best()(grid) - law(grid)).max() < 0.01


def test_what_a_law_can_do_takes_the_times_it_is_given() -> None:
    x = driven()
    front = sjepa.discover(x, T, feature_names=NAMES, library=["q", "p", "sin(1.7*t)"])
    law = front.best()
    assert law.score(x, T) > 1 - 1e-8
    later = np.linspace(100, 110, 30)
    assert np.abs(law.simulate([1.0, 0.0], later).z - driven(t=later)).max() < 1e-4
    assert np.abs(law.simulate([1.0, 0.0], T).z - x).max() < 1e-4
    rough = Law.from_string(["p", "-1.9*q - 0.25*p + 0.9*sin(1.65*t)"], [*NAMES, "t"], NAMES)
    assert agrees(rough.fit(x, T), within=0.02)
    validated = front.validate(driven((0.2, 0.9)), T)
    assert validated.verdict is not None and validated.verdict.adequate
    tides = sjepa.discover(x, T, feature_names=NAMES, library=["q", "p", "sin(t)", "cos(t)"])
    assert tides.update(driven((0.2, 0.9)), T).best().inputs == ("q", "p", "t")


def test_a_column_called_t_is_a_column() -> None:
    t = np.arange(0, 10, 0.05)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    law = sjepa.discover(x, t, feature_names=["t", "v"], library=["t", "v"]).best()
    assert law.inputs == ("t", "v") and law.lines(3) == ["t' = v", "v' = -t"]


def test_what_time_cannot_be_is_said_in_one_line() -> None:
    x = driven()
    with pytest.raises(ConfigError, match="give no time as an input"):
        sjepa.discover(iter([sjepa.Trajectories(x, T, names=NAMES)]), library=["q", "sin(t)"])
    law = Law.from_string(["p", "-q + sin(t) + u"], ["q", "p", "t", "u"], NAMES)
    with pytest.raises(DataError, match="The law has the actions u: give u"):
        law.simulate([1.0, 0.0], T)


def test_a_drive_goes_from_the_command_line_to_a_report(tmp_path: Path) -> None:
    x = driven(noise=0.01)
    rows = "\n".join(f"{s:.2f},{q:.5f},{p:.5f}" for s, (q, p) in zip(T, x, strict=True))
    data, run = tmp_path / "drive.csv", tmp_path / "run"
    data.write_text(f"time,q,p\n{rows}\n")
    commands: list[list[object]] = [
        ["discover", data, "--library", "q,p,sin(w*t)", "--out", run],
        ["export", run, "--to", "c"],
        ["simulate", run, "--start", "1,0", "--times", "0:4:1"],
        ["simulate", run, "--data", data],
        ["report", run, "--out", tmp_path / "report.html"],
    ]
    for words in commands:
        done = command(*words)
        assert done.returncode == 0, done.stderr
    model = sjepa.load(tmp_path / "run")
    slopes = model.predict(x, t=T)
    assert np.abs(slopes[:, 1] - (-2 * x[:, 0] - 0.3 * x[:, 1] + np.sin(1.7 * T))).max() < 0.05
    with pytest.raises(ConfigError, match="give the times t"):
        model.predict(x)
