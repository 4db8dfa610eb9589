import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sympy
from hypothesis import given, strategies as st

import sjepa
from sjepa.errors import FormatError, ParseError, SjepaError
from sjepa.symbolic import Law, parse
from sjepa.symbolic.operators import SPELLINGS


HOSTILE = [
    "__import__('os').system('x')",
    "x.__class__",
    "x.real",
    "(lambda: 1)()",
    "lambda: 1",
    "[x for x in (1,2)]",
    "{x: 1}",
    "exec('1')",
    "eval('1')",
    "open('file')",
    "10**10**10",
    "9**9**9**9",
    "(" * 10_000 + "x" + ")" * 10_000,
    "(" * 5_000 + "x" + ")" * 5_000,
    "-" * 9_000 + "x",
    "sin(" * 300 + "x" + ")" * 300,
    "x" + "+x" * 9_000,
    "foo(x)",
    "sinn(x)",
    "",
    "   ",
    "\u0445 + 1",  # Cyrillic ha
    "x\u2212y",  # minus sign
    "\uff53in(x)",  # full-width s, which Python would normalize to sin
    "x\u200b",
    "x\n+1",
    "x\x00",
    "9" * 400,
    "9" * 9_000,
    "1e999",
    "0x" + "f" * 5_000,
    "1j*x",
    "True",
    "None",
    "'text'",
    "f'{x}'",
    "x if x else 1",
    "x := 1",
    "x and y",
    "x == 1",
    "x > 0",
    "not x",
    "~x",
    "x @ x",
    "x // 2",
    "x << 2",
    "x[0]",
    "*x",
    "sin(x=1)",
    "sin(*x)",
    "sin()",
    "sin(x, x)",
    "unknown",
    "x;y",
    "x y",
    "2(x)",
    "log(0)",
    "log(-1)",
    "1/0",
    "x/(x - x)",
    "0**-1",
    "(-8)**0.5",
    "exp(exp(exp(10)))",
    "inf",
    "nan",
    "where(x, 1, 2)",
    "where(x > 0, 1)",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: repr(t[:24]))
def test_refused_with_a_position_and_at_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[object] = []
    monkeypatch.setattr(os, "system", executed.append)
    start = time.process_time()
    with pytest.raises(ParseError, match=r"column \d+") as refusal:
        parse(text, ["x"])
    assert time.process_time() - start < 5.0
    assert "\n" not in str(refusal.value)
    assert executed == []


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: repr(t[:24]))
def test_refused_inside_a_law_file(text: str) -> None:
    import json

    data = {
        "format": "sjepa-law", "version": 1, "dynamics": "continuous",
        "inputs": ["x"], "outputs": ["x"], "expressions": [text],
    }  # fmt: skip
    with pytest.raises(ParseError):
        Law.from_json(json.dumps(data))


# PySR writes x > 0 for its operator `greater`, a number.
@pytest.mark.parametrize("text", [t for t in HOSTILE if t != "x > 0"], ids=lambda t: repr(t[:24]))
def test_refused_inside_a_hall_of_fame(text: str, tmp_path: Path) -> None:
    import csv

    path = tmp_path / "hall_of_fame.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["Complexity", "Loss", "Equation"], [1, 0.5, text]])
    with pytest.raises(SjepaError):
        Law.from_pysr(path, inputs=["x"])


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        "{}",
        '{"format": "sjepa-law"}',
        '{"format": "sjepa-law", "version": 99}',
        '{"format": "sjepa-law", "version": 1, "inputs": "x", "outputs": [], "expressions": []}',
        '{"format": "sjepa-law", "version": 1, "inputs": ["x"], "outputs": ["x"], "expressions": [1]}',
        "[" * 100_000,
    ],
)
def test_damaged_law_files_are_refused(text: str) -> None:
    with pytest.raises(SjepaError):
        Law.from_json(text)


def test_a_law_of_an_unknown_version_says_which_one_is_read() -> None:
    with pytest.raises(FormatError, match="version 2; this release reads 1"):
        Law.from_json('{"format": "sjepa-law", "version": 2}')


@pytest.mark.parametrize(
    ("text", "column"),
    [("x + foo(x)", 5), ("x^2 + y", 7), ("x^2 + x^2 + 1j", 13), ("  x + zz", 7), ("sin(x) $ 2", 8)],
)
def test_the_column_points_at_the_trouble(text: str, column: int) -> None:
    with pytest.raises(ParseError, match=rf"column {column}\)"):
        parse(text, ["x"])


def test_near_misses_are_suggested() -> None:
    with pytest.raises(ParseError, match="Did you mean 'sin'"):
        parse("sinn(x)", ["x"])
    with pytest.raises(ParseError, match="Did you mean 'theta'"):
        parse("thta + 1", ["theta"])


def test_names_outside_ascii_are_allowed_when_they_are_inputs() -> None:
    assert parse("sin(θ)", ["θ"]) == sympy.sin(sympy.Symbol("θ", real=True))


# By Python's own mathematics at arguments where the safe operators equal the ordinary ones.
VALUES: dict[str, Callable[..., float]] = {
    name: getattr(math, name)
    for name in (
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "exp", "log",
        "erf", "floor", "ceil", "sqrt", "cbrt", "log2", "log10", "log1p", "pow",
    )
} | {
    "Abs": abs, "Max": max, "Min": min, "Mod": lambda a, b: a % b,
    "sign": lambda x: 1.0, "Heaviside": lambda x: 1.0,
    "safe_div": lambda a, b: a / b, "exp_clip": math.exp, "log_safe": math.log,
    "sqrt_safe": math.sqrt, "square": lambda x: x * x, "cube": lambda x: x * x * x,
    "inv": lambda x: 1 / x, "neg": lambda x: -x, "relu": lambda x: x,
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "log_abs": math.log, "sqrt_abs": math.sqrt,
    "greater": lambda a, b: float(a > b), "less": lambda a, b: float(a < b),
    "greater_equal": lambda a, b: float(a >= b), "less_equal": lambda a, b: float(a <= b),
    "cond": lambda a, b: b, "fma": lambda a, b, c: a * b + c,
    "clamp": lambda x, low, high: min(max(x, low), high),
}  # fmt: skip


@pytest.mark.parametrize("spelling", sorted(SPELLINGS))
def test_every_spelling_in_the_table_is_read(spelling: str) -> None:
    row = SPELLINGS[spelling]
    names = ["x", "y", "z"][: row.arity]
    written = Law.from_string(f"{spelling}({', '.join(names)})", ["x", "y", "z"])
    point = np.array([0.7, 0.4, 0.9])
    expected = VALUES[row.name](*point[: row.arity])
    assert float(written.numpy()(point)[0]) == pytest.approx(expected, rel=1e-12)


def test_numbers_are_kept_as_written() -> None:
    assert parse("0.1 + 0.2", ["x"]) == sympy.Rational(3, 10)
    assert parse("1.5f-3", ["x"]) == sympy.Rational(15, 10_000)


def test_long_sums_are_read() -> None:
    text = " + ".join(f"{i}.5*x**{i % 7}" for i in range(400))
    assert parse(text, ["x"]).free_symbols == {sympy.Symbol("x", real=True)}


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse(text, ["x", "y"]), sympy.Expr)
    except ParseError:
        pass


@given(st.text(alphabet="xy0123456789.+-*/^()e ,sincogt<>", max_size=50))
def test_any_formula_like_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse(text, ["x", "y"]), sympy.Expr)
    except ParseError:
        pass


def test_nothing_in_the_package_executes_outside_text() -> None:
    unsafe = re.compile(
        r"(?<![.\w])(?:eval|exec)\(|\bsympify\(|\bparse_expr\(|pickle\.loads?\("
        r"|torch\.load\((?![^\n]*weights_only=True)"
        r"|\blambdify\(|allow_pickle=True|np\.load\((?![^\n]*allow_pickle=False)"
    )
    root = Path(sjepa.__file__).parent.parent
    files = [*root.glob("sjepa/**/*.py"), *root.glob("backends/**/*.py")]
    assert len(files) > 20
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if unsafe.search(line)
    ]
    assert found == []


def test_the_command_line_refuses_hostile_text_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    path.write_text(
        '{"format": "sjepa-law", "version": 1, "inputs": ["x"], "outputs": ["x"],'
        " \"expressions\": [\"__import__('os').mkdir('pwned')\"]}"
    )
    out = subprocess.run(
        [sys.executable, "-m", "sjepa", "export", str(path), "--to", "latex"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert out.returncode == 2
    assert "column 1" in out.stderr and len(out.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "pwned").exists()
