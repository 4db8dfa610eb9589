"""Analytic, automatic and numerical derivatives of transitions must agree."""

import numpy as np
import pytest
import sympy
import torch
from scipy.linalg import expm

from sjepa.control import ContinuousModel, DiscreteModel, Linearizer, linearize
from sjepa.control.linearize import LawJacobian, module_jacobian
from sjepa.errors import DataError
from sjepa.models import Correction, NeuralField, Transition
from sjepa.symbolic import Law
from sjepa.symbolic.operators import OPERATORS


PENDULUM = Law.from_string(["w", "-1.7*sin(q) - 0.2*w*abs(w) + 0.6*u*cos(q)"], ["q", "w", "u"])
POINTS = np.random.default_rng(3).uniform(-1.5, 1.5, (6, 2))
ACTIONS = np.random.default_rng(4).uniform(-1, 1, (6, 1))


def hybrid(kind: str = "continuous", integrator: str = "rk4") -> Transition:
    torch.manual_seed(0)
    correction = Correction(2, action_dim=1, width=8).double()
    return Transition(PENDULUM.torch(), correction, dynamics=kind, integrator=integrator)


def differences(function, z: np.ndarray, u: np.ndarray, step: float = 1e-6):
    """A and B of z, u -> function(z, u) by central differences."""
    columns = []
    for which, size in ((0, z.shape[-1]), (1, u.shape[-1])):
        for i in range(size):
            shift = np.zeros(size)
            shift[i] = step
            pairs = [(z + s * shift, u) if which == 0 else (z, u + s * shift) for s in (1, -1)]
            plus, minus = (function(*(torch.tensor(v) for v in pair)) for pair in pairs)
            columns.append(((plus - minus) / (2 * step)).detach().numpy())
    stacked = np.stack(columns, axis=-1)
    return stacked[..., : z.shape[-1]], stacked[..., z.shape[-1] :]


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_analytic_and_automatic_derivatives_agree_for_every_operator(name: str) -> None:
    row = OPERATORS[name]
    x, y = sympy.symbols("x y", real=True)
    count = 2 if row.arity is None else row.arity
    # Arguments that depend on both inputs, go through zero and leave the domain of some.
    inner = [sympy.Float(0.3) + x * y / 3 + x / 2, sympy.Float(0.8) + y**2 / 5 - x / 7]
    expr = row.build(*[*inner, sympy.Float(1.1) + x**2 / 9][:count])
    law = Law([sympy.sympify(expr)], ["x", "y"], ["z"], "discrete")
    z = torch.tensor(np.random.default_rng(0).uniform(-1.4, 1.4, (200, 2)))
    z = z[law.torch()(z).isfinite().all(-1)]
    assert len(z) > 40 or name == "acosh"
    analytic = LawJacobian(law)(z)
    automatic = module_jacobian(law.torch(), z)
    assert analytic.shape == (len(z), 1, 2)
    torch.testing.assert_close(analytic, automatic, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_law_and_correction_are_told_apart_and_add_up(kind: str) -> None:
    transition = hybrid(kind)
    around = linearize(transition, POINTS, ACTIONS)
    model = around.field if kind == "continuous" else around.step
    assert isinstance(model, ContinuousModel if kind == "continuous" else DiscreteModel)
    for part, function in (
        ("symbolic", lambda z, u: transition.parts(z, u)[0]),
        ("correction", lambda z, u: transition.parts(z, u)[1]),
        ("", transition.field),
    ):
        a, b = differences(function, POINTS, ACTIONS)
        suffix = f"_{part}" if part else ""
        np.testing.assert_allclose(getattr(model, f"A{suffix}"), a, atol=1e-8)
        np.testing.assert_allclose(getattr(model, f"B{suffix}"), b, atol=1e-8)
    share = model.action_share
    np.testing.assert_allclose(share["symbolic"] + share["correction"], 1.0)
    assert (share["symbolic"] < 1).all() and (share["symbolic"] > 0).all()


@pytest.mark.parametrize("integrator", ["euler", "midpoint", "rk4"])
def test_integrated_step_matches_finite_differences(integrator: str) -> None:
    transition = hybrid(integrator=integrator)
    step = linearize(transition, POINTS, ACTIONS, dt=0.3).step
    a, b = differences(lambda z, u: transition(z, 0.3, u), POINTS, ACTIONS)
    np.testing.assert_allclose(step.A, a, atol=1e-8)
    np.testing.assert_allclose(step.B, b, atol=1e-8)


def test_step_matrices_of_a_map_are_the_automatic_derivatives_by_state_and_by_action() -> None:
    transition = hybrid("discrete")
    z, u = torch.tensor(POINTS), torch.tensor(ACTIONS)
    a, b = Linearizer(transition).step_matrices(z, u, None)
    for i in range(len(z)):
        both = torch.autograd.functional.jacobian(lambda s, e: transition(s, None, e), (z[i], u[i]))
        torch.testing.assert_close(a[i], both[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(b[i], both[1], rtol=1e-10, atol=1e-12)


def test_second_order_steps_match_finite_differences() -> None:
    law = Law.from_string(["-1.7*sin(q) - 0.2*v + u"], ["q", "v", "u"], ["q"])
    for integrator in ("rk4", "verlet"):
        transition = Transition(law.torch(), integrator=integrator, order=2)
        around = linearize(transition, POINTS, ACTIONS, dt=0.2)
        a, b = differences(lambda z, u, move=transition: move(z, 0.2, u), POINTS, ACTIONS)
        np.testing.assert_allclose(around.step.A, a, atol=1e-8)
        np.testing.assert_allclose(around.step.B, b, atol=1e-8)
        np.testing.assert_allclose(around.field.A[:, 0], np.tile([0.0, 1.0], (6, 1)))


def test_euler_step_splits_as_in_the_paper() -> None:
    transition, dt = hybrid(integrator="euler"), 0.1
    around = linearize(transition, POINTS, ACTIONS, dt)
    np.testing.assert_allclose(
        around.step.A_symbolic, np.eye(2) + dt * around.field.A_symbolic, atol=1e-12
    )
    np.testing.assert_allclose(around.step.A_correction, dt * around.field.A_correction, atol=1e-12)
    np.testing.assert_allclose(around.step.B_correction, dt * around.field.B_correction, atol=1e-12)


def test_step_of_a_linear_law_is_the_matrix_exponential() -> None:
    law = Law.from_string(["0.3*x + y", "-2*x - 0.1*y"], ["x", "y"])
    around = linearize(Transition(law.torch(), integrator="rk4"), [1.0, 2.0], dt=0.01)
    np.testing.assert_allclose(around.step.A, expm(0.01 * around.field.A), atol=1e-10)
    assert around.step.B.shape == (2, 0)


def test_the_two_stability_criteria_can_disagree() -> None:
    # A stiff decay: stable in time, but Euler steps of 0.3 overshoot more each time.
    transition = Transition(Law.from_string(["-10*x"], ["x"]).torch(), integrator="euler")
    around = linearize(transition, [0.0], dt=0.3)
    assert around.field.hurwitz and not around.step.schur
    assert around.step.spectral_radius == pytest.approx(2.0)
    assert not hasattr(around.field, "schur") and not hasattr(around.step, "hurwitz")
    assert not hasattr(around.field, "stable")


def test_a_purely_neural_transition_has_everything_in_the_correction() -> None:
    torch.manual_seed(1)
    transition = Transition(None, NeuralField(2, 1, 8).double(), integrator="rk4")
    around = linearize(transition, POINTS, ACTIONS, dt=0.1)
    a, b = differences(lambda z, u: transition(z, 0.1, u), POINTS, ACTIONS)
    np.testing.assert_allclose(around.step.A, a, atol=1e-8)
    np.testing.assert_allclose(around.step.B, b, atol=1e-8)
    np.testing.assert_allclose(around.field.action_share["correction"], 1.0)
    np.testing.assert_allclose(around.step.B_symbolic, 0.0)


def test_a_step_needs_its_length_and_says_so() -> None:
    with pytest.raises(DataError, match="pass dt"):
        Linearizer(hybrid()).step_matrices(torch.zeros(2).double(), torch.zeros(1).double(), None)
    assert linearize(hybrid(), POINTS[0], ACTIONS[0]).step is None
    with pytest.raises(DataError, match="inputs q, w, u"):
        linearize(hybrid(), POINTS[0])
    with pytest.raises(DataError, match="got a number"):
        linearize(hybrid(), 0.0, ACTIONS[0])
    with pytest.raises(DataError, match="got a number"):
        linearize(hybrid(), POINTS[0], 0.5)


def test_whole_numbers_are_states_too_and_those_of_second_order_have_velocities() -> None:
    law = Law.from_string(["-1.7*sin(q) - 0.2*v + u"], ["q", "v", "u"], ["q"])
    transition = Transition(law.torch(), order=2)
    whole, same = (linearize(transition, z, u).field for z, u in (([1, 2], [3]), ([1.0, 2], [3.0])))
    np.testing.assert_array_equal(whole.A, same.A)
    assert whole.A[1, 0] == pytest.approx(-1.7 * np.cos(1))
    decay = Transition(Law.from_string(["-0.5*q**2"], ["q"]).torch())
    assert linearize(decay, [2]).field.A[0, 0] == pytest.approx(-2.0)
    with pytest.raises(DataError, match=r"z \(..., 2\) and u \(..., 1\), got 2"):
        linearize(transition, [1.0], [3.0])


def test_it_prints_what_one_wants_to_know() -> None:
    text = repr(linearize(hybrid(), POINTS[0], ACTIONS[0], dt=0.1))
    assert "vector field" in text and "one step of 0.1" in text and "action sensitivity" in text
