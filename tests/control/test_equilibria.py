"""Equilibria against known answers, stability by the right criterion, reach of the actions."""

from typing import Any

import control
import numpy as np
import pytest

from sjepa.control import Task, controllability, equilibria, linearize, phase_portrait
from sjepa.errors import ConfigError, DataError, SjepaError
from sjepa.models import Correction, Transition
from sjepa.symbolic import Law


PENDULUM = Law.from_string(["w", "-sin(q) - 0.2*w + 0.5*u"], ["q", "w", "u"])


def test_pendulum_equilibria_are_exact_multiples_of_pi() -> None:
    found = equilibria(PENDULUM, [(-7, 7), (-3, 3)])
    assert [str(p.exact[0]) for p in found] == ["-2*pi", "-pi", "0", "pi", "2*pi"]
    assert [p.kind for p in found] == ["stable focus", "saddle"] * 2 + ["stable focus"]
    table = found.to_frame()
    assert list(table["hurwitz"]) == [True, False, True, False, True]
    assert list(table["controllable_rank"]) == [2] * 5
    assert not found.notes


def test_held_actions_move_the_equilibria() -> None:
    found = equilibria(PENDULUM, [(-3, 3), (-1, 1)], u=[1.0])
    np.testing.assert_allclose([p.z[0] for p in found], [np.pi / 6, 5 * np.pi / 6], atol=1e-12)
    assert len(equilibria(PENDULUM, [(-3, 3), (-1, 1)], u=[2.5])) == 0


def test_lorenz_has_its_three_points() -> None:
    law = Law.from_string(["10*(y - x)", "x*(28 - z) - y", "x*y - 2.5*z"], ["x", "y", "z"])
    found = equilibria(law, [(-20, 20), (-20, 20), (-5, 40)])
    side = np.sqrt(2.5 * 27)
    np.testing.assert_allclose(
        [p.z for p in found], [[-side, -side, 27], [0, 0, 0], [side, side, 27]], atol=1e-9
    )
    assert all(p.exact is not None for p in found)


def test_what_cannot_be_solved_is_searched_and_every_root_is_found() -> None:
    # cos(5x) = x/2 + 0.1 has seven roots in the box, none of them in closed form.
    law = Law.from_string(["cos(5*x) - 0.5*x - 0.1", "x - y"], ["x", "y"])
    grid = np.linspace(-3, 3, 2_000_001)
    value = np.cos(5 * grid) - 0.5 * grid - 0.1
    roots = grid[:-1][value[:-1] * value[1:] < 0]
    found = equilibria(law, [(-3, 3), (-3, 3)])
    assert len(roots) == len(found) == 7
    np.testing.assert_allclose([p.z[0] for p in found], roots, atol=1e-5)
    assert "Newton" in found.notes[0] and found[0].exact is None
    assert max(p.residual for p in found) < 1e-9


def test_a_hybrid_is_searched_with_its_correction() -> None:
    correction = Correction(1, width=4).double()
    for p in correction.parameters():
        p.data.zero_()
    correction.net[-1].bias.data.fill_(np.arctanh(0.25))  # c = 0.25 everywhere
    transition = Transition(Law.from_string(["-2*x"], ["x"]).torch(), correction)
    (point,) = equilibria(transition, [(-1, 1)])
    np.testing.assert_allclose(point.z, [0.125], atol=1e-9)


def test_maps_are_judged_inside_the_unit_circle() -> None:
    law = Law.from_string(["2.6*x*(1 - x)"], ["x"], dynamics="discrete")
    zero, other = equilibria(law, [(-1, 2)])
    assert zero.kind == "unstable node" and other.kind == "stable node"
    np.testing.assert_allclose(other.z, [1 - 1 / 2.6])
    table = equilibria(law, [(-1, 2)]).to_frame()
    assert "schur" in table and "hurwitz" not in table


def test_a_constraint_gives_the_two_rests_of_a_pendulum_seen_as_cosine_and_sine() -> None:
    law = Law.from_string(["-s*w", "c*w", "15*s + 3*u"], ["c", "s", "w", "u"])
    box = [(-1.1, 1.1), (-1.1, 1.1), (-8, 8)]
    down, up = equilibria(law, box, constraints=["c**2 + s**2 - 1"])
    np.testing.assert_allclose([down.z, up.z], [[-1, 0, 0], [1, 0, 0]], atol=1e-9)
    assert up.kind == "saddle" and down.kind.startswith("center")
    np.testing.assert_allclose(up.model.eigenvalues, [np.sqrt(15), -np.sqrt(15)])
    assert up.rank == down.rank == 2
    loose = equilibria(law, box)
    assert not loose[0].isolated and "continuum" in loose.notes[-1]


def local(time: str):
    law = Law.from_string(["-0.5*x + y", "-x - 0.3*y + u"], ["x", "y", "u"])
    around = linearize(Transition(law.torch(), integrator="rk4"), [0, 0], [0], dt=0.2)
    return around.field if time == "continuous" else around.step


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_controllability_agrees_with_python_control(time: str) -> None:
    model = local(time)
    found = controllability(model)
    assert found.controllable and found.rank == np.linalg.matrix_rank(
        control.ctrb(model.A, model.B)
    )


def test_a_direction_no_action_reaches_is_seen() -> None:
    law = Law.from_string(["-x", "0.4*y + u"], ["x", "y", "u"])
    around = linearize(Transition(law.torch(), integrator="rk4"), [0, 0], [0], dt=0.1)
    found = controllability(around.field)
    assert found.rank == 1 and not found.controllable
    assert found.singular_values[1] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(np.abs(found.directions[:, 0]), [0, 1], atol=1e-9)
    with pytest.raises(DataError, match="no actions"):
        controllability(linearize(Transition(Law.from_string(["x"], ["x"]).torch()), [0.0]).field)


def test_portrait_marks_every_equilibrium() -> None:
    ax = phase_portrait(PENDULUM, [(-7, 7), (-3, 3)])
    marks = [line for line in ax.lines if line.get_marker() in ("o", "X")]
    assert len(marks) == 5 and ax.get_xlabel() == "q"
    assert {t.get_text() for t in ax.get_legend().get_texts()} == {"stable focus", "saddle"}
    with pytest.raises(DataError, match="two coordinates"):
        phase_portrait(Law.from_string(["x"], ["x"]), [(-1, 1)])


def test_wrong_input_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="q, w"):
        equilibria(PENDULUM, [(3, -3), (-1, 1)])
    with pytest.raises(DataError, match="u needs 1"):
        equilibria(PENDULUM, [(-3, 3), (-1, 1)], u=[1.0, 2.0])
    with pytest.raises(ConfigError, match="got str"):
        equilibria("pendulum", [(-1, 1)])


def test_laws_that_are_not_defined_everywhere_have_their_equilibria_found() -> None:
    law = Law.from_string(["log(x)", "sqrt(y) - 1"], ["x", "y"])
    (point,) = equilibria(law, [(-2, 2), (-2, 2)])
    np.testing.assert_allclose(point.z, [1, 1], atol=1e-6)
    assert len(equilibria(Law.from_string(["sqrt(x)"], ["x"]), [(-1, 1)])) <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"box": [(-1, 1)]}, {"box": 3}, {"box": "ab"}, {"box": [("a", "b"), (0, 1)]}, {"u": "a"},
        {"constraints": 3}, {"starts": 0}, {"starts": "a"},
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_in_our_classes(wrong: dict[str, Any]) -> None:
    with pytest.raises(SjepaError):
        equilibria(PENDULUM, **{"box": [(-1, 1), (-1, 1)], **wrong})


def test_the_box_of_a_second_order_law_has_positions_and_velocities() -> None:
    law = Law.from_string(["-q"], ["q", "q_dot"], ["q_dot"])
    with pytest.raises(SjepaError, match="q_dot"):
        equilibria(law, [(-1, 1)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"low": "a"}, {"low": None}, {"horizon": "a"}, {"horizon": 2.5}, {"hold": 1.5},
        {"dt": "a"}, {"state_limits": 3}, {"state_limits": ("a", "b")},
    ],
)  # fmt: skip
def test_tasks_of_wrong_arguments_are_refused_in_our_classes(wrong: dict[str, Any]) -> None:
    given = {"low": -1.0, "high": 1.0, "dt": 0.1, **wrong}
    with pytest.raises(SjepaError):
        Task.of(PENDULUM, lambda z, u: z.square().sum(-1), **given)
