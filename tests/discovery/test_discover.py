from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp

import sjepa
from sjepa import Backend, Front, Grammar, Law, Problem, discover
from sjepa.data import SYSTEMS, simulate
from sjepa.errors import BackendUnavailable, ConfigError, DataError, SjepaError, UnknownBackend


def oscillator(times: np.ndarray, phase: float = 0.0) -> np.ndarray:
    return np.stack([np.cos(2 * times + phase), -2 * np.sin(2 * times + phase)], axis=1)


T = np.arange(0.0, 8.0, 0.02)
LAW = ["q' = p", "p' = -4*q"]
NAMES = ["q", "p"]


@pytest.mark.parametrize("backend", ["stlsq", "subset", "pysindy"])
def test_two_trajectories_with_a_constant_step(backend: str) -> None:
    # Two amplitudes: on a single orbit p^2 + 4 q^2 is constant and laws are not unique.
    x = [oscillator(T), 0.4 * oscillator(T, 1.0)]
    front = sjepa.discover(x, 0.02, backend=backend, feature_names=NAMES)
    assert front.best().lines(5) == LAW


def test_one_trajectory_is_enough() -> None:
    assert sjepa.discover(oscillator(T), 0.02, feature_names=NAMES).best().lines(5) == LAW


def test_many_trajectories_of_unequal_length_and_irregular_time() -> None:
    rng = np.random.default_rng(0)
    times = [np.sort(rng.uniform(0, 8, n)) for n in (300, 411, 512)]
    x = [oscillator(t, phase) for t, phase in zip(times, (0.0, 1.0, 2.0), strict=True)]
    law = sjepa.discover(x, times, feature_names=NAMES).best()
    assert [len(pairs) for pairs in law.terms] == [1, 1]
    np.testing.assert_allclose(law.with_free_terms().coefficients, [1, -4], rtol=1e-3)


def test_known_derivatives_are_used_as_they_are() -> None:
    x = oscillator(T)
    x_dot = np.stack([x[:, 1], -4 * x[:, 0]], axis=1)
    law = sjepa.discover(x, T, x_dot=x_dot, feature_names=NAMES).best()
    np.testing.assert_allclose(law.with_free_terms().coefficients, [1, -4], rtol=1e-12)


def test_the_next_value_can_be_fitted_directly() -> None:
    x = [np.array([0.1 + 0.1 * i]) for i in range(4)]
    series = []
    for start in x:
        values = [start[0]]
        for _ in range(50):
            values.append(3.7 * values[-1] * (1 - values[-1]))
        series.append(np.array(values)[:, None])
    law = sjepa.discover(series, 1.0, derivatives="discrete", feature_names=["x"]).best()
    assert law.dynamics == "discrete"
    assert law.lines(6) == ["x[t+1] = -3.7*x**2 + 3.7*x"]


def test_actions_become_inputs_of_the_law() -> None:
    def drive(t: np.ndarray | float) -> np.ndarray | float:
        return np.sin(1.7 * t) + 0.5 * np.cos(0.6 * t)

    solution = solve_ivp(
        lambda t, z: [z[1], -z[0] - 0.3 * z[1] + 0.8 * drive(t)], (0, 30), [1.0, 0.0],
        t_eval=np.linspace(0, 30, 1501), rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    front = sjepa.discover(solution.y.T, solution.t, u=drive(solution.t), feature_names=["x", "v"])
    law = front.best()
    assert law.inputs == ("x", "v", "u1") and law.outputs == ("x", "v")
    assert law.lines(3) == ["x' = v", "v' = 0.8*u1 - 0.3*v - x"]


def test_noise_switches_to_the_integral_form_and_the_law_survives() -> None:
    data = simulate(SYSTEMS["lorenz"], seed=3, noise=0.01)
    truth = sjepa.Law.from_string(list(SYSTEMS["lorenz"].equations), list(SYSTEMS["lorenz"].inputs))
    law = sjepa.discover(data, backend="subset").best()
    assert [{t for _, t in p} for p in law.terms] == [{t for _, t in p} for p in truth.terms]
    np.testing.assert_allclose(
        law.with_free_terms().coefficients, truth.with_free_terms().coefficients, rtol=0.08
    )


@pytest.mark.parametrize("name", [n for n in SYSTEMS if n != "michaelis_menten"])
def test_clean_data_of_every_classic_system_give_its_law(name: str) -> None:
    system = SYSTEMS[name]
    truth = sjepa.Law.from_string(
        list(system.equations), [*system.inputs, *system.actions], list(system.inputs)
    )
    law = sjepa.discover(simulate(system, seed=1)).best()
    assert [{t for _, t in p} for p in law.terms] == [{t for _, t in p} for p in truth.terms]


def test_progress_is_reported() -> None:
    seen: list[float] = []
    sjepa.discover(oscillator(T), T, verbose=lambda line, share: seen.append(share))
    assert seen[-1] == 1.0


@pytest.mark.filterwarnings("ignore::sjepa.errors.DataWarning")  # the data are to be odd
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"t": None}, DataError, "Give the times"),
        ({"x": np.full((50, 2), np.nan)}, DataError, "trajectory 0"),
        ({"t": T[::-1]}, DataError, "increas"),
        ({"t": T[:-1]}, DataError, "399"),
        ({"x": np.zeros((5, 4, 4)), "t": 0.1 * np.arange(5)}, DataError, "learn coordinates"),
        ({"x_dot": np.zeros((3, 2))}, DataError, "x_dot has shapes"),
        ({"derivatives": "wek"}, ConfigError, "'weak'"),
        ({"x": "data.csv", "t": None}, DataError, "sjepa.data.read"),
        ({"x": np.zeros((2, 500)), "t": 0.1, "feature_names": None}, DataError, "transpose x"),
        ({"library": "polynomial"}, ConfigError, "list of terms"),
        ({"backend": {"threshold": 0.1}}, UnknownBackend, "needs a 'name'"),
        (
            {"derivatives": "discrete", "t": np.cumsum(np.linspace(1, 2, 400))},
            DataError,
            "equal steps",
        ),
        ({"backend": "stslq"}, UnknownBackend, "Did you mean 'stlsq'"),
        ({"backend": 3}, UnknownBackend, "a name, a mapping"),
        ({"backend": {"name": "stlsq", "treshold": 1}}, ConfigError, "no option 'treshold'"),
        ({"budget": -1}, ConfigError, "positive"),
        ({"budget": "a"}, ConfigError, "positive number of seconds, got 'a'"),
        ({"x_dot": "a"}, DataError, "x_dot of trajectory 0 holds text"),
        ({"library": 3}, ConfigError, "list of terms"),
        ({"library": np.array("q")}, ConfigError, "list of terms"),
        ({"grammar": "wide"}, ConfigError, "is a Grammar, got 'wide'"),
        ({"constraints": 3}, ConfigError, "list of texts"),
        ({"order": np.array([])}, ConfigError, "order must be 1 or 2"),
        ({"n_bootstrap": 2**70}, ConfigError, "whole number"),
        ({"x": [10**400, 1.0, 2.0], "t": 0.1}, DataError, "numeric array"),
        ({"feature_names": ["q"]}, DataError, "names"),
        ({"library": sjepa.Library.paper(["a", "b"])}, SjepaError, "called q, p"),
    ],
)
@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")
def test_wrong_input_gets_one_line(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    given = {"x": oscillator(T), "t": T, "feature_names": NAMES} | arguments
    with pytest.raises(error, match=message) as refusal:
        sjepa.discover(given.pop("x"), given.pop("t"), **given)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


def test_a_missing_operon_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from sjepa.backend import registry

    missing = registry.Source("nowhere:Backend", "Nowhere", ("no_such_package",), "pip install x")
    monkeypatch.setitem(registry.sources(), "nowhere", missing)
    with pytest.raises(BackendUnavailable, match=r"needs no_such_package.*pip install x"):
        sjepa.discover(oscillator(T), T, backend="nowhere")
    assert sjepa.available_backends()["nowhere"] is False


def test_a_constant_column_does_not_move() -> None:
    x = np.column_stack([oscillator(T), np.full(len(T), 3.0)])
    for form in ("smooth", "weak"):
        law = sjepa.discover(
            x, T, feature_names=["q", "p", "k"], library=["q", "p", "k"], derivatives=form
        )
        assert law.best().lines(4)[2] == "k' = 0"


def test_a_list_of_terms_is_a_library() -> None:
    front = sjepa.discover(oscillator(T), T, feature_names=NAMES, library=["q", "p", "q*p"])
    assert front.best().lines(5) == LAW


def test_noisy_data_at_random_times() -> None:
    rng = np.random.default_rng(3)
    times = [np.sort(rng.uniform(0, 12, 400)) for _ in range(3)]
    x = [
        a * oscillator(t, a) + 0.01 * rng.normal(size=(400, 2))
        for a, t in zip((0.5, 1, 1.5), times, strict=True)
    ]
    law = sjepa.discover(x, times, backend="subset", feature_names=NAMES).best()
    assert [len(pairs) for pairs in law.terms] == [1, 1]
    np.testing.assert_allclose(law.with_free_terms().coefficients, [1, -4], rtol=0.02)


def test_few_rows_leave_a_law_undecided_and_a_poor_library_makes_it_inadequate() -> None:
    from sjepa.errors import NumericalWarning

    few = sjepa.discover(oscillator(T)[:3], 0.02).verdict
    assert few is None or few.adequate is None
    with pytest.warns(NumericalWarning) as caught:
        front = sjepa.discover(oscillator(T), T, feature_names=NAMES, library=["q*p"])
    # Kept with the front, for whoever reads it later.
    assert front.verdict is not None and front.verdict.adequate is False
    assert str(caught[0].message) in front.verdict.reasons
    assert str(caught[0].message) in str(front)


def test_a_spelling_that_was_left_out_is_noted_where_the_law_has_the_other() -> None:
    t = np.arange(0, 4, 0.02)
    v = 7.0 * np.tanh(9.81 / 7.0 * t) + 0.5  # positive: v|v| is v**2
    still = sjepa.discover(np.exp(-t)[:, None], t, feature_names=["v"])
    assert still.best().lines(3) == ["v' = -v"] and still.notes == ()
    drag = sjepa.discover(
        v[:, None], t, feature_names=["v"], library=["1", "v", "v**2", "v*Abs(v)"]
    )
    assert "v**2" in drag.best().lines(3)[0]
    assert drag.notes == ("in the equation of v, v*Abs(v) is v**2 on these data",)


def test_small_libraries_are_searched_exactly_by_default() -> None:
    x = oscillator(T)
    assert sjepa.discover(x, T).backend == "subset"
    many = sjepa.Library.polynomial(NAMES, 11)
    assert len(many) > 64
    assert sjepa.discover(x, T, feature_names=NAMES, library=many, budget=1.0).backend == "stlsq"
    assert sjepa.discover(x, T, backend="stlsq").backend == "stlsq"


@dataclass(frozen=True)
class Proposes(Backend):
    """Writes trees: the same laws whatever the data, with the numbers that fit the rows best."""

    name: ClassVar[str] = "proposes"
    trees: ClassVar[bool] = True
    equations: tuple[tuple[str, ...], ...]

    def search(self, problem: Problem) -> Front:
        laws = [Law.from_string(list(e), problem.names, problem.outputs) for e in self.equations]
        return problem.front(laws, self.name)


def test_with_noise_trees_propose_and_integrals_select() -> None:
    """A law with a useless term and an inner number off by a little becomes the true one."""
    data = simulate("drag_pendulum", seed=0, noise=0.02)
    proposed = ("p + 0.02*q", "-0.9*sin(1.01*q) - 0.38*p*Abs(p) - 0.1*cos(3*p)")
    front = discover(data, backend=Proposes((("p", "-q"), proposed)))
    assert front.form == "weak" and front.measure == "tree" and front.backend == "proposes"
    law = front.best()
    truth = Law.from_string(["p", "-sin(q) - 0.4*p*Abs(p)"], ["q", "p"])
    assert [{t for _, t in row} for row in law.terms] == [
        {t for _, t in row} for row in truth.terms
    ]
    found, true = ([c for row in one.terms for c, _ in row] for one in (law, truth))
    np.testing.assert_allclose(found, true, rtol=0.03)
    # Without noise, derivatives are as good and nothing is judged again.
    clean = discover(simulate("drag_pendulum", seed=0), backend=Proposes((proposed,)))
    assert clean.form == "derivative" and len(clean) == 1


def test_noisy_quotients_of_sums_end_in_no_term_that_nobody_proposed() -> None:
    """A coefficient would go into the sum above, and terms over the same sum would be one."""
    data = simulate("drag_pendulum", seed=0, noise=0.02)
    grammar = Grammar(["+", "*", "/", "sin"], ["q", "p"])
    parts = ("sin(q)", "p**3", "sin(q) + 0.4*p**3")
    laws = tuple(("p", f"-({part})/(1 + 0.1*p**2)") for part in parts)
    front = discover(data, backend=Proposes(laws), grammar=grammar)
    assert front.form == "weak" and len(front)


def test_parameters_inside_trees_that_simulations_move_are_compared_on_the_integrals() -> None:
    """Those of the search on smoothed derivatives are in no library."""

    def slope(_: float, s: np.ndarray) -> list[float]:
        return [s[1], 1 - np.exp(1.3 * s[0])]

    rng, t = np.random.default_rng(0), np.arange(0.0, 10.0, 0.05)
    x = [
        solve_ivp(slope, (0, 10), rng.uniform(-1, 1, 2), t_eval=t, rtol=1e-8).y.T for _ in range(4)
    ]
    noisy = [own + 0.003 * rng.normal(size=own.shape) for own in x]
    grammar = Grammar(["+", "*", "exp"], NAMES)
    backend = Proposes((("p", "-q"), ("p", "1 - exp(1.27*q)")))
    law = discover(noisy, t, backend=backend, grammar=grammar, feature_names=NAMES).best()
    assert [len(row) for row in law.terms] == [1, 2]
    (number,) = law.expressions[1].atoms(sympy.exp)
    assert float(number.args[0].as_coeff_Mul()[0]) == pytest.approx(1.3, rel=5e-3)
