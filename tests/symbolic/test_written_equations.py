"""Laws are read back from the equations that they are printed as."""

import pytest

from sjepa import Law
from sjepa.errors import LawError, ParseError
from tests.command import run


@pytest.mark.parametrize(
    "law",
    [
        Law.from_string(["p", "-0.25*p - sin(q)"], ["q", "p"]),
        Law.from_string("u - 0.1*z1_dot - sin(z1)", ["z1", "z1_dot", "u"], ["z1_dot"]),
        Law.from_string(["x*(1 - y)", "where(x < 1, y, 0.5)"], ["x", "y"], dynamics="discrete"),
        Law.from_string("2*a + exp(b)", ["a", "b"], ["y"], "discrete"),
    ],
)
@pytest.mark.parametrize("between", ["\n", "; "])
def test_a_printed_law_is_read_back(law: Law, between: str) -> None:
    assert Law.from_string(between.join(law.lines()), law.inputs) == law
    assert Law.from_string(law.lines()) == law  # what moves first, then other names


def test_the_second_derivative_has_two_primes_in_print_and_two_dots_in_latex() -> None:
    law = Law.from_string("-sin(z1) - 0.1*z1_dot", ["z1", "z1_dot"], ["z1_dot"])
    assert str(law) == "z1'' = -0.1*z1_dot - sin(z1)"
    assert law.latex().startswith(r"\ddot{z_{1}} = ")
    assert law.to_dict()["outputs"] == ["z1_dot"]
    assert Law.from_string("z1_dot' = -sin(z1) - 0.1*z1_dot", law.inputs) == law


@pytest.mark.parametrize(
    ("equations", "options"),
    [
        (["q' = p", "-q"], {"inputs": ["q", "p"]}),
        (["q' = p", "p[t+1] = -q"], {}),
        ("x = -x", {}),
        ("x' = -x", {"outputs": ["y"]}),
        ("x' = -x", {"dynamics": "discrete"}),
        ("-x", {}),
    ],
)
def test_equations_that_contradict_themselves_are_refused(equations: object, options: dict) -> None:
    with pytest.raises(LawError):
        Law.from_string(equations, **options)


def test_a_comparison_is_no_left_side() -> None:
    with pytest.raises(ParseError):
        Law.from_string("x == 1", ["x"])


def test_commands_take_an_equation_for_a_law() -> None:
    written = run("export", "z1'' = -sin(z1)", "--to", "latex")
    assert written.stdout.strip() == r"\ddot{z_{1}} = - \sin{\left(z_{1} \right)}"
    path = run("simulate", "q' = p; p' = -q", "--start", "q=1,p=0", "--times", "0:1:0.5")
    assert path.stdout.splitlines()[-1].startswith("0,1.0,0.54030")
