"""An operator is one row of the table and, for Julia, one line: nothing else has to know it."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import torch

from sjepa.backend import Problem
from sjepa.errors import LawError
from sjepa.symbolic import Grammar, Law, definitions as own, operators
from sjepa.symbolic.functions import DefinedFunction
from sjepa_backends.pysr.request import plan, search_space
from sjepa_julia import definitions


SLOPE = 0.25


def leaky(xp: Any, x: Any) -> Any:
    """x above zero, a share of it below."""
    return xp.where(x > 0, x, SLOPE * x)


class Leaky(DefinedFunction):
    nargs = 1
    define = staticmethod(leaky)


LEAKY = operators.Operator("leaky", 1, 2.0, Leaky, Leaky, pysr="leaky", aliases=("lrelu",))
JULIA = "leaky(x) = x > 0 ? x : oftype(x, 0.25) * x"
POINTS = np.array([[-2.0, 0.5], [1.5, -1.0], [0.0, 3.0]])


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> Iterator[Law]:
    tables = [operators.OPERATORS, operators.SPELLINGS, operators.NODES]
    tables += [values for _, values in operators._FUNCTIONS.values()]
    before = [dict(t) for t in tables]
    monkeypatch.setitem(definitions(), "leaky", JULIA)
    operators.register(LEAKY)
    yield Law.from_string(["1.5*lrelu(x - y) + 0", "y*leaky(2 - 5)"], ["x", "y"])
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


def expected(z: np.ndarray) -> np.ndarray:
    d = z[:, 0] - z[:, 1]
    return np.stack([1.5 * np.maximum(d, 0.25 * d), -0.75 * z[:, 1]], axis=1)


def test_a_new_row_is_read_folded_and_measured(law: Law) -> None:
    assert law.lines() == ["x' = 1.5*leaky(x - y)", "y' = -0.75*y"]
    # 0.5 + 1.5 for the factor, 2 for the call, 1 + 1 + 1 for the difference.
    assert Law([law.expressions[0]], ["x", "y"]).complexity("tree") == 7.0
    assert Law.from_json(law.to_json()) == law
    assert Grammar(["-", "*", "leaky"], ["x", "y"]).admits(law)
    assert not Grammar(["-", "*"], ["x", "y"]).admits(law)


def test_a_new_row_has_values_and_slopes_everywhere(law: Law) -> None:
    np.testing.assert_allclose(law.numpy()(POINTS), expected(POINTS))
    z = torch.tensor(POINTS, requires_grad=True)
    values = law.torch()(z)
    np.testing.assert_allclose(values.detach(), expected(POINTS))
    np.testing.assert_allclose([law.casadi()(p).full()[:, 0] for p in POINTS], expected(POINTS))
    (slopes,) = torch.autograd.grad(values[:, 0].sum(), z)
    np.testing.assert_allclose(slopes[:, 0], 1.5 * np.array([0.25, 1.0, 0.25]))
    jacobian = Law(list(law.jacobian()), ["x", "y"], list("abcd"), canonical=False)
    np.testing.assert_allclose(jacobian.numpy()(POINTS)[:, 0], slopes[:, 0])


@pytest.mark.parametrize("language", ["python", "torch_source"])
def test_a_new_row_is_exported_with_its_definition(law: Law, language: str) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(getattr(law, language)("f"), "law", "exec"), namespace)  # our own output
    if language == "python":
        values = namespace["f"](POINTS)
    else:
        values = namespace["f"]()(torch.tensor(POINTS)).detach().numpy()
    np.testing.assert_allclose(values, expected(POINTS))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_new_row_compiles_in_c(law: Law, tmp_path: Path) -> None:
    (tmp_path / "law.c").write_text(law.c("f"))
    flags = ["-std=c99", "-Wall", "-Werror", "-shared", "-fPIC"]
    library = tmp_path / "law.so"
    subprocess.run(["cc", *flags, "-o", str(library), str(tmp_path / "law.c"), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).f
    for point, values in zip(POINTS, expected(POINTS), strict=True):
        out = (ctypes.c_double * 2)()
        function((ctypes.c_double * 2)(*point), out)
        np.testing.assert_allclose(list(out), values)


def test_a_new_row_reaches_julia_and_pysr(law: Law) -> None:
    assert law.julia("f") == f"{JULIA}\n\nf(x, y) = (1.5*leaky(x - y), -0.75*y)\n"
    grammar = Grammar(["+", "leaky"], ["x", "y"], weights={"leaky": 3.0})
    problem = Problem(POINTS, expected(POINTS), grammar=grammar)
    (task,), notes = plan(problem, {})
    request = search_space(task, problem, 20.0)
    assert request["settings"]["unary_operators"] == [JULIA] and not notes
    # PySR counts in whole numbers, so that costs are doubled.
    assert request["settings"]["complexity_of_operators"]["leaky"] == 6
    assert request["defined"] == ["leaky"]


def test_a_name_is_given_once(law: Law) -> None:
    with pytest.raises(LawError, match="'lrelu' is already an operator"):
        operators.register(operators.Operator("lrelu", 1, 1.0, Leaky, Leaky))


@pytest.mark.parametrize("name", ["safe_div", "exp_clip", "log_safe", "sqrt_safe"])
def test_the_definitions_serve_every_library(name: str) -> None:
    """Edges included, against values worked out from the words in the docstrings."""
    grid = np.array([-30.0, -2.0, -1e-3, -4e-4, -2.5e-7, 0.0, 2.5e-7, 4e-4, 1e-3, 2.0, 30.0])
    by_hand = {
        "safe_div": [0.7 / x if abs(x) >= 1e-3 else 0.7 * x / 1e-6 for x in grid],
        "exp_clip": [np.exp(min(max(x, -20.0), 20.0)) for x in grid],
        "log_safe": [np.log(max(abs(x), 1e-3)) for x in grid],
        "sqrt_safe": [abs(x) ** 0.5 if abs(x) >= 1e-6 else abs(x) / 1e-3 for x in grid],
    }[name]
    first = [0.7] if name == "safe_div" else []
    define = getattr(own, name)
    np.testing.assert_allclose(define(np, *first, grid), by_hand, rtol=1e-12)
    np.testing.assert_allclose(define(torch, *first, torch.tensor(grid)), by_hand, rtol=1e-12)
    x = sympy.Symbol("x", real=True)
    formula = own.formula(lambda xp, v: define(xp, *first, v), [x])
    np.testing.assert_allclose(
        [float(formula.subs(x, sympy.Float(v))) for v in grid.tolist()], by_hand, rtol=1e-12
    )
    text = "safe_div(0.7, x)" if first else f"{name}(x)"
    function = Law.from_string(text, ["x"]).casadi()
    np.testing.assert_allclose([float(function(v)) for v in grid], by_hand, rtol=1e-12)
