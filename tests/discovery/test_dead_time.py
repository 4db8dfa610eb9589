"""Dead time of control inputs: found in data, kept with the law, honored or refused by all else."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Law
from sjepa.control import ILQR, Controller, Task, linearize, make_env
from sjepa.errors import ConfigError, DataError, FormatError, LawError
from sjepa.models import Transition
from tests.command import run as command


STEP = 0.1
T = np.arange(400) * STEP
TERMS = ["1", "h", "sqrt(h)", "u1", "u1*h"]
LEVELS = np.random.default_rng(5).uniform(0.3, 1.5, 100)


def pump(s: float | np.ndarray, hold: int = 5) -> np.ndarray:
    """A voltage that is set every `hold` samples, also before the data begin."""
    return np.asarray(LEVELS[np.floor(np.asarray(s) / (hold * STEP) + 1e-9).astype(int) + 10])


def tank(delay: float, noise: float = 0.01, seed: int = 0) -> np.ndarray:
    """The level of a tank that a pump fills through a pipe."""
    run = solve_ivp(
        lambda s, z: 0.8 * pump(s - delay) - 0.5 * np.sqrt(np.maximum(z, 0)), (0, T[-1]), [1.5],
        t_eval=T, rtol=1e-8, atol=1e-10, max_step=STEP / 4,
    )  # fmt: skip
    x = run.y.T
    return np.asarray(x + noise * x.std() * np.random.default_rng(seed).normal(size=x.shape))


def found(x: np.ndarray, **options: object) -> sjepa.Front:
    options = {"constraints": ["delay(u1) <= 0.8"], "library": TERMS, **options}
    return sjepa.discover(x, T, u=pump(T), feature_names=["h"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("delay", [0.04, 0.27, 0.5])
def test_dead_time_is_found_off_the_grid_with_an_interval(delay: float) -> None:
    front = found(tank(delay))
    law, verdict = front.best(), front.verdict
    assert verdict is not None and verdict.adequate and verdict.law == law
    assert law.delays["u1"] == pytest.approx(delay, abs=0.2 * STEP)
    assert set(map(str, law.expressions[0].free_symbols)) == {"h", "u1"}
    np.testing.assert_allclose(sorted(law.coefficients), [-0.5, 0.8], rtol=0.05)
    low, high = (verdict.figures[f"delay(u1) {end}"] for end in ("lower", "upper"))
    assert low < law.delays["u1"] < high < low + STEP / 2
    assert any("late" in reason for reason in verdict.reasons)


def test_no_dead_time_is_invented() -> None:
    x = tank(0.0)
    front = found(x)
    assert not front.best().delays
    assert front.verdict is not None and front.verdict.figures["delay(u1)"] == 0
    assert front.best() == found(x, constraints=()).best()


def test_each_input_has_a_delay_of_its_own() -> None:
    t, rng = np.arange(300) * 0.1, np.random.default_rng(0)
    waves, phases = rng.uniform(0.3, 2.0, (2, 4)), rng.uniform(0, 6, (2, 4))

    def inputs(s: float | np.ndarray) -> np.ndarray:
        return np.sin(np.multiply.outer(s, waves) + phases).sum(axis=-1)  # type: ignore[no-any-return]

    def field(s: float, z: np.ndarray) -> list[float]:
        return [-z[0] + inputs(s - 0.35)[0] + 0.5 * inputs(s)[1]]

    x = solve_ivp(field, (0, t[-1]), [0.0], t_eval=t, rtol=1e-9, atol=1e-11, max_step=0.02).y.T
    x = x + 0.01 * x.std() * rng.normal(size=x.shape)
    front = sjepa.discover(
        x, t, u=inputs(t), feature_names=["x"], library=["x", "u1", "u2"],
        constraints=["delay(u1) <= 0.6", "delay(u2) <= 0.6"],
    )  # fmt: skip
    assert front.best().delays == {"u1": pytest.approx(0.35, abs=0.02)}


def test_a_known_delay_is_taken_as_it_is() -> None:
    front = found(tank(0.27), constraints=["delay(u1) = 0.27"])
    assert front.best().delays == {"u1": 0.27}
    np.testing.assert_allclose(sorted(front.best().coefficients), [-0.5, 0.8], rtol=0.05)


def test_a_found_law_is_scored_and_compared_with_its_delay() -> None:
    front = found(tank(0.27))
    law, other = front.best(), tank(0.27, seed=1)
    assert law.score(other, T, pump(T)) > 0.99
    assert law.with_delays({}).score(other, T, pump(T)) < law.score(other, T, pump(T))
    again = front.validate(other, T, pump(T), zoh=True)
    assert again.verdict is not None and again.verdict.adequate is not False
    with pytest.raises(LawError):  # sums over data have no delays
        front.update(other, T, pump(T))


@pytest.mark.parametrize(
    "constraints, options, error",
    [
        (["delay(v) <= 1"], {}, ConfigError),
        (["delay(h) <= 1"], {}, ConfigError),
        (["delay(u1) >= 1"], {}, ConfigError),
        (["delay(u1) <= -1"], {}, ConfigError),
        (["delay(u1) <= 1", "delay(u1) = 0.3"], {}, ConfigError),
        (["delay(u1) <= 0.5"], {"derivatives": "discrete"}, ConfigError),
        (["delay(u1) <= 0.5"], {"per_trajectory": "auto"}, ConfigError),
        (["delay(u1) <= 1000"], {}, DataError),
    ],
)
def test_dead_time_that_makes_no_sense_is_refused(
    constraints: list[str], options: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        found(tank(0.2), constraints=constraints, **options)


# A law that has it --------------------------------------------------------------------------------

LATE = Law.from_string(["v", "-q + 0.5*u1(t - 0.3) + u2"], ["q", "v", "u1", "u2"], ["q", "v"])


def test_a_law_with_dead_time_is_read_written_and_compared() -> None:
    assert LATE.delays == {"u1": 0.3}
    assert Law.from_string(LATE.lines(), LATE.inputs) == LATE == Law.from_json(LATE.to_json())
    assert LATE != LATE.with_delays({}) != LATE.with_delays({"u1": 0.4})
    for same in (LATE.round(3), LATE.canonical(), LATE.with_free_terms(), LATE.torch().law()):
        assert same.delays == LATE.delays
    assert LATE.with_delays({"u1": 0.0}).delays == {}


@pytest.mark.parametrize("delays", [{"q": 1.0}, {"w": 1.0}, {"u1": -1.0}, {"u1": float("nan")}, 3])
def test_delays_that_make_no_sense_are_refused(delays: object) -> None:
    with pytest.raises(LawError):
        LATE.with_delays(delays)  # type: ignore[arg-type]
    with pytest.raises(FormatError):
        Law.from_dict({**LATE.to_dict(), "delays": delays})


def test_one_input_has_one_delay_and_a_map_has_none() -> None:
    with pytest.raises(LawError):
        Law.from_string("-x + u(t - 0.3) + x*u(t - 0.4)", ["x", "u"], ["x"])
    with pytest.raises(LawError):
        Law.from_string(["0.5*x + u(t - 1)"], ["x", "u"], ["x"], "discrete")
    assert not Law.from_string("sin(t - 0.3)", ["x", "t"], ["x"]).delays  # a function, no input


def test_a_simulation_takes_inputs_as_late_as_they_act() -> None:
    t = np.arange(0, 6, 0.1)
    u = np.random.default_rng(0).normal(size=(len(t), 2))
    earlier = np.concatenate([np.repeat(u[:1, :1], 3, axis=0), u[:-3, :1]])
    moved = np.concatenate([earlier, u[:, 1:]], axis=1)
    plain = LATE.with_delays({})
    np.testing.assert_allclose(
        LATE.simulate([1, 0], t, u).z, plain.simulate([1, 0], t, moved).z, atol=1e-9
    )
    # Between the samples: rows that are held until the next one.
    off = LATE.with_delays({"u1": 0.33})

    def field(s: float, z: np.ndarray) -> list[float]:
        first, second = (max(int(np.floor((s - d) / 0.1 + 1e-9)), 0) for d in (0.33, 0.0))
        return [z[1], -z[0] + 0.5 * u[first, 0] + u[min(second, len(t) - 1), 1]]

    z = solve_ivp(field, (0, t[-1]), [1, 0], t_eval=t, max_step=0.005, rtol=1e-8).y.T
    np.testing.assert_allclose(off.simulate([1, 0], t, u).z, z, atol=2e-3)


def test_a_simulation_takes_a_function_as_late_as_it_acts() -> None:
    t, law = np.arange(0, 6, 0.1), Law.from_string("-x + u(t - 0.33)", ["x", "u"], ["x"])
    run = law.simulate([1.0], t, lambda s: np.sin(np.asarray(s))[..., None])
    wanted = solve_ivp(
        lambda s, z: -z + np.sin(s - 0.33), (0, t[-1]), [1.0], t_eval=t, rtol=1e-9, atol=1e-11
    )
    np.testing.assert_allclose(run.z, wanted.y.T, atol=1e-6)


def test_exports_say_it_or_refuse() -> None:
    for text in (LATE.python(), LATE.c(), LATE.julia()):
        assert "u1(t - 0.3)" in text
    assert "delay(u1, 0.3)" in LATE.modelica()
    assert "t - 0.3" in LATE.latex() and "0.3" in LATE.mathml()
    with pytest.raises(LawError):
        LATE.sbml()


def test_linear_models_refuse_dead_time() -> None:
    with pytest.raises(LawError):
        linearize(Transition.of(LATE), [0.0, 0.0], [0.0, 0.0])


def effort(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return 10 * z[..., 0] ** 2 + 0.1 * u[..., 0] ** 2


def test_a_controller_plans_from_where_its_actions_will_act() -> None:
    """An unstable state that late actions keep, and that a plan without the delay loses."""
    delay = 0.25
    law = Law.from_string(f"2*x + u(t - {delay})", ["x", "u"], ["x"])

    def closed_loop(planned: Law) -> np.ndarray:
        task = Task.of(planned, effort, low=[-20], high=[20], dt=0.1, horizon=10)
        policy = Controller(task, ILQR())
        t, taken, x = np.arange(30) * 0.1, [], [0.5]
        for k in range(1, len(t)):
            taken.append(policy(np.array(x[-1:]))[0])
            u = np.zeros((10 + k + 1, 1))  # nothing was done before
            u[10 : 10 + k, 0] = taken
            times = np.arange(-10, k + 1) * 0.1
            pushed = lambda s, times=times, u=u: u[  # noqa: E731
                np.clip(np.searchsorted(times, np.asarray(s) + 1e-9) - 1, 0, None)
            ]
            x.append(solve_ivp(
                lambda s, z, pushed=pushed: 2 * z + pushed(s - delay), (t[k - 1], t[k]), x[-1:],
                rtol=1e-6, max_step=0.025,
            ).y[0, -1])  # fmt: skip
            if abs(x[-1]) > 100:
                break
        return np.array(x)

    assert abs(closed_loop(law)[-5:]).max() < 0.02
    assert abs(closed_loop(law.with_delays({}))).max() > 1


def test_plans_refuse_what_they_cannot_wait_for() -> None:
    plan = {"low": [-1, -1], "high": [1, 1], "dt": 0.1}
    with pytest.raises(LawError):  # one action acts late, the other at once
        Task.of(LATE, effort, **plan)
    task = Task.of(LATE.with_delays({"u1": 0.3, "u2": 0.3}), effort, **plan)
    with pytest.raises(ConfigError):
        make_env(task, [[0.0, 0.0]])


def test_data_begin_where_all_inputs_are_known() -> None:
    data = sjepa.Trajectories(np.arange(6.0), 1.0, np.arange(6.0) ** 2)
    late = data.delayed({"u1": 1.5})
    assert late.t[0].tolist() == [2, 3, 4, 5] and late.x[0].ravel().tolist() == [2, 3, 4, 5]
    np.testing.assert_allclose(late.u[0].ravel(), [0.5, 2.5, 6.5, 12.5])  # type: ignore[index]
    assert data.delayed({}) is data
    for delays in ({"v": 1.0}, {"u1": -1.0}, {"u1": 100.0}):
        with pytest.raises(DataError):
            data.delayed(delays)


def test_dead_time_from_the_command_line(tmp_path: Path) -> None:
    rows = np.column_stack([T, tank(0.27), pump(T)])
    path, out = tmp_path / "tank.csv", tmp_path / "law.json"
    np.savetxt(path, rows, delimiter=",", header="t,h,voltage", comments="")
    command(
        "discover", path, "--time", "t", "--actions", "voltage", "--library",
        "1,h,sqrt(h),voltage", "--constraints", "delay(voltage) <= 0.8", "-o", out,
    )  # fmt: skip
    law = Law.load(out)
    assert law.delays["voltage"] == pytest.approx(0.27, abs=0.2 * STEP)
    result = command(
        "simulate", out, "--start", "1.5", "--times", "0:1:0.1", "--u", "voltage=1", "--json"
    )
    assert "ok" in result.stdout
