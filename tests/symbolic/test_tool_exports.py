"""Laws as JAX functions, Modelica models and SBML documents, read by JAX, Pymoca and libSBML."""

import math
from types import SimpleNamespace

import casadi
import jax
import libsbml
import numpy as np
import pymoca.backends.casadi.generator as modelica
import pymoca.parser
import pytest

from sjepa.errors import LawError
from sjepa.symbolic import Law
from sjepa.symbolic.operators import OPERATORS


# Of CasADi to Pymoca, about a later release.
pytestmark = pytest.mark.filterwarnings("ignore:[\\s\\S]*called on a casadi value:FutureWarning")

FLOW = Law.from_string(
    [
        "θ*y - 1e-7*exp_clip(u) + safe_div(x, y) + sign(u)*asinh(x) + mod(x, 0.7) + pi*x + floor(x)",
        "where(x > 0 and u < 1, x, -u) + max(x, y, 0.5) - min(x, u, y) + x**-2 + abs(y)**1.37",
        "t/3 + heaviside(u) + log_safe(u) + sqrt_safe(y) + sqrt(x**2 + 1) + end*tanh(x) + ceil(y)",
    ],
    ["x", "y", "θ", "u", "t", "end"],
)
OSCILLATOR = Law.from_string("-4*q - 0.1*q_dot + u", ["q", "q_dot", "u"], ["q_dot"])
TABLE = Law.from_string("2*a*b + 3", ["a", "b"], ["y"])
POINTS = np.random.default_rng(1).uniform(-1.5, 1.5, (40, 6))


@pytest.fixture(autouse=True)
def double_precision():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def modelica_rates(law: Law) -> casadi.Function:
    """Right-hand sides (and results) of the exported model, as Pymoca understands them."""
    # Written for CasADi's Python 2 names.
    modelica.OP_MAP["/"] = "__truediv__"
    model = modelica.generate(pymoca.parser.parse(law.modelica()), "Law")
    derivatives = [s.symbol for s in model.der_states] + [
        v.symbol for v in model.alg_states if v.symbol.name() in model.outputs
    ]
    known = [v.symbol for v in (*model.states, *model.inputs)]
    time = [model.time]
    residual = casadi.vertcat(*model.equations)
    at_zero = casadi.substitute([residual], derivatives, [casadi.MX(0)] * len(derivatives))[0]
    return casadi.Function("f", [casadi.vertcat(*known), *time], [-at_zero])


def test_a_modelica_model_has_the_laws_values() -> None:
    rates = modelica_rates(FLOW)
    for z in POINTS:
        x, y, theta, u, t, end = z
        np.testing.assert_allclose(
            np.ravel(rates([x, y, theta, u, end], t)), FLOW(z), rtol=1e-12, atol=1e-12
        )


def test_a_law_of_second_order_is_two_equations_in_modelica_and_starts_at_x0() -> None:
    np.testing.assert_allclose(
        np.ravel(modelica_rates(OSCILLATOR)([1.0, 0.5, 0.2], 0)), [0.5, -3.85]
    )
    assert "Real q_dot(start=0.5, fixed=true);" in OSCILLATOR.modelica(x0=[1, 0.5])
    np.testing.assert_allclose(np.ravel(modelica_rates(TABLE)([2.0, 5.0], 0)), [23.0])


def sbml_values(law: Law, values: dict[str, float]) -> dict[str, float]:
    """The rules of the exported document as libSBML reads them, at these values."""
    document = libsbml.readSBMLFromString(law.sbml())
    document.checkConsistency()
    assert document.getNumErrors(libsbml.LIBSBML_SEV_ERROR) == 0, document.getErrorLog().toString()
    names = {p.getName(): p.getId() for p in document.getModel().getListOfParameters()}
    scope = {names.get(n, "time" if n == "t" else n): v for n, v in values.items()}
    functions = {n: getattr(math, n) for n in ("exp", "floor", "sqrt", "tanh", "sin", "cos")}
    functions |= {"abs": abs, "max": max, "min": min, "ceil": math.ceil, "ln": math.log}
    functions |= {"arcsinh": math.asinh, "piecewise": None}

    def piecewise(*arguments):
        *cases, last = arguments
        chosen = (v() for v, c in zip(cases[::2], cases[1::2], strict=True) if c())
        return next(chosen, None) if any(c() for c in cases[1::2]) else last()

    return {
        rule.getVariable(): value(rule.getMath(), SimpleNamespace(**scope), functions, piecewise)
        for rule in document.getModel().getListOfRules()
    }


def value(node, scope, functions, piecewise) -> float:
    """The value of one of libSBML's syntax trees."""
    parts = [node.getChild(i) for i in range(node.getNumChildren())]

    def at(i):
        return value(parts[i], scope, functions, piecewise)

    kind = node.getType()
    if kind == libsbml.AST_FUNCTION_PIECEWISE:
        return piecewise(*[lambda i=i: at(i) for i in range(len(parts))])
    numbers = [at(i) for i in range(len(parts))]
    if node.isNumber():
        return node.getValue()
    if kind == libsbml.AST_NAME_TIME:
        return scope.time
    if node.isName():
        return getattr(scope, node.getName())
    signs = {
        libsbml.AST_PLUS: lambda *a: sum(a), libsbml.AST_TIMES: lambda *a: math.prod(a),
        libsbml.AST_DIVIDE: lambda a, b: a / b, libsbml.AST_POWER: lambda a, b: a**b,
        libsbml.AST_FUNCTION_POWER: lambda a, b: a**b,
        libsbml.AST_FUNCTION_ROOT: lambda *a: math.sqrt(a[-1]),
        libsbml.AST_RELATIONAL_GT: lambda a, b: a > b, libsbml.AST_RELATIONAL_LT: lambda a, b: a < b,
        libsbml.AST_RELATIONAL_GEQ: lambda a, b: a >= b, libsbml.AST_RELATIONAL_LEQ: lambda a, b: a <= b,
        libsbml.AST_LOGICAL_AND: lambda *a: all(a), libsbml.AST_LOGICAL_OR: lambda *a: any(a),
        libsbml.AST_FUNCTION_CEILING: math.ceil, libsbml.AST_FUNCTION_LN: math.log,
    }  # fmt: skip
    return (signs.get(kind) or functions[node.getName()])(*numbers)


def test_an_sbml_document_is_valid_and_has_the_laws_values() -> None:
    for z in POINTS:
        values = sbml_values(FLOW, dict(zip(FLOW.inputs, z, strict=True)))
        np.testing.assert_allclose(list(values.values()), FLOW(z), rtol=1e-12, atol=1e-12)
    assert sbml_values(OSCILLATOR, {"q": 1.0, "q_dot": 0.5, "u": 0.2}) == pytest.approx(
        {"q": 0.5, "q_dot": -3.85}
    )
    assert sbml_values(TABLE, {"a": 2.0, "b": 5.0}) == {"y": 23.0}


def test_maps_and_names_that_tools_cannot_read_are_refused() -> None:
    for write in (Law.sbml, Law.modelica):
        with pytest.raises(LawError):
            write(Law.from_string("0.5*x", ["x"], dynamics="discrete"))
        with pytest.raises(LawError):
            write(OSCILLATOR, name='a"/>')
        with pytest.raises(LawError):
            write(OSCILLATOR, x0=[1.0])
    with pytest.raises(LawError):
        Law.from_string("erf(x)", ["x"]).sbml()


def test_jax_gives_the_values_of_every_operator_compiled_too() -> None:
    for row in OPERATORS.values():
        inputs = ["a", "b", "c"][: len(row.example)]
        law = Law([row.build(*Law.from_string("0", inputs).symbols)], inputs, ["f"], "discrete")
        points = np.resize(np.abs(POINTS[:5]) + 0.3, (5, len(inputs)))
        expected = law.numpy()(points)
        np.testing.assert_allclose(law.jax()(points), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(jax.jit(law.jax())(points), expected, rtol=1e-12, atol=1e-12)


def test_jax_differentiates_by_states_and_by_coefficients() -> None:
    f = OSCILLATOR.jax()
    z = np.array([1.0, 0.5, 0.2])
    np.testing.assert_allclose(jax.jacobian(f)(z), [[-4.0, -0.1, 1.0]], rtol=1e-12)
    start = OSCILLATOR.coefficients
    slope = jax.grad(lambda c: f(z, c)[0])(start)
    free = OSCILLATOR.with_coefficients(start + 1e-6)
    assert math.isclose((free(z) - OSCILLATOR(z))[0] / 1e-6, slope.sum(), rel_tol=1e-6)
