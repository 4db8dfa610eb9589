"""Which form is fitted is decided by the data, and each form gives the law it should."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sjepa
from sjepa import SJEPA, Library, Trajectories
from sjepa.data import differentiate
from sjepa.data.rows import weak_rows, zoh_accelerations
from sjepa.data.weak import weak_windows, window_points
from sjepa.errors import ConfigError, DataWarning, NumericalWarning


def smooth(t: np.ndarray) -> np.ndarray:
    return 0.5 * np.sin(1.3 * t) + 0.4 * np.sin(0.47 * t + 1) + 0.3 * np.sin(2.1 * t)


def pushed(t: np.ndarray, u: np.ndarray | Callable[..., np.ndarray]) -> np.ndarray:
    """A damped pendulum under a torque: a function of time, or values held between samples."""

    def field(time: float, s: np.ndarray, k: int) -> list[float]:
        torque = float(u(time) if callable(u) else u[k])
        return [s[1], -np.sin(s[0]) - 0.2 * s[1] + torque]

    if callable(u):
        spans, starts = [(0, len(t))], [np.array([1.0, 0.0])]
    else:
        spans, starts = [(k, k + 2) for k in range(len(t) - 1)], [np.array([1.0, 0.0])]
    states = [starts[0]]
    for a, b in spans:
        path = solve_ivp(
            field, (t[a], t[b - 1]), states[-1], "DOP853", t[a:b], args=(a,), rtol=1e-9, atol=1e-11
        )
        states.extend(path.y.T[1:])
    return np.array(states)


def times(even: bool) -> np.ndarray:
    steps = np.random.default_rng(4).uniform(0.02, 0.08, 599)
    return np.concatenate([[0.0], np.cumsum(np.full(599, 0.05) if even else steps)])


LIBRARY = ["q", "p", "sin(q)", "q**3", "p*abs(p)", "u1", "u1*q", "1"]
LAW = [{"p"}, {"sin(q)", "p", "u1"}]


def terms_of(law: sjepa.Law) -> list[set[str]]:
    return [{str(t) for _, t in pairs} for pairs in law.terms]


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_smooth_torque_is_not_taken_for_steps_when_noisy_or_at_uneven_times(
    even: bool, noise: float
) -> None:
    t = times(even)
    seen = smooth(t) + noise * np.random.default_rng(1).normal(size=len(t))
    front = sjepa.discover(pushed(t, smooth), t, u=seen, feature_names=["q", "p"], library=LIBRARY)
    assert front.form == ("weak" if noise else "derivative")
    assert terms_of(front.best()) == LAW
    assert f"form: {front.form}" in repr(front)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_held_steps_are_recognized_with_and_without_noise(even: bool, noise: float) -> None:
    t = times(even)
    rng = np.random.default_rng(2)
    levels = np.repeat(rng.normal(size=100), 6)
    x = pushed(t, levels)
    seen = levels + noise * rng.normal(size=len(t))
    front = sjepa.discover(x, t, u=seen, feature_names=["q", "p"], library=LIBRARY)
    assert front.form == "zoh"
    assert terms_of(front.best()) == LAW


def test_held_integrals_are_those_of_a_staircase() -> None:
    t = np.array([0.0, 0.3, 0.5, 1.0, 1.2])
    u = np.array([1.0, -2.0, 0.5, 3.0, 9.0])
    data = Trajectories(np.zeros((5, 1)), t, u, names=["x"])
    library = Library.from_terms(["u1"], ["x", "u1"])
    found = weak_rows(data, library, 5, hold=True)[0]
    fine = np.linspace(0, 1.2, 200_001)
    bump = (1 - ((fine - 0.6) / 0.6) ** 2) ** 4
    stairs = u[np.searchsorted(t, fine, side="right").clip(1, 4) - 1]
    # The reference is a sum of 200,000 strips, some of which hold a jump.
    np.testing.assert_allclose(found[0, 0], np.trapezoid(bump * stairs, fine), atol=2e-5)


@pytest.mark.parametrize("size", [400, 20_000])
@pytest.mark.parametrize("pieces", [False, True])
def test_more_noisy_data_do_not_lose_the_law(size: int, pieces: bool) -> None:
    t = 0.05 * np.arange(size)
    path = solve_ivp(
        lambda _, s: [s[1], -np.sin(s[0])], (0, t[-1]), [2.0, 0.3], "DOP853", t,
        rtol=1e-9, atol=1e-10,
    ).y.T  # fmt: skip
    x = path + 0.01 * path.std(axis=0) * np.random.default_rng(0).normal(size=path.shape)
    cuts = [slice(i, i + 200) for i in range(0, size, 200)] if pieces else [slice(None)]
    front = sjepa.discover(
        [x[c] for c in cuts], [t[c] for c in cuts], feature_names=["q", "p"], backend="subset"
    )
    assert front.form == "weak" and terms_of(front.best()) == [{"p"}, {"sin(q)"}]


def test_a_window_follows_the_time_scale_and_not_the_length() -> None:
    points = []
    for rate, size in ((1.0, 500), (1.0, 4000), (2.0, 4000)):
        t = 0.02 * np.arange(size)
        x = np.stack([np.sin(rate * t), np.cos(rate * t)], axis=1)
        points.append(window_points(differentiate(Trajectories(x, t))))
    assert points[0] == pytest.approx(points[1], rel=0.1)
    assert points[1] == pytest.approx(2 * points[2], rel=0.1)
    rows = weak_windows(0.02 * np.arange(512), points=25).phi.shape[0]
    assert rows > 150  # an eighth of a window apart


def test_the_window_can_be_chosen() -> None:
    t = 0.05 * np.arange(400)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    x = x + 0.01 * np.random.default_rng(0).normal(size=x.shape)
    narrow, wide = (
        sjepa.discover(x, t, library=["x1", "x2"], derivatives=sjepa.Weak(window=w))
        for w in (11, 41)
    )
    # More points under a bump average more noise.
    assert wide.best_candidate().loss < 0.6 * narrow.best_candidate().loss


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # plain differences are noisy
@pytest.mark.parametrize("unit", [1e-3, 1e3])
@pytest.mark.parametrize("method", ["auto", "finite_difference", "savgol", "spline"])
def test_derivatives_do_not_depend_on_the_unit_of_time(method: str, unit: float) -> None:
    rng = np.random.default_rng(0)
    t = np.linspace(0, 10, 300)
    x = np.stack([np.cos(t), np.sin(t)], axis=1) + 0.01 * rng.normal(size=(300, 2))
    base = differentiate(Trajectories(x, t), method)
    other = differentiate(Trajectories(x, unit * t), method)
    np.testing.assert_allclose(other.x_dot[0] * unit, base.x_dot[0], rtol=1e-6, atol=1e-7)
    law = sjepa.discover(
        x, unit * t, library=["x1", "x2"], derivatives=sjepa.Smooth(method=method)
    ).best()
    assert terms_of(law) == [{"x2"}, {"x1"}]
    np.testing.assert_allclose(
        np.array(law.with_free_terms().coefficients) * unit, [-1, 1], rtol=0.03
    )


def test_a_fixed_spline_penalty_keeps_its_unit() -> None:
    """Whoever gives lam gives it in the data's own time, as scipy takes it."""
    from scipy.interpolate import make_smoothing_spline

    t = np.linspace(0, 5, 80)
    x = np.sin(t) + 0.05 * np.random.default_rng(0).normal(size=80)
    found = differentiate(Trajectories(x, t), "spline", lam=0.01)
    own = make_smoothing_spline(t, x, lam=0.01)
    np.testing.assert_allclose(found.trajectories.x[0][:, 0], own(t), atol=1e-8)
    np.testing.assert_allclose(found.x_dot[0][:, 0], own.derivative()(t), atol=1e-7)


@pytest.mark.parametrize(("size", "edge"), [(100, 5), (20, 2), (6, 1)])
def test_as_many_rows_are_left_out_at_both_ends_of_a_spline(size: int, edge: int) -> None:
    t = np.linspace(0, 3, size)
    valid = differentiate(Trajectories(np.sin(t), t), "spline").valid[0]
    assert np.flatnonzero(valid).tolist() == list(range(edge, size - edge))


HARE = [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1, 40.3, 57, 76.6, 52.3, 19.5,
        11.2, 7.6, 14.6, 16.2, 24.7]  # fmt: skip
LYNX = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4, 8, 12.3, 19.5, 45.7, 51.1, 29.7,
        15.8, 9.7, 10.1, 8.6]  # fmt: skip


@pytest.mark.parametrize("backend", ["stlsq", "subset"])
def test_21_yearly_counts_of_hare_and_lynx_give_lotka_and_volterra(backend: str) -> None:
    x = np.stack([HARE, LYNX], axis=1)
    law = sjepa.discover(x, 1.0, feature_names=["hare", "lynx"], backend=backend).best()
    assert terms_of(law) == [{"hare", "hare*lynx"}, {"lynx", "hare*lynx"}]
    signs = np.sign([c for pairs in law.terms for c, _ in sorted(pairs, key=str)])
    assert sorted(signs) == [-1, -1, 1, 1]


def test_maps_are_judged_by_the_change_so_that_inputs_matter() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=2000)
    x = [0.0]
    for k in range(1999):
        x.append(0.998 * x[-1] + 0.01 * u[k] + 0.002 * rng.normal())
    data = np.array(x)[:, None]
    front = sjepa.discover(data, 1.0, u=u, derivatives="discrete", feature_names=["x"])
    assert terms_of(front.best())[0] == {"x", "u1"}
    still = next(c for c in front if terms_of(c.law)[0] == {"x"})
    assert 0.9 < still.loss <= 1.01  # standing still explains nothing of the change
    # What noise leaves: its share of the variance of the change.
    assert front.best_candidate().loss == pytest.approx(0.002**2 / (0.01**2 + 0.002**2), rel=0.2)


def test_a_map_without_memory_keeps_its_short_form() -> None:
    x = [np.array([0.1, 0.1])]
    for _ in range(300):
        a, b = x[-1]
        x.append(np.array([1 - 1.4 * a**2 + b, 0.3 * a]))
    front = sjepa.discover(np.array(x), 1.0, derivatives="discrete", feature_names=["a", "b"])
    assert terms_of(front.best()) == [{"1", "a**2", "b"}, {"a"}]


@pytest.mark.parametrize("held", [True, False])
def test_accelerations_under_actions(held: bool) -> None:
    t = times(True)
    levels = np.repeat(np.random.default_rng(2).normal(size=100), 6)
    x = pushed(t, levels if held else smooth)[:, :1]
    u = levels if held else smooth(t)
    library = ["q", "q_dot", "sin(q)", "u1", "u1*q", "1"]
    front = sjepa.discover(x, t, u=u, feature_names=["q"], order=2, library=library)
    law = front.best()
    assert law.inputs == ("q", "q_dot", "u1") and law.outputs == ("q_dot",)
    assert terms_of(law) == [{"sin(q)", "q_dot", "u1"}]
    found = {str(term): c for c, term in law.terms[0]}
    np.testing.assert_allclose(
        [found["sin(q)"], found["q_dot"], found["u1"]], [-1, -0.2, 1], rtol=0.05
    )


def test_second_differences_under_held_forces_are_exact_for_constant_ones() -> None:
    """Uniformly accelerated pieces by hand, at uneven times."""
    t = np.array([0.0, 0.5, 0.8, 1.6, 2.0])
    force = np.array([2.0, -1.0, 0.5, 3.0, 0.0])
    x, v = [1.0], [0.3]
    for h, a in zip(np.diff(t), force, strict=False):
        x.append(x[-1] + v[-1] * h + a * h * h / 2)
        v.append(v[-1] + a * h)
    rows, targets = zoh_accelerations(Trajectories(np.array(x), t, force))
    np.testing.assert_allclose(targets[:, 0], rows[:, 2], atol=1e-12)
    np.testing.assert_allclose(rows[:, 0], x[1:-1])


def test_a_poor_law_for_accelerations_comes_with_a_warning() -> None:
    t = times(True)
    with pytest.warns(NumericalWarning):
        front = sjepa.discover(pushed(t, smooth)[:, :1], t, order=2, library=["x1_dot"])
    assert front.verdict is not None and front.verdict.adequate is False


def test_an_estimator_of_second_order_passes_its_actions_on() -> None:
    t = times(True)
    x, u = pushed(t, smooth)[:, :1], smooth(t)
    terms = Library.from_terms(["z1_dot", "sin(z1)", "u1", "z1"], ["z1", "z1_dot", "u1"])
    with pytest.warns(DataWarning, match="one trajectory"):
        model = SJEPA(1, encoder="identity", order=2, library=terms).fit(x, t, u)
    assert terms_of(model.law_) == [{"sin(z1)", "z1_dot", "u1"}]
    narrow = Library.from_terms(["sin(z1)"], ["z1"])
    with pytest.raises(ConfigError, match="lacks the action u1"):
        sjepa.discover(x, t, u=u, order=2, library=narrow)
