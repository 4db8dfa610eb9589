"""Laws outside the library, from backends that write trees."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from sjepa import SJEPA, Backend, Front, Joint, Law, Library, Problem
from sjepa.symbolic import Candidate
from sjepa.symbolic.refit import refit
from sjepa.training.joint.refinement import linear_head
from sjepa.training.joint.tree_proposals import in_own_units, proposed
from sjepa.training.libraries import coordinate_grammar


NAMES = ["z1", "z2"]
LIBRARY = Library.paper(NAMES)
GRAMMAR = coordinate_grammar(NAMES, 2, 1)
SMALL = {"structures": 20, "restarts": 2, "finalists": 4, "grow": False}


@dataclass(frozen=True)
class Recorded(Backend):
    """Answers with trees that were written before, with numbers that suit the rows."""

    laws: tuple[tuple[str, ...], ...]
    name: ClassVar[str] = "recorded"
    trees: ClassVar[bool] = True

    def search(self, problem: Problem) -> Front:
        read = [Law.from_string(list(e), problem.names, problem.outputs) for e in self.laws]
        return problem.front([refit(law, *problem.rows()) for law in read], self.name)


@pytest.fixture(scope="module")
def sensors() -> tuple[list[np.ndarray], np.ndarray]:
    """Eight mixtures of x' = y, y' = 1 - exp(x), with 0.2 % of noise."""
    rng, t = np.random.default_rng(0), np.arange(0.0, 12.0, 0.1)

    def slope(_: float, s: Any) -> list[float]:
        return [s[1], 1 - np.exp(s[0])]

    states = [
        solve_ivp(slope, (0, t[-1]), rng.uniform(-1.5, 1.5, 2), t_eval=t, rtol=1e-9, atol=1e-10)
        for _ in range(10)
    ]
    mixed = [own.y.T @ mix for mix in [rng.normal(size=(2, 8))] for own in states]
    noise = 0.002 * np.concatenate(mixed).std()
    return [x + noise * rng.normal(size=x.shape) for x in mixed], t


def front(*laws: tuple[list[str], float]) -> Front:
    return Front.of(
        Candidate.score(Law.from_string(equations, NAMES), [loss, loss]) for equations, loss in laws
    )


def proposals(found: Front, spread: float = 1.0) -> tuple[Library, list[str]]:
    """The library and the proposed laws, for rows that reach this far from 0."""
    rows = spread * np.array([[-1.0, -1.0], [1.0, 1.0], [0.3, -0.2]])
    library, structures, begun = proposed(
        found, LIBRARY, linear_head(torch.eye(2).double()), rows, GRAMMAR
    )
    assert [own for _, own in begun] == structures[: len(begun)]
    return library, [own.names(library) for own in structures]


def test_the_scale_of_a_coordinate_takes_up_the_number_before_it() -> None:
    law = Law.from_string(["z2", "1 - exp(-0.5*z1) + tanh(2*z2)"], NAMES)
    own, scales = in_own_units(law, 2)
    assert scales.tolist() == [-0.5, 2.0]
    z = np.array([[0.3, -0.7], [1.2, 0.1]])
    np.testing.assert_allclose(own.numpy()(z * scales), law.numpy()(z) * scales)
    assert not any(t.has(0.5) for row in own.terms for _, t in row if t.has(own.symbols[0]))
    assert "exp(z1)" in str(own) and "tanh(z2)" in str(own)


def test_velocities_have_the_scale_of_their_coordinate() -> None:
    names = ["z1", "z1_dot"]
    law = Law.from_string(["exp(0.5*z1) + z1_dot**2"], names, ["z1_dot"])
    own, scales = in_own_units(law, 1)
    assert scales.tolist() == [0.5]
    assert own == Law.from_string(["0.5*exp(z1) + 2*z1_dot**2"], names, ["z1_dot"])


def test_terms_of_trees_join_the_library_under_all_names_and_cost_what_they_are() -> None:
    library, laws = proposals(front((["z2", "z1*exp(0.7*z1)"], 1e-4)))
    assert library.names[: len(LIBRARY)] == LIBRARY.names
    new = dict(zip(library.names, library.weights, strict=True))
    assert new["z1*exp(z1)"] == new["z2*exp(z2)"] == 3.0
    assert laws[0] == "z2; z1*exp(z1)"


def test_a_sum_of_coordinates_in_a_function_is_tried_as_a_coordinate_too() -> None:
    library, laws = proposals(front((["z2", "tanh(z1 + 0.3*z2 + 0.1) - z2"], 1e-4)))
    assert "tanh(z1)" in library.names and "tanh(z1 + z2 + 0.1)" in library.names
    assert {"z2; z2 + tanh(z1)", "z1 + tanh(z2); z1"} & set(laws[1:])


def test_poles_and_ends_of_domains_near_the_data_are_refused() -> None:
    quotient = front((["z2", "z1/(1.8 + z1)"], 1e-4))
    assert "z1/(z1 + 1)" in proposals(quotient, spread=0.5)[0].names
    assert proposals(quotient, spread=1.0) == (LIBRARY, [])  # the pole is 1.8 from the middle
    assert proposals(front((["z2", "log(2.5 + z1)"], 1e-4)), spread=1.5)[1] == []


def test_only_laws_that_leave_little_more_than_the_best_one_are_tried() -> None:
    rough, fine = (["z2", "-tanh(z1)"], 0.1), (["z2", "1 - exp(z1)"], 1e-4)
    library, _ = proposals(front(rough, fine))
    assert "exp(z1)" in library.names and "tanh(z1)" not in library.names


@pytest.mark.parametrize("order", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_any_tree_backend_can_end_in_a_law_outside_the_library(
    sensors: tuple[list[np.ndarray], np.ndarray], order: int
) -> None:
    pair = (("z2", "1 - exp(0.8*z1)"), ("1 - exp(0.8*z2)", "z1"))
    laws = pair if order == 1 else (("1 - exp(0.8*z1)",),)
    model = SJEPA(
        3 - order,
        search=Joint(**SMALL),
        order=order,
        backend=Recorded(laws),
        random_state=0,
        verbose=False,
    ).fit(*sensors)
    assert model.figures_["adequate"] and model.figures_["ratio"] < 2
    assert "exp(z" in str(model.law_)
    assert model.law_.complexity("terms") <= 4


@pytest.mark.slow
def test_operon_finds_a_short_law_where_the_library_has_none(
    sensors: tuple[list[np.ndarray], np.ndarray],
) -> None:
    operon = {"name": "operon", "runs": 1, "generations": 8, "population": 300}
    pytest.importorskip("pyoperon")
    fits = {
        name: SJEPA(search=Joint(**SMALL), backend=own, random_state=0, verbose=False).fit(*sensors)
        for name, own in (("operon", operon), ("stlsq", "stlsq"))
    }
    assert not fits["stlsq"].figures_["adequate"]
    found = fits["operon"]
    assert found.figures_["adequate"] and found.figures_["ratio"] < 2
    assert "exp(z" in str(found.law_) and found.law_.complexity("terms") <= 4
