"""Operon beyond the common contract: what it prints, how its answers are cleaned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

from sjepa.backend import Problem
from sjepa.errors import ConfigError
from sjepa.symbolic import Grammar, Law, Library
from sjepa.symbolic.operators import OPERATORS
from sjepa.symbolic.parse import parse, symbol
from sjepa.symbolic.text import to_text


op = pytest.importorskip("pyoperon")

from sjepa_backends.operon import Operon, refinement as refine, run as running  # noqa: E402


GENERIC = ["+", "-", "*", "sin", "cos", "abs", "square"]


def box(low: float, high: float, d: int = 2, n: int = 1000) -> np.ndarray:
    return np.random.default_rng(0).uniform(low, high, (n, d))


# Name: (states, equations, names).
SYSTEMS: dict[str, tuple[np.ndarray, list[str], list[str]]] = {
    "drag": (box(-2.5, 2.5), ["p", "-sin(q) - 0.4*p*Abs(p)"], ["q", "p"]),
    "lotka-volterra": (box(0.1, 4), ["1.1*x - 0.4*x*y", "0.1*x*y - 0.4*y"], ["x", "y"]),
    "lorenz": (
        box(-1, 1, 3) * [20, 25, 20] + [0, 0, 25],
        ["10*y - 10*x", "28*x - x*z - y", "x*y - 2.6666666666666665*z"],
        ["x", "y", "z"],
    ),
    "pendulum": (box(-2.5, 2.5), ["p", "-sin(q)"], ["q", "p"]),
    "duffing": (box(-2, 2), ["v", "x - x**3 - 0.3*v"], ["x", "v"]),
    "van der pol": (box(-3, 3), ["v", "1.5*v - 1.5*x**2*v - x"], ["x", "v"]),
    "fitzhugh-nagumo": (
        box(-2, 2),
        ["v - 0.3333333333333333*v**3 - w + 0.5", "0.08*v + 0.056 - 0.064*w"],
        ["v", "w"],
    ),
}
QUICK = ("drag", "lotka-volterra", "lorenz")


def problem(name: str, **changes: Any) -> Problem:
    z, equations, names = SYSTEMS[name]
    targets = Law.from_string(equations, names).numpy()(z)
    return Problem(
        **{"inputs": z, "targets": targets, "grammar": Grammar(GENERIC, names), **changes}
    )


def used(law: Law) -> list[set[str]]:
    return [{to_text(t) for _, t in pairs} for pairs in law.terms]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in SYSTEMS]
)
def test_recovers_the_exact_law_in_a_generic_grammar(name: str) -> None:
    _, equations, names = SYSTEMS[name]
    law = Operon().search(problem(name)).best()
    truth = Law.from_string(equations, names)
    assert used(law) == used(truth)
    assert law.equivalent(truth, tolerance=1e-9)


def test_the_number_of_threads_does_not_change_the_answer() -> None:
    small = {"runs": 1, "generations": 4, "population": 200}
    noisy = problem("drag")
    noisy = noisy.with_(targets=noisy.targets + 0.1 * box(-1, 1))
    one, two = (Operon(**small, threads=k).search(noisy) for k in (1, 2))
    assert [c.law for c in one] == [c.law for c in two]


def test_large_and_small_units() -> None:
    z = box(0.5, 2.0) * [1e5, 1e-5]
    targets = (3e-7 * z[:, 0] * z[:, 1] + 2e-9 * z[:, 0])[:, None]
    grammar = Grammar(["+", "*"], ["x", "y"])
    front = Operon(runs=3).search(Problem(z, targets, outputs=["f"], grammar=grammar))
    assert used(front.best()) == [{"x", "x*y"}]


def test_operators_that_it_lacks_are_named() -> None:
    grammar = Grammar(["+", "safe_div", "erf", "inv"], ["q", "p"])
    small = Operon(runs=1, generations=2, population=100)
    notes = small.search(problem("drag", grammar=grammar)).notes
    assert notes[:2] == ("q: Operon has no safe_div, erf", "p: Operon has no safe_div, erf")


def test_rows_are_drawn_in_proportion_to_their_weights() -> None:
    weights = np.repeat([0.0, 1.0, 3.0], [400, 300, 300])
    rows = running.sample_rows(problem("drag", weights=weights), 1000)
    assert rows.min() >= 400
    # 600 draws with probability 3/4: the standard deviation is 10.6 rows.
    assert abs((rows >= 700).sum() - 450) < 60
    assert (np.sort(running.sample_rows(problem("drag"), 5000)) == np.arange(1000)).all()
    assert len(set(running.sample_rows(problem("drag"), 100).tolist())) == 100


NODES = sorted({row.operon for row in OPERATORS.values() if row.operon})


@pytest.mark.parametrize("node", NODES)
def test_what_it_prints_is_what_it_computes(node: str) -> None:
    values = np.asfortranarray(box(0.2, 0.6))
    data = op.Dataset(values)
    variables = sorted(data.Variables, key=lambda v: v.Index)
    leaves = []
    for variable, weight in zip(variables, (1.5, 0.5), strict=True):
        leaf = op.Node(op.NodeType.Variable)
        leaf.HashValue = leaf.CalculatedHashValue = variable.Hash
        leaf.Value = weight
        leaves.append(leaf)
    function = op.Node(getattr(op.NodeType, node))
    tree = op.Tree([*leaves[: function.Arity], function]).UpdateNodes()
    text = op.InfixFormatter.Format(tree, {v.Hash: v.Name for v in variables}, 12)
    expected = op.Evaluate(op.DispatchTable(), tree, data, op.Range(0, len(values)))
    law = Law([parse(text, ["X1", "X2"])], ["X1", "X2"], ["y"])
    # Single precision on their side.
    np.testing.assert_allclose(law.numpy()(values)[:, 0], expected.ravel(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("0.5*sin(0.99998*q)", "0.5*sin(q)"),
        ("2*cos(1.0001*q - 1.5707)", "2*sin(q)"),
        ("sin(q + 0.00001)", "sin(q)"),
        ("sin(q + 3.1415)", "-sin(q)"),
        ("abs(1.9999*q + 0.000003*p)", "2*Abs(q)"),
        ("sin(0.49999*q)", "sin(q/2)"),
    ],
)
def test_nearly_simple_numbers_are_tried_as_simple_ones(written: str, meant: str) -> None:
    tried = [Law([e], ["q", "p"]) for e in refine.variants(parse(written, ["q", "p"]))]
    expected = Law.from_string(meant, ["q", "p"])
    assert any(used(v) == used(expected) for v in tried)


def test_small_terms_are_dropped_and_the_rest_is_refitted() -> None:
    given = problem("drag")
    cleaning = refine.Refinement(given, 1, np.arange(1000))
    cleaning.propose([parse("1e-6*q - 1.1*sin(q) - 0.41*p*abs(p) + 1e-7", ["q", "p"])])
    *_, (_, loss, expr) = cleaning.front()
    assert loss < 1e-20
    assert used(Law([expr], ["q", "p"])) == [{"sin(q)", "p*Abs(p)"}]


def test_terms_of_different_models_are_put_together() -> None:
    given = problem("drag")
    cleaning = refine.Refinement(given, 1, np.arange(1000))
    models = ["-sin(q) - 0.7*p", "-0.5*q - 0.4*p*abs(p)"]
    cleaning.propose([parse(m, ["q", "p"]) for m in models])
    assert cleaning.solved(1e-20)


def test_scaling_is_undone_exactly() -> None:
    x = symbol("x")
    given = running.OperonRun(
        running.OutputSpace((x,), ("add",)), np.full((9, 1), 1000.0), np.full(9, 1e-3), {}
    )
    expr = given.expression("(2.5 * X1)")
    assert expr is not None
    assert float(expr.coeff(x)) == 2.5 * given.unit / float(given.scale[0])
    assert sympy.log(given.unit, 2).is_Integer or given.unit == 2.0 ** round(np.log2(given.unit))


def test_terms_that_are_not_defined_everywhere_are_left_out() -> None:
    library = Library.from_terms(["q", "p", "log(q)"], ["q", "p"])
    rows = np.arange(50)
    what = running.output_space(problem("drag", grammar=None, library=library), 0)
    columns = np.stack([np.ones(50), np.ones(50), np.full(50, np.nan)], axis=1)
    assert len(running.OperonRun(what, columns, rows.astype(float), {}).features) == 2


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"no option 'tournament'.*'tournament_size'"):
        Operon(options={"tournament": 3}).search(problem("drag"))
    with pytest.raises(ConfigError, match="runs must be at least 1"):
        Operon(runs=0)


@pytest.mark.parametrize(("weight", "kept"), [(0.5, False), (50.0, True)])
def test_weights_of_the_grammar_decide_what_cleaning_keeps(weight: float, kept: bool) -> None:
    """A sine is short and exact, a cubic long and nearly: kept only where sines are expensive."""
    z = np.random.default_rng(0).uniform(-1, 1, (80, 1))
    grammar = Grammar(["+", "*", "sin"], ["q"], weights={"sin": weight})
    given = Problem(z, np.sin(z), ["q"], grammar=grammar)
    cleaning = refine.Refinement(given, 0, np.arange(80))
    q = symbol("q")
    cleaning.add([sympy.sin(q)])
    cleaning.add([q, q**3])
    found = cleaning.front()
    assert any(expr.has(q**3) for _, _, expr in found) == kept
    for size, loss, expr in found:
        law = Law([expr], ["q"])
        assert size == law.complexity("tree", weights=grammar.weights)
        error = np.mean((law.numpy()(z) - np.sin(z)) ** 2) / np.sin(z).var()
        assert loss == pytest.approx(error, rel=1e-9, abs=1e-25)


def test_absolute_values_of_what_has_one_sign_are_dropped() -> None:
    """Exact on the rows, and wrong beside them, if they stayed."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(1, 5, 200), rng.uniform(-3, 3, 200)])
    y = x[:, 0] - np.cos(x[:, 1]) / x[:, 0]
    names = ["v", "a"]
    grammar = Grammar(["+", "-", "*", "/", "abs", "cos"], names)
    given = Problem(x, y, names, ["y"], grammar=grammar, dynamics="discrete")
    cleaning = refine.Refinement(given, 0, np.arange(200))
    cleaning.propose([parse("abs(v - 1) + abs(cos(abs(a)) - v)/abs(v)", names)])
    assert str(cleaning.front()[-1][2]) == "v - cos(a)/v"
    assert cleaning.solved(0.0)


def test_numbers_inside_functions_are_fitted_and_what_comes_out_is_kept() -> None:
    x = np.random.default_rng(0).uniform(-2, 2, (150, 1))
    grammar = Grammar(["+", "*", "sin"], ["q"])
    given = Problem(x, 1.3 * np.sin(2.37 * x), ["q"], grammar=grammar)
    cleaning = refine.Refinement(given, 0, np.arange(150))
    cleaning.propose([parse("1.2*sin(2.2*q)", ["q"])])
    assert cleaning.best > 1e-3
    cleaning.refine()
    assert cleaning.best < 1e-20
    (number,) = {n for _, _, e in cleaning.front()[-1:] for n in e.atoms(sympy.Float)} - {
        cleaning.front()[-1][2].as_coeff_Mul()[0]
    }
    assert float(number) == pytest.approx(2.37, rel=1e-9)


def test_what_others_found_lends_its_terms_but_does_not_end_the_search() -> None:
    given = problem("drag")
    cleaning = refine.Refinement(given, 1, np.arange(1000))
    cleaning.start_from([parse("-sin(q) - 0.4*p*abs(p)", ["q", "p"])])
    assert cleaning.best < 1e-20 and not cleaning.solved(1e-11)
    cleaning = refine.Refinement(given, 1, np.arange(1000))
    cleaning.start_from([parse("-sin(q) - 0.7*p", ["q", "p"])])
    cleaning.propose([parse("-0.5*q - 0.4*p*abs(p)", ["q", "p"])])
    assert cleaning.solved(1e-11)
