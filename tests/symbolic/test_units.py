"""Units: terms that cannot stand in an equation are not offered to the search."""

import builtins

import numpy as np
import pytest

import sjepa
from sjepa import Backend, Grammar, Law, Library, Problem
from sjepa.errors import BackendUnavailable, ConfigError
from sjepa.symbolic.parse import parse
from sjepa.symbolic.units import DimensionCheck
from tests.command import run


NAMES = ["x", "v", "q", "t0"]
UNITS = {"x": "m", "v": "m/s", "q": "rad", "t0": "s", "x'": "m/s", "v'": "m/s**2"}


@pytest.mark.parametrize(
    ("text", "sound", "speed"),
    [
        ("v", True, True),
        ("x", True, False),
        ("x/t0", True, True),
        ("1", True, False),
        ("sin(q)", True, False),
        ("v*sin(q)", True, True),
        ("sin(x)", False, False),
        ("exp(x/v)", False, False),
        ("exp(t0*v/x)*v", True, True),
        ("x + v", False, False),
        ("sqrt(v**2 + x**2)", False, False),
        ("sqrt(v**2 + x**2/t0**2)", True, True),
        ("abs(v)*cos(q)", True, True),
        ("sign(x)*v", True, True),
        ("max(v, 0)", True, True),
        ("max(v, x)", False, False),
        ("safe_div(x, t0)", True, True),
        ("sqrt_safe(v**2)", True, True),
        ("log(2 + q)*v", True, True),
        ("x/(0.5 + x)", True, False),
    ],
)
def test_dimensions_by_hand(text, sound, speed):
    """`sound`: with a coefficient of any unit; `speed`: as meters per second by itself."""
    term = _floats(parse(text, NAMES))
    assert DimensionCheck(UNITS).fits(term, "x'") is sound
    strict = DimensionCheck(UNITS, dimensionless=True)
    assert strict.fits(term, "x'") is speed


def test_numbers_inside_may_have_a_unit_unless_they_have_none():
    term = parse("sin(0.5*x)", NAMES)
    assert DimensionCheck(UNITS).fits(_floats(term), "x'")
    assert not DimensionCheck(UNITS, dimensionless=True).fits(_floats(term), "x'")


def _floats(term):
    return Law([term], NAMES, ["x"]).expressions[0]


def springs(n=300):
    t = np.arange(n) * 0.05
    return np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1), t


def test_a_search_is_not_offered_the_sine_of_a_length():
    x, t = springs()
    front = sjepa.discover(
        x, t, feature_names=["x", "v"], library=["x", "v", "sin(x)", "x**3"],
        units={"x": "m", "v": "m/s", "t": "s"},
    )  # fmt: skip
    assert not any("sin" in str(c.law) for c in front)
    assert front.best().round(3) == Law.from_string(["v", "-4*x"], ["x", "v"])


def test_dimensionless_constants_leave_only_terms_of_the_equations_unit():
    x, _ = springs()
    library = Library.from_terms(["x", "v", "v**2/x", "x**2"], ["x", "v"])
    units = {"x": "m", "v": "m/s", "x'": "m/s", "v'": "m/s**2"}
    problem = Problem(x, x, library=library, units=units, dimensionless_constants=True)
    assert problem.candidate_library.mask(["x", "v"]).tolist() == [
        [False, False], [True, False], [False, True], [False, False],
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")
def test_second_order_laws_derive_the_units_of_velocities():
    x, t = springs()
    front = sjepa.discover(
        x[:, :1], t, order=2, feature_names=["x"],
        units=sjepa.Units({"x": "m", "t": "s"}, dimensionless_constants=True),
        library=Library.from_terms(["x", "x_dot", "x_dot**2/x"], ["x", "x_dot"]),
    )  # fmt: skip
    assert {str(t) for c in front for _, t in c.law.terms[0]} <= {"x_dot**2/x"}


def test_laws_of_tree_backends_that_break_units_are_left_out():
    class Trees(Backend):
        name = "trees"
        trees = True

        def search(self, problem):
            laws = [
                Law.from_string(one, problem.names) for one in (["v", "sin(x)"], ["v", "-4.1*x"])
            ]
            return problem.front(laws, self.name)

    x, t = springs()
    front = sjepa.discover(
        x, t, feature_names=["x", "v"], backend=Trees(), grammar=Grammar.default(["x", "v"]),
        units={"x": "m", "v": "m/s", "t": "s"},
    )  # fmt: skip
    assert len(front) == 1 and "sin" not in str(front[0].law)


@pytest.mark.parametrize(
    ("units", "why"),
    [
        ({"x": "m", "v": "m/s"}, "lacks t"),
        ({"x": "m", "t": "s"}, "lacks v"),
        ({"x": "m", "v": "m/s", "t": "s", "w": "m"}, "names 'w'"),
        ({"x": "m", "v": "furlongz", "t": "s"}, "cannot be read"),
        ({"x": "m", "v": 3, "t": "s"}, "is a text"),
        ({"x": "m", "v": "__import__('os')", "t": "s"}, "cannot be read"),
    ],
)
def test_units_that_cannot_be_used_are_named(units, why):
    x, t = springs()
    with pytest.raises(ConfigError, match=why):
        sjepa.discover(x, t, feature_names=["x", "v"], units=units)


def test_no_term_of_the_right_unit_is_said():
    x, t = springs()
    with pytest.raises(ConfigError, match="No term has the unit of x'"):
        sjepa.discover(
            x, t, feature_names=["x", "v"], library=["x"],
            units=sjepa.Units({"x": "m", "v": "m/s", "t": "s"}, dimensionless_constants=True),
        )  # fmt: skip


def test_without_pint_the_fix_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *arguments, **options):
        if name == "pint":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(BackendUnavailable, match=r"pip install 'sjepa\[units\]'"):
        DimensionCheck({"x": "m"})


def test_units_on_the_command_line(tmp_path):
    x, t = springs()
    path = tmp_path / "data.csv"
    np.savetxt(path, np.column_stack([t, x]), delimiter=",", header="t,x,v", comments="")
    given = ["--units", "x=m", "--units", "v=m/s", "--units", "t=s"]
    done = run("discover", path, "--time", "t", "--library", "x,v,sin(x)", *given)
    assert "sin" not in done.stdout and "x' = " in done.stdout, done.stderr
