import ctypes
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from matplotlib.mathtext import MathTextParser

from sjepa.errors import LawError
from sjepa.symbolic import Law
from sjepa.symbolic.operators import OPERATORS


EVERYTHING = Law.from_string(
    [
        "0.3*sin(x) - 1.25*y*abs(y) + safe_div(x, y + 0.1) + exp_clip(x)*log_safe(y)",
        "x**3/(y**2 + 1) - sqrt_safe(x) + max(x, y, 0.5) + sign(x)*tanh(2*y)",
        "where(x > 0 and y < 1, x, -y) + mod(x, 0.7) + heaviside(y) + sqrt(x**2 + 1) + x**-2",
        "exp(-x**2/2) + atan(y) + cos(x)*sinh(y)/3 + floor(x) + ceil(y) + min(x, y) + abs(x)**1.37",
    ],
    inputs=["x", "y"],
    outputs=["a", "b", "c", "d"],
    dynamics="discrete",
)
POINTS = np.random.default_rng(0).uniform(-2, 2, (200, 2))


def operator_laws() -> list[Law]:
    laws = []
    for row in OPERATORS.values():
        inputs = ["a", "b", "c"][: len(row.example)]
        symbols = Law.from_string("0", inputs).symbols
        laws.append(Law([row.build(*symbols)], inputs, ["f"], "discrete"))
    return laws


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_source_compiles_and_gives_the_same_values(tmp_path: Path) -> None:
    (tmp_path / "law.c").write_text(EVERYTHING.c("f"))
    library = tmp_path / "law.so"
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC",
         "-o", str(library), str(tmp_path / "law.c"), "-lm"],
        check=True,
    )  # fmt: skip
    function = ctypes.CDLL(str(library)).f
    expected = EVERYTHING.numpy()(POINTS)
    for point, values in zip(POINTS, expected, strict=True):
        out = (ctypes.c_double * 4)()
        function((ctypes.c_double * 2)(*point), out)
        np.testing.assert_allclose(list(out), values, rtol=1e-12, atol=1e-12)


def test_python_source_runs_as_a_script_without_this_package(tmp_path: Path) -> None:
    script = tmp_path / "law.py"
    script.write_text(
        EVERYTHING.python("f") + "\n\nimport json\nimport sys\n\n\n"
        "print(json.dumps(f(json.load(sys.stdin)).tolist()))\n"
        "assert not any(name.split('.')[0] in ('sjepa', 'sympy') for name in sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", str(script)],
        input=json.dumps(POINTS.tolist()), capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    np.testing.assert_allclose(json.loads(run.stdout), EVERYTHING.numpy()(POINTS), rtol=1e-12)


def test_python_source_gives_the_same_values_for_every_operator() -> None:
    for law in operator_laws():
        points = np.resize(np.abs(POINTS[:5]) + 0.3, (5, len(law.inputs)))
        namespace: dict[str, object] = {}
        exec(compile(law.python("f"), "law", "exec"), namespace)  # our own output, not outside text
        with np.errstate(invalid="ignore"):  # arcsin beyond 1 is NaN both ways
            values = namespace["f"](points)  # type: ignore[operator]
        np.testing.assert_allclose(values, law.numpy()(points), rtol=1e-12, atol=1e-12)


def test_every_operator_can_be_written_in_julia_with_its_definition() -> None:
    source = EVERYTHING.julia("f")
    assert source.splitlines()[-1].startswith("f(x, y) = (")
    for name in ("safe_div", "exp_clip", "log_safe", "sqrt_safe", "heaviside"):
        assert f"\n{name}(" in "\n" + source
    assert "**" not in source and "Abs" not in source


def test_latex_is_read_by_mathtext_for_every_operator() -> None:
    parser = MathTextParser("agg")
    for law in [EVERYTHING, *operator_laws()]:
        for line in law.latex().splitlines():
            parser.parse(f"${line}$")


def test_latex_names_what_moves() -> None:
    field = Law.from_string(["z2", "-0.5*sin(z1)"], ["z1", "z2"])
    assert field.latex().splitlines() == [
        r"\dot{z_{1}} = z_{2}",
        r"\dot{z_{2}} = - 0.5 \sin{\left(z_{1} \right)}",
    ]
    step = Law.from_string("0.5*x", ["x"], dynamics="discrete")
    assert step.latex() == r"x^{+} = 0.5 x"
    second = Law.from_string("-theta - 0.1*theta_dot", ["theta", "theta_dot"], ["theta_dot"])
    assert second.latex() == r"\ddot{\theta} = - \theta - 0.1 \dot{\theta}"
    assert "&=" in field.latex(environment="align") and r"\begin{align}" in field.latex(
        environment="align"
    )


def test_mathml_is_well_formed_for_every_operator() -> None:
    for law in [EVERYTHING, *operator_laws()]:
        for line in law.mathml().splitlines():
            assert ET.fromstring(line).tag.endswith("math")


def test_json_round_trip_keeps_every_digit() -> None:
    law = Law.from_string(["0.1234567890123*x + 1e-17*y", "y/3"], ["x", "y"])
    again = Law.from_json(law.to_json())
    assert again == law
    np.testing.assert_array_equal(again.coefficients, law.coefficients)
    assert json.loads(law.to_json())["format"] == "sjepa-law"
    assert Law.from_json(EVERYTHING.to_json()) == EVERYTHING


def test_casadi_gives_values_and_derivatives() -> None:
    import casadi

    law = Law.from_string(["p", "-sin(q) - 0.4*p*abs(p)"], ["q", "p"])
    z = casadi.MX.sym("z", 2)
    jacobian = casadi.Function("j", [z], [casadi.jacobian(law.casadi()(z), z)])
    expected = np.array([[0.0, 1.0], [-np.cos(0.3), -0.8 * 0.7]])
    np.testing.assert_allclose(np.array(jacobian([0.3, -0.7])), expected, atol=1e-12)


def test_rounding_and_thresholding() -> None:
    law = Law.from_string("1.23456*x + 0.001*y", ["x", "y"])
    assert repr(law.round(3)) == "x' = 1.23*x + 0.001*y"
    assert law.threshold(0.01) == Law.from_string("1.23456*x", ["x", "y"])


def test_coefficients_keep_their_order_when_their_values_change() -> None:
    law = Law.from_string(["0.5*x - 2.5*y + 0.1*sin(0.3*x)", "1.5*x*y + 0.2"], ["x", "y"])
    values = np.array([7.5, -0.25, 3.5, 0.75, 9.5, 0.125])
    again = law.with_coefficients(values)
    np.testing.assert_array_equal(again.coefficients, values)
    np.testing.assert_array_equal(
        again.with_coefficients(law.coefficients).coefficients, law.coefficients
    )
    assert again.with_coefficients(law.coefficients) == law


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Law.from_string("x", []), "at least one input"),
        (lambda: Law.from_string([], ["x"]), "at least one equation"),
        (lambda: Law.from_string("x", ["x", "x"]), "used twice"),
        (lambda: Law.from_string("x", ["x y"]), "cannot be used"),
        (lambda: Law.from_string(["x", "x"], ["x"], ["a"]), "2 equations for 1 outputs"),
        (lambda: Law.from_string("x", ["x"], dynamics="flow"), "'continuous' or 'discrete'"),
        (lambda: Law.from_string("x", ["x"]).complexity("size"), "No complexity measure"),
        (
            lambda: Law.from_string("0.5*x", ["x"]).with_coefficients([1, 2]),
            "1 finite coefficients",
        ),
        (lambda: Law.from_string("x", ["x"]).jacobian(["u"]), "not among the inputs"),
        (lambda: Law.from_string("x", ["x"]).torch(trainable="all"), "'terms'"),
    ],
)
def test_wrong_use_says_what_is_accepted(make: object, message: str) -> None:
    with pytest.raises(LawError, match=message) as refusal:
        make()  # type: ignore[operator]
    assert "\n" not in str(refusal.value)
