"""What must not change a law or its verdict: units, offsets, order, cuts, names, other columns."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import sympy

import sjepa
from sjepa import Front, Law
from sjepa.data import Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.errors import DataWarning, NumericalWarning
from tests.inference.metamorphic import Change, is_right, pairs


NOISE = 0.01
QUICK = ("linear_oscillator", "duffing", "lotka_volterra", "sir", "double_well", "rossler")


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 20), (0.01, 21)])
def test_random_changes_of_random_systems_keep_the_law(noise: float, seed: int) -> None:
    """What is not heard of may not be wrong; of so few pairs none is."""
    found = list(pairs(12, seed, names=QUICK, level=noise))
    assert {one.before for one in found} == {"right"}
    assert not [str(one) for one in found if one.wrong]


@pytest.mark.slow
def test_changes_that_were_never_seen_before_keep_the_law() -> None:
    seed = random.SystemRandom().randrange(10**6)
    found = list(pairs(100, seed))
    wrong = [f"seed {seed}: {one}" for one in found if one.wrong]
    assert not [one for one in wrong if ": silent" in one] and len(wrong) <= 3, wrong


@pytest.mark.parametrize("seed", [3, 4])
def test_what_made_up_for_a_missing_template_goes_when_it_is_found(seed: int) -> None:
    """In these units the sine of an angle has a frequency to be found, and p**3 stood in for it."""
    data = changed(
        simulate("pendulum", seed=seed, noise=NOISE), lambda x: x * np.array([1.2e4, 0.075]), 2.1e4
    )
    law = sjepa.discover(data, verbose=False).best()
    assert terms(law)[0] == {"p"} and len(law.terms[1]) == 1


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 3), (NOISE, 5)])
def test_an_angle_may_count_from_anywhere_in_any_unit(noise: float, seed: int) -> None:
    """Then the force is a wave of a frequency and a phase that are in no library."""
    data = simulate("damped_pendulum", seed=seed, noise=noise)
    law = sjepa.discover(
        changed(data, lambda x: 3.8 * (x + np.array([2.3, 0.0]))), verbose=False
    ).best()
    assert terms(law)[0] == {"p"}
    waves = [t for _, t in law.terms[1] if t.has(sympy.sin, sympy.cos)]
    others = {str(t) for _, t in law.terms[1] if t not in waves}
    assert len(waves) == 1 and others == {"p"}, law


@pytest.mark.parametrize("noise", [0.0, NOISE])
@pytest.mark.parametrize("offset", [1e4, 1e5])
def test_far_from_the_origin_a_line_is_not_taken_for_a_parabola(
    noise: float, offset: float
) -> None:
    data = simulate("linear_oscillator", seed=17, noise=noise)
    spread = np.concatenate(data.x).std(axis=0)
    law = sjepa.discover(changed(data, lambda x: x + offset * spread), verbose=False).best()
    assert terms(law) == [{"1", "x", "y"}] * 2


def duffing(seed: int = 11) -> Trajectories:
    return simulate("duffing", seed=seed, noise=NOISE, trajectories=6)


@pytest.fixture(scope="module")
def plain() -> Front:
    return sjepa.discover(duffing(), verbose=False)


def terms(law: Law) -> list[set[str]]:
    return [{str(t) for _, t in row} for row in law.terms]


def changed(
    data: Trajectories, f: Callable[[np.ndarray], np.ndarray], time: float = 1.0
) -> Trajectories:
    return Trajectories([f(x) for x in data.x], [time * t for t in data.t], names=data.names)


def assert_same(front: Front, plain: Front) -> None:
    assert terms(front.best()) == terms(plain.best()) == [{"v"}, {"x", "x**3", "v"}]
    assert front.verdict is not None and plain.verdict is not None
    assert front.verdict.adequate is plain.verdict.adequate is True


@pytest.mark.parametrize("unit", [1e-5, 1e4])
def test_units_of_the_states(plain: Front, unit: float) -> None:
    front = sjepa.discover(changed(duffing(), lambda x: unit * x), verbose=False)
    assert_same(front, plain)
    own, before = (dict((str(t), c) for c, t in f.best().terms[1]) for f in (front, plain))
    assert own["x"] == pytest.approx(before["x"], rel=1e-3)
    assert own["x**3"] == pytest.approx(before["x**3"] / unit**2, rel=1e-3)


@pytest.mark.parametrize("unit", [1e-5, 1e4])
def test_the_unit_of_time(plain: Front, unit: float) -> None:
    front = sjepa.discover(changed(duffing(), lambda x: x, unit), verbose=False)
    assert_same(front, plain)
    assert front.best().terms[0][0][0] == pytest.approx(
        plain.best().terms[0][0][0] / unit, rel=1e-3
    )


def test_an_added_offset_is_part_of_the_law() -> None:
    """x' = -0.2 x + 1.5 y around (3, -2) has constants, and the same rates."""
    data = simulate("linear_oscillator", seed=4, noise=NOISE)
    front = sjepa.discover(changed(data, lambda x: x + np.array([3.0, -2.0])), verbose=False)
    assert terms(front.best()) == [{"1", "x", "y"}, {"1", "x", "y"}]
    assert front.verdict is not None and front.verdict.adequate is True
    rates = {str(t): c for c, t in front.best().terms[0]}
    assert rates["x"] == pytest.approx(-0.2, abs=0.02)
    assert rates["1"] == pytest.approx(0.2 * 3 + 1.5 * 2, rel=0.03)


def test_the_order_of_states(plain: Front) -> None:
    data = duffing()
    turned = Trajectories([x[:, ::-1] for x in data.x], data.t, names=("v", "x"))
    front = sjepa.discover(turned, verbose=False)
    assert terms(front.best()) == terms(plain.best())[::-1]
    assert front.verdict is not None and front.verdict.adequate is True


def test_the_order_of_trajectories(plain: Front) -> None:
    data = duffing()
    front = sjepa.discover(data[np.arange(len(data))[::-1]], verbose=False)
    assert_same(front, plain)


def test_a_trajectory_cut_in_two(plain: Front) -> None:
    data = duffing()
    x = [part for x in data.x for part in (x[:200], x[200:])]
    t = [part for t in data.t for part in (t[:200], t[200:])]
    assert_same(sjepa.discover(Trajectories(x, t, names=data.names), verbose=False), plain)


def test_the_data_twice(plain: Front) -> None:
    data = duffing()
    twice = Trajectories([*data.x, *data.x], [*data.t, *data.t], names=data.names)
    with pytest.warns(DataWarning, match="Trajectory 6 and 5 more is a copy"):
        front = sjepa.discover(twice, verbose=False)
    assert_same(front, plain)
    assert front.best() == plain.best(), "copies are no evidence"


def test_names_of_columns(plain: Front) -> None:
    data = duffing()
    front = sjepa.discover(Trajectories(data.x, data.t, names=("pos", "rate")), verbose=False)
    assert terms(front.best()) == [{"rate"}, {"pos", "pos**3", "rate"}]
    assert front.verdict is not None and front.verdict.adequate is True


@pytest.mark.parametrize(
    "name", ["duffing", "van_der_pol", "fitzhugh_nagumo", "brusselator", "lorenz"]
)
def test_an_oscillator_beside_the_system_takes_no_term_from_it(name: str) -> None:
    """For four states the default library had no cubes, and sines and tanh stood in for them."""
    data = simulate(name, seed=1, noise=NOISE)
    d = data.obs_shape[0]
    change = Change(np.ones(d), np.ones(0), company="oscillator", phase=0.3)
    front = sjepa.discover(change.data(data, NOISE), verbose=False)
    assert is_right(front.best(), change.truth(name, data))
    assert front.verdict is not None and front.verdict.adequate is True


def test_a_column_that_has_nothing_to_do_with_the_law(plain: Front) -> None:
    data = duffing()
    other = [np.cos(2.3 * t + i)[:, None] + 0.01 * np.sin(1e5 * t)[:, None]
             for i, t in enumerate(data.t)]  # fmt: skip
    x = [np.concatenate(pair, axis=1) for pair in zip(data.x, other, strict=True)]
    with pytest.warns(NumericalWarning):  # no function of the state moves the third
        front = sjepa.discover(Trajectories(x, data.t, names=("x", "v", "w")), verbose=False)
    assert terms(front.best())[:2] == terms(plain.best())
