"""Conserved quantities are found, in their simplest form, and none is invented."""

import numpy as np
import pytest

from benchmarks.invariants import CONSERVATIVE, DISSIPATIVE, change
from sjepa import Law
from sjepa.errors import LawError


@pytest.mark.parametrize("name", CONSERVATIVE)
def test_what_a_textbook_system_conserves_is_constant_along_its_paths(name: str) -> None:
    system = CONSERVATIVE[name]
    found = system.law.invariants(seed=3)
    assert len(found) == system.conserved
    for quantity in found:
        assert change(system, quantity, seed=4) < 1e-6


@pytest.mark.parametrize("name", DISSIPATIVE)
def test_what_loses_energy_conserves_nothing(name: str) -> None:
    assert DISSIPATIVE[name].law.invariants(seed=3) == []


def texts(law: Law, **options: object) -> list[str]:
    return [str(quantity) for quantity in law.invariants(**options)]  # type: ignore[arg-type]


def test_the_energy_is_there_once_and_its_square_is_not() -> None:
    law = Law.from_string(["p", "-4*q"], ["q", "p"])
    assert texts(law) == ["p**2 + 4*q**2"]
    assert texts(law, terms=["q**4", "q**2*p**2", "p**4"]) == ["p**4 + 8*p**2*q**2 + 16*q**4"]


def test_a_law_with_fitted_coefficients_conserves_its_own_energy() -> None:
    law = Law.from_string(["0.99713*p", "-1.00291*sin(q)"], ["q", "p"])
    (energy,) = law.invariants()
    run = law.simulate([0.4, 0.7], np.linspace(0, 20, 50), rtol=1e-11, atol=1e-13)
    values = Law([energy], law.inputs, ["y"], "discrete").numpy()(run.z)
    assert np.ptp(values) < 1e-8 * np.abs(values).max()


def test_friction_of_a_millionth_is_friction() -> None:
    assert texts(Law.from_string(["p", "-q - 1e-6*p"], ["q", "p"])) == []


def test_second_order_maps_inputs_and_laws_at_rest() -> None:
    second = Law.from_string(["-2*q**3"], ["q", "q_dot"], ["q_dot"])
    assert texts(second) == ["q**4 + q_dot**2"]
    swap = Law.from_string(["y", "x"], ["x", "y"], dynamics="discrete")
    assert texts(swap) == ["x + y", "x*y"]
    assert texts(Law.from_string(["p", "u - q"], ["q", "p", "u"], ["q", "p"])) == []
    assert texts(Law.from_string(["u*p", "-u*q"], ["q", "p", "u"], ["q", "p"])) == ["p**2 + q**2"]
    assert texts(Law.from_string(["0", "0"], ["x", "y"])) == ["x", "y"]


def test_bounds_say_where_states_of_another_size_lie() -> None:
    law = Law.from_string(["p", "-1e6*q - 1e-2*q**3"], ["q", "p"])
    assert texts(law) == []  # near 0 the cube cannot be told from rounding
    bounds = {"q": (-1e4, 1e4), "p": (-1e7, 1e7)}
    energy = Law([law.invariants(bounds=bounds)[0]], law.inputs, ["y"], "discrete").numpy()
    q, p = np.array([[8e3, 1e3, -2e3], [1e6, 5e6, 0.0]])
    exact = p**2 / 2 + 5e5 * q**2 + 2.5e-3 * q**4
    ratio = energy(np.stack([q, p], axis=1))[:, 0] / exact
    assert np.ptp(ratio) < 1e-9 * ratio[0]


def test_wrong_bounds_get_one_line() -> None:
    law = Law.from_string(["p", "-q"], ["q", "p"])
    with pytest.raises(LawError, match="bounds names 'x'; the inputs are q, p"):
        law.invariants(bounds={"x": (0, 1)})
    with pytest.raises(LawError, match="a least and a larger value"):
        law.invariants(bounds={"q": (1, 0)})
