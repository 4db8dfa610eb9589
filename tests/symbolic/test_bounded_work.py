"""Any text is read with bounded work, and read as it is meant."""

import numpy as np
import pytest
import sympy
from sympy.core import power as sympy_power

from sjepa.errors import LawError, ParseError
from sjepa.symbolic import Law
from sjepa.symbolic.imports.pysr import parse_pysr
from sjepa.symbolic.parse import parse


POINTS = np.random.default_rng(0).uniform(0.2, 2.0, (50, 2))

# Rows of genuine PySR halls of fame that were never read to the end.
NESTED_POWERS = {
    "(1.6370573*x0/(1.6337117*x1)^0.20694572)^0.20704003": lambda x, y: (
        (1.6370573 * x / (1.6337117 * y) ** 0.20694572) ** 0.20704003
    ),
    "((square(x0) * 1.6370573) * (square(square(square(0.68132865 ^ x1))) / (square((square("
    "0.66525114 ^ x1) * 2.9607575) * (inv(x0) * 1.6337117)) ^ 0.20694572))) ^ 0.20704003": (
        lambda x, y: (
            x**2 * 1.6370573 * 0.68132865 ** (8 * y)
            / (0.66525114 ** (2 * y) * 2.9607575 / x * 1.6337117) ** (2 * 0.20694572)
        ) ** 0.20704003
    ),
    "((1.234567*x0)^0.3333*7.654321*x1)^-0.7777": lambda x, y: (
        ((1.234567 * x) ** 0.3333 * 7.654321 * y) ** -0.7777
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", NESTED_POWERS)
def test_nested_powers_are_read_with_short_numbers(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = 0
    real = sympy_power.Pow.__new__

    def watched(cls: type, b: object, e: object, evaluate: bool | None = None) -> sympy.Expr:
        nonlocal longest
        value = real(cls, b, e, evaluate)
        for number in getattr(value, "atoms", lambda *_: ())(sympy.Rational):
            longest = max(longest, int(number.p).bit_length(), int(number.q).bit_length())
        # Work is counted in the length of the numbers: 4,000 bits are more than 1,000 digits.
        assert longest < 4_000
        return value

    monkeypatch.setattr(sympy_power.Pow, "__new__", watched)
    law = Law([parse_pysr(text, ["x0", "x1"])], ["x0", "x1"], ["y"])
    monkeypatch.undo()
    np.testing.assert_allclose(law.numpy()(POINTS)[:, 0], NESTED_POWERS[text](*POINTS.T), rtol=1e-7)
    assert Law.from_json(law.to_json()) == law


@pytest.mark.parametrize(
    "text",
    [
        "square(" * 40 + "1.5*x0" + ")" * 40,
        "cube(" * 30 + "x0" + ")" * 30,
        "(((x0^300)^300)^300)",
        "(1.5e200*x0)^3",
        "+".join("(x0 > 1)" for _ in range(3)).join("()")
        + " > ("
        + "+".join(f"(x1 > {i})" for i in range(9))
        + ")",
    ],
)
def test_what_would_grow_without_bound_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match=r"column \d+"):
        parse(text, ["x0", "x1"], indicator=True)


def test_a_maximum_of_many_is_read_without_comparing_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("asked whether one function is always the larger")

    monkeypatch.setattr("sympy.core.relational.is_ge", refuse)
    text = "max(" + ", ".join(f"sin({k}*x + y)" for k in range(1, 65)) + ")"
    law = Law.from_string(text, ["x", "y"])
    expected = np.max([np.sin(k * POINTS[:, 0] + POINTS[:, 1]) for k in range(1, 65)], axis=0)
    np.testing.assert_allclose(law.numpy()(POINTS)[:, 0], expected)


def test_maxima_keep_the_largest_of_what_differs_by_a_number() -> None:
    law = Law.from_string(["max(x, y, x + 1, 2, 3)", "min(x, x + 1, 2, 3)"], ["x", "y"])
    assert law.lines() == ["x' = Max(3, y, x + 1)", "y' = Min(2, x)"]
    x, y = law.symbols
    theirs = Law([sympy.Max(x, y), sympy.Min(x, 2)], ["x", "y"])
    assert theirs == Law.from_string(["max(x, y)", "min(x, 2)"], ["x", "y"])


def test_twenty_thousand_inputs_are_looked_up_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names were compared with one another, and every equation made all symbols anew."""
    made = 0
    real = sympy.Symbol.__new__

    def counted(cls: type, *arguments: object, **assumptions: object) -> sympy.Symbol:
        nonlocal made
        made += 1
        return real(cls, *arguments, **assumptions)

    monkeypatch.setattr(sympy.Symbol, "__new__", counted)
    names = [f"x{i}" for i in range(20_000)]
    law = Law.from_string(["x3 + 0.5*x19999"] * 5, names)
    assert len(law.outputs) == 5 and made < 1.1 * len(names)
    with pytest.raises(ParseError, match="Unknown name 'y'") as refusal:
        parse("y", names)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(x0 > 1) > x1", lambda a, b: (a > 1) * 1.0 > b),
        ("(x0 > x1) > (x1 > 0.5)", lambda a, b: (a > b) * 1 > (b > 0.5) * 1),
        ("greater(greater(x0, 1), less(x1, x0))", lambda a, b: (a > 1) * 1 > (b < a) * 1),
        ("((x0 > 1) >= (x1 > 1)) <= (x0 < x1)",
         lambda a, b: ((a > 1) * 1 >= (b > 1) * 1) * 1 <= (a < b) * 1),
        ("sin((x0 > 1) + x1) > 0.3", lambda a, b: np.sin((a > 1) + b) > 0.3),
        ("cond(x0 > x1, x1)", lambda a, b: np.where(a > b, b, 0)),
    ],
)  # fmt: skip
def test_comparisons_of_comparisons_are_emitted_everywhere(text: str, expected: object) -> None:
    law = Law([parse_pysr(text, ["x0", "x1"])], ["x0", "x1"], ["y"])
    values = np.asarray(expected(*POINTS.T), dtype=float)  # type: ignore[operator]
    np.testing.assert_array_equal(law.numpy()(POINTS)[:, 0], values)
    assert Law.from_json(law.to_json()) == law
    assert [float(law.casadi()(p)) for p in POINTS] == values.tolist()
    assert law.c() and law.julia() and law.torch_source() and law.complexity() > 0


@pytest.mark.parametrize("name", ["ϕ", "µ", "ℓ", "ϵ", "ϑ", "ｘ", "θ"])
def test_names_are_kept_as_written(name: str) -> None:
    law = Law.from_string(f"2*sin({name}) - z", [name, "z"])
    assert law.inputs[0] == name and name in law.lines()[0]
    assert Law.from_json(law.to_json()) == law
    namespace: dict[str, object] = {}
    exec(compile(law.python("f"), "law", "exec"), namespace)  # our own output
    expected = 2 * np.sin(POINTS[:, 0]) - POINTS[:, 1]
    np.testing.assert_allclose(namespace["f"](POINTS)[:, 0], expected)  # type: ignore[operator]


@pytest.mark.parametrize(("one", "two"), [("x", "ｘ"), ("φ", "ϕ"), ("μ", "µ")])
def test_names_that_look_alike_are_refused(one: str, two: str) -> None:
    """Their difference was read as 0."""
    with pytest.raises(LawError, match="look alike"):
        Law.from_string(f"{one} - {two}", [one, two])
    with pytest.raises(ParseError, match="column 1"):
        parse(f"{two} + 1", [one])


def test_a_function_in_other_letters_is_no_input() -> None:
    with pytest.raises(LawError, match="a function or a reserved word"):
        Law.from_string("ｓｉｎ", ["ｓｉｎ"])


def test_columns_count_characters_not_bytes() -> None:
    with pytest.raises(ParseError, match=r"'y'.*\(column 7\)"):
        parse("θ*θ + y", ["θ"])


def test_case_distinctions_inside_conditions_are_read_without_solving_them() -> None:
    inner = "where(log_safe(0.3**y) >= where(0.3 < y, 0.3, E)**(y**pi), (pi + y)**y, 2 + pi)"
    text = f"pi**where(sin(where(y > where(2 > y, 0.3, 1), y**E, pi**0.3)) > {inner}, x, 1.4)"
    law = Law.from_string(text, ["x", "y"], ["f"])
    plain = {"where": lambda c, a, b: a if c else b, "sin": np.sin, "pi": np.pi, "E": np.e}
    plain["log_safe"] = lambda v: np.log(np.abs(v))
    values = [eval(text, plain, {"x": x, "y": y}) for x, y in POINTS]
    np.testing.assert_allclose(law.numpy()(POINTS)[:, 0], values, rtol=1e-9)


def test_conditions_that_sympy_rewrites_without_end_are_read() -> None:
    text = "where(1.35e-05*(x+y) <= -3.1e-06*(x+y) and 0.002*x > 2.1*exp(x) + 2, (x-1)**2, 3)"
    law = Law.from_string(text, ["x", "y"], ["f"])
    assert law.numpy()([-1.0, -1.0]) == pytest.approx([3.0])
