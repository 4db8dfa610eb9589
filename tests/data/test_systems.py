"""Simulated systems: the data obey the text they came from, and are worth learning from."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from sjepa.data import SYSTEMS, System, differentiate, simulate
from sjepa.errors import DataError


def right_hand_side(system: System, x: np.ndarray, u: np.ndarray | None) -> np.ndarray:
    """By SymPy alone: an evaluation that shares nothing with the one that made the data."""
    names = {n: sympy.Symbol(n, real=True) for n in (*system.inputs, *system.actions)}
    columns = [*x.T, *([] if u is None else u.T)]
    fields = [
        sympy.lambdify(list(names.values()), sympy.sympify(text, locals=names), "numpy")(*columns)
        for text in system.equations
    ]
    return np.stack([np.broadcast_to(f, len(x)) for f in fields], axis=1)


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> System:
    return SYSTEMS[request.param]


def test_there_are_enough_systems() -> None:
    assert len(SYSTEMS) >= 14


def test_derivatives_of_the_data_equal_the_equations(system: System) -> None:
    data = simulate(system, seed=0, trajectories=2)
    slopes = differentiate(data, "finite_difference", order=8)
    for i, dx in enumerate(slopes.x_dot):
        u = None if data.u is None else data.u[i]
        truth = right_hand_side(system, data.x[i], u)
        inside = slice(5, -5)
        # Eighth-order differences at these steps; p|p| has a kink in its second derivative.
        error = np.sqrt(((dx - truth)[inside] ** 2).mean(axis=0))
        assert (error < 2e-4 * truth.std(axis=0)).all()


def test_every_term_matters_and_motion_does_not_die(system: System) -> None:
    data = simulate(system, seed=0)
    names = [sympy.Symbol(n, real=True) for n in (*system.inputs, *system.actions)]
    rows = np.concatenate(data.x)
    if data.u is not None:
        rows = np.column_stack([rows, np.concatenate(data.u)])
    for text in system.equations:
        expr = sympy.sympify(text, locals={n.name: n for n in names})
        sizes = []
        for term in sympy.Add.make_args(expr):
            value = np.asarray(sympy.lambdify(names, term, "numpy")(*rows.T))
            sizes.append(float(np.sqrt(np.mean(value**2))))
        # Lorenz' own -y is the smallest of all, at a twenty-fifth of its neighbors.
        assert min(sizes) > 0.03 * max(sizes)
    for i in range(len(data)):
        u = None if data.u is None else data.u[i]
        field = right_hand_side(system, data.x[i], u)
        speed = np.linalg.norm(field / field.std(axis=0), axis=1)
        half = len(speed) // 2
        assert speed[half:].mean() > 0.15 * speed[:half].mean()


def test_noise_is_a_fraction_of_each_coordinates_spread() -> None:
    clean = simulate("lorenz", seed=1)
    noisy = simulate("lorenz", seed=1, noise=0.05)
    assert noisy.state is not None and clean.state is not None
    np.testing.assert_array_equal(np.stack(noisy.state), np.stack(clean.state))
    error = np.stack(noisy.x) - np.stack(clean.x)
    # 3,600 draws: a standard error of one percent.
    np.testing.assert_allclose(
        error.std(axis=(0, 1)), 0.05 * np.stack(clean.x).std(axis=(0, 1)), rtol=0.05
    )


def test_seed_points_and_trajectories_are_respected() -> None:
    small = simulate("pendulum", seed=0, trajectories=3, points=50)
    assert small.lengths.tolist() == [50, 50, 50]
    again = simulate("pendulum", seed=0, trajectories=3, points=50)
    np.testing.assert_array_equal(small.x[0], again.x[0])
    assert not np.array_equal(small.x[0], simulate("pendulum", seed=1, points=50).x[0])
    assert small.names == ("q", "p")


def test_the_linear_oscillator_is_its_closed_form() -> None:
    data = simulate("linear_oscillator", seed=0)
    for t, x in zip(data.t, data.x, strict=True):
        z = (x[0, 0] - 1j * x[0, 1]) * np.exp((-0.2 + 1.5j) * t)
        np.testing.assert_allclose(x, np.stack([z.real, -z.imag], axis=1), atol=1e-9)


def test_conservative_systems_conserve_energy() -> None:
    s = np.stack(simulate("double_well", seed=0).x)
    energy = s[..., 1] ** 2 / 2 - s[..., 0] ** 2 / 2 + s[..., 0] ** 4 / 4
    assert np.ptp(energy, axis=1).max() < 1e-8
    assert (s[..., 0].min(axis=1) > 0).any() and (np.ptp(np.sign(s[..., 0]), axis=1) == 2).any()


def test_actions_differ_between_trajectories() -> None:
    data = simulate("forced_oscillator", seed=0)
    assert data.input_names == ("u1",)
    assert data.u is not None
    u = np.stack(data.u)[..., 0]
    assert np.abs(np.corrcoef(u) - np.eye(len(u))).max() < 0.95


@pytest.mark.parametrize(
    "name, settings, message",
    [
        ("lorentz", {}, "Did you mean 'lorenz'"),
        ("lorenz", {"noise": -1.0}, "noise must be"),
        ("lorenz", {"points": 1}, "at least 1 trajectory of 2 points"),
    ],
)
def test_bad_requests_are_refused(name: str, settings: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        simulate(name, seed=0, **settings)  # type: ignore[arg-type]


def test_a_system_that_blows_up_says_so() -> None:
    explosion = System("explosion", ("x",), ("x**2",), ((1.0,), (2.0,)), step=0.1)
    with pytest.raises(DataError, match="'explosion' cannot be integrated"):
        simulate(explosion, seed=0)
