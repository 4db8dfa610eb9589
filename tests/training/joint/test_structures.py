"""Structures by increasing complexity, one of each up to the names of the coordinates."""

from itertools import product

import pytest
import sympy

from sjepa.errors import ConfigError
from sjepa.symbolic import Candidate, Front, Law, Library
from sjepa.training.joint import enumerate_structures, structures_of
from sjepa.training.joint.structures import Symmetry, structure


LIBRARY = Library.paper(["z1", "z2"])


def test_structures_come_cheapest_first_and_only_once() -> None:
    found = enumerate_structures(LIBRARY, 2, 150)
    costs = [s.cost for s in found]
    assert costs == sorted(costs) and len({s.support for s in found}) == 150
    for s in found:
        assert s.cost == sum(LIBRARY.weights[p] for row in s.support for p in row)


def test_one_term_structures_are_all_there_up_to_renaming() -> None:
    found = {s.support for s in enumerate_structures(LIBRARY, 2, 10_000, max_terms=1)}
    # A pair of equations (f, g) is the same law as (g, f) with z1 and z2 exchanged.
    z1, z2 = sympy.symbols("z1 z2", real=True)
    swap = {z1: z2, z2: z1}
    moving = [t for t in LIBRARY.terms if t.free_symbols]
    every = {
        frozenset({(f, g), tuple(t.subs(swap, simultaneous=True) for t in (g, f))})
        for f, g in product(moving, repeat=2)
    }
    pairs = [tuple(LIBRARY.terms[p] for (p,) in support) for support in found]
    assert len(pairs) == len(every)
    assert {next(law for law in every if pair in law) for pair in pairs} == every


def test_the_pendulum_is_among_the_first_hundred() -> None:
    names = {s.names(LIBRARY) for s in enumerate_structures(LIBRARY, 2, 100)}
    assert names & {"z2; sin(z1)", "sin(z2); z1"}


def test_no_equation_is_empty_or_a_mere_constant() -> None:
    for s in enumerate_structures(LIBRARY, 2, 200):
        for row in s.support:
            assert any(LIBRARY.terms[p].free_symbols for p in row)


def test_a_mask_is_respected() -> None:
    masked = LIBRARY.with_mask({"z1": ["z2"], "z2": ["sin(z1)", "z2"]})
    names = [s.names(masked) for s in enumerate_structures(masked, 2, 50)]
    assert set(names) == {"z2; z2", "z2; z2 + sin(z1)", "z2; sin(z1)"}


def test_a_front_becomes_proposals() -> None:
    inside = Law.from_string(["z2", "-sin(z1) + 0.1*z2"], ["z1", "z2"])
    foreign = Law.from_string(["z2", "z1**5"], ["z1", "z2"])
    front = Front.of([Candidate.score(inside, [0.01, 0.01]), Candidate.score(foreign, [0.1, 0.1])])
    for laws in (front, [foreign, inside]):
        assert [s.names(LIBRARY) for s in structures_of(laws, LIBRARY)] == ["z2; z2 + sin(z1)"]


def test_no_structures_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        enumerate_structures(LIBRARY, 2, 0)


def test_laws_that_differ_in_the_origin_of_a_coordinate_are_the_same() -> None:
    library = Library.from_terms(["1", "z1", "sin(z1)", "cos(z1)", "z1_dot"], ["z1", "z1_dot"])
    one, z, sine, cosine, rate = range(5)
    symmetry = Symmetry(library, 1)
    assert symmetry.law(((cosine, rate),)) == symmetry.law(((sine, rate),))
    assert symmetry.law(((one, sine),)) == symmetry.law(((sine,),))
    assert symmetry.law(((z, cosine),)) != symmetry.law(((z, sine),))
    right, longer = structure(library, ((sine,),)), structure(library, ((cosine, rate),))
    assert symmetry.contains(longer, right) and not symmetry.contains(right, longer)


def test_a_law_of_two_coordinates_keeps_its_pairs_where_one_is_shifted() -> None:
    symmetry, names = Symmetry(LIBRARY, 2), LIBRARY.names

    def support(*rows: str) -> tuple[tuple[int, ...], ...]:
        return tuple((names.index(row),) for row in rows)

    pendulum = symmetry.law(support("z2", "sin(z1)"))
    for rows in (("z2", "cos(z1)"), ("sin(z2)", "z1"), ("cos(z2)", "z1")):
        assert symmetry.law(support(*rows)) == pendulum
    assert symmetry.law(support("z2", "sin(z2)")) != pendulum
