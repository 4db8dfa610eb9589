from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
import sympy
import torch

from sjepa import discover
from sjepa.backend import Backend, Problem
from sjepa.errors import ConfigError, LawError, SjepaError
from sjepa.symbolic import Candidate, Front, Grammar, Law, Library
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.complexity import term_weight
from sjepa.symbolic.front import combine_outputs
from sjepa.symbolic.parse import parse
from sjepa.symbolic.text import to_text


def test_polynomial_library_has_every_monomial_once() -> None:
    library = Library.polynomial(["x", "y"], 3)
    assert len(library) == 10
    values = library.numpy()(np.array([[2.0, 3.0]]))[0]
    assert sorted(values) == sorted([1, 2, 3, 4, 6, 9, 8, 12, 18, 27])


def test_features_in_torch_and_numpy_agree() -> None:
    library = Library.paper(["x", "y"])
    z = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(library.torch()(torch.tensor(z)), library.numpy()(z), atol=1e-12)


def test_masks_by_name_and_by_array_mean_the_same() -> None:
    terms = ["p", "sin(q)", "p*abs(p)"]
    by_name = Library.from_terms(terms, ["q", "p"], mask={"q": ["p"], "p": ["sin(q)", "p*abs(p)"]})
    by_array = Library.from_terms(terms, ["q", "p"], mask=[[1, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(by_name.mask(["q", "p"]), by_array.mask(["q", "p"]))
    good = Law.from_string(["p", "-sin(q)"], ["q", "p"])
    bad = Law.from_string(["sin(q)", "p*abs(p)"], ["q", "p"])
    assert by_name.covers(good) and not by_name.covers(bad)


def test_coefficients_round_trip() -> None:
    library = Library.paper(["x", "y"])
    coefficients = np.random.default_rng(0).normal(size=(10, 2))
    law = library.law(coefficients)
    np.testing.assert_allclose(library.coefficients(law), coefficients)
    assert Library.from_dict(library.to_dict()).names == library.names


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Library.from_terms([], ["x"]), "at least one term"),
        (lambda: Library.from_terms(["x", "x*1"], ["x"]), "twice"),
        (lambda: Library.from_terms(["x + 1"], ["x"]), "is a sum"),
        (lambda: Library.from_terms(["x"], ["x"], weights=[1, 2]), "1 weights"),
        (lambda: Library.from_terms(["x"], ["x"], weights=[-1]), "at least 0"),
        (lambda: Library.from_terms(["x"], ["x"], mask=[[1], [1]]), "shape"),
        (
            lambda: Library.from_terms(["x"], ["x"], mask={"y": ["x"]}).mask(["x"]),
            "names output 'y'",
        ),
        (
            lambda: Library.from_terms(["x"], ["x"], mask={"x": ["sin(x)"]}).mask(["x"]),
            "not a term",
        ),
        (
            lambda: Library.paper(["x"]).coefficients(Law.from_string("x**3", ["x"])),
            "not in the library",
        ),
        (lambda: Grammar(["foo"], ["x"]), "No operator"),
        (lambda: Grammar(["sinn"], ["x"]), "Did you mean 'sin'"),
        (lambda: Grammar(["+"], ["x"], roles={"y": "state"}), "not among the inputs"),
        (lambda: Grammar(["+"], ["x"], roles={"x": "thing"}), "roles are"),
        (lambda: Grammar(["+"], ["x"], weights={"sin": -1}), "at least 0"),
        (lambda: Grammar(["+"], ["x"], masks={"x": {"input": []}}), "key 'input'"),
        (lambda: Grammar(["+", "sin"], ["x"], accepts={"sin": ["thing"]}), "accepts 'thing'"),
        (lambda: Grammar(["+"], ["x"], max_size=0), "whole number from 1"),
        (lambda: Grammar(["+"], ["x"], max_depth=0), "whole number from 1"),
    ],
)
def test_contradictions_are_refused(make: object, message: str) -> None:
    with pytest.raises(SjepaError, match=message):
        make()  # type: ignore[operator]


EXPERIMENT_2 = Grammar(
    ["+", "*", "sin", "abs"],
    ["q", "p"],
    masks={"q": {"terms": ["p"]}, "p": {"terms": ["sin(q)", "p*abs(p)"]}},
)


@pytest.mark.parametrize(
    ("equations", "admitted"),
    [
        (["p", "-sin(q) - 0.4*p*abs(p)"], True),
        (["0.9*p", "-0.8*sin(q)"], True),
        (["p", "-sin(q) - 0.4*p"], False),
        (["p + q", "-sin(q)"], False),
        (["0", "0"], True),
    ],
)
def test_the_grammar_of_experiment_2(equations: list[str], admitted: bool) -> None:
    assert EXPERIMENT_2.admits(Law.from_string(equations, ["q", "p"])) is admitted


def test_refusals_say_why() -> None:
    law = Law.from_string(["p", "-sin(q) - 0.4*p"], ["q", "p"])
    with pytest.raises(LawError, match="equation of 'p'.*p is not one of its terms"):
        EXPERIMENT_2.check(law)


@pytest.mark.parametrize(
    ("grammar", "text", "admitted"),
    [
        (Grammar(["+", "sin"], ["x", "u"], roles={"u": "action"}, accepts={"sin": ["state"]}), "sin(x) + u", True),
        (Grammar(["+", "sin"], ["x", "u"], roles={"u": "action"}, accepts={"sin": ["state"]}), "sin(u)", False),
        (Grammar(["+", "sin", "cos"], ["x"], nested={"sin": {"cos": 0}}), "sin(cos(x))", False),
        (Grammar(["+", "sin", "cos"], ["x"], nested={"sin": {"cos": 0}}), "cos(sin(x))", True),
        (Grammar(["+"], ["x", "y"]), "x*y", False),
        (Grammar(["+"], ["x", "y"]), "2.5*x - y", True),
        (Grammar(["+", "*"], ["x"]), "x**3", True),
        (Grammar(["+", "*"], ["x"]), "1/x", False),
        (Grammar(["/"], ["x"]), "1/x", True),
        (Grammar(["+", "*"], ["x"], max_size=3), "x**3 + x", False),
        (Grammar(["sin"], ["x"], max_depth=2), "sin(sin(x))", False),
        (Grammar(["+", "*"], ["x", "y"], masks={"x": {"inputs": ["y"]}}), "x + y", False),
        (Grammar(["+", "*", "sin"], ["x", "y"], masks={"x": {"operators": ["+"]}}), "sin(x)", False),
    ],
)  # fmt: skip
def test_what_a_grammar_admits(grammar: Grammar, text: str, admitted: bool) -> None:
    law = Law.from_string(text, list(grammar.inputs), outputs=["x"])
    assert grammar.admits(law) is admitted


def test_a_grammar_becomes_a_library_of_small_terms() -> None:
    library = Grammar(["+", "*", "sin", "abs"], ["q", "p"]).library(["q", "p"])
    for term in ("1", "q", "p", "sin(q)", "p*Abs(p)", "q**2"):
        assert term in library.names
    assert (np.diff(library.weights) >= 0).all()
    masked = EXPERIMENT_2.library(["q", "p"])
    assert masked.mask(["q", "p"]).sum(axis=0).tolist() == [1, 2]


def test_a_grammar_without_products_has_no_products_among_its_terms() -> None:
    assert [str(t) for t in Grammar(["+", "sin"], ["q", "p"]).terms()] == [
        "1", "p", "q", "sin(p)", "sin(q)",
    ]  # fmt: skip
    assert "q**2" in [str(t) for t in Grammar(["+", "square"], ["q"]).terms()]


def test_rules_of_a_grammar_go_by_any_spelling_of_an_operator() -> None:
    grammar = Grammar(
        ["+", "arctan", "abs", "/", "*"], ["x", "u"], roles={"u": "action"},
        accepts={"arctan": ["state"]}, nested={"arctan": {"arctan": 0}},
    )  # fmt: skip
    assert grammar.refusal(parse("atan(u)", ["x", "u"]), "x") is not None
    assert grammar.refusal(parse("atan(atan(x))", ["x", "u"]), "x") is not None
    assert grammar.refusal(parse("atan(x) + u", ["x", "u"]), "x") is None
    # x/abs(x) is a sign, in canonical form.
    assert grammar.admits(Law.from_string(["x/abs(x)", "u"], ["x", "u"]))
    terms = grammar.terms()
    assert parse("atan(x)", ["x", "u"]) in terms
    assert all(grammar.refusal(term, "x") is None for term in terms)


def test_numbers_that_are_not_real_are_refused() -> None:
    grammar = Grammar(["+", "*", "/", "sqrt", "log"], ["x"])
    x = sympy.Symbol("x", real=True)
    for number in (sympy.sqrt(sympy.Float(-0.3)), sympy.log(sympy.Float(-2)), sympy.zoo, sympy.oo):
        refused = grammar.refusal(sympy.sqrt(x) + number * x, "x")
        assert refused is not None and "not real" in refused
    assert grammar.refusal(sympy.sqrt(x) + sympy.sqrt(sympy.Float(0.3)) * x, "x") is None


def _front() -> Front:
    texts = ["0.7*x", "x - 0.16*x**3", "0.99*sin(x)", "0.99*sin(x) + 0.001*x**2"]
    losses = [0.2, 1e-2, 1e-5, 0.99e-5]
    laws = [Law.from_string(t, ["x"]) for t in texts]
    return Front.of(Candidate.score(law, [v]) for law, v in zip(laws, losses, strict=True))


def test_front_is_sorted_and_holds_only_what_nothing_beats() -> None:
    front = _front()
    complexities = [c.terms for c in front]
    assert complexities == sorted(complexities)
    assert [c.loss for c in front] == sorted((c.loss for c in front), reverse=True)
    assert "x**3" not in front.to_frame()["equation"].str.cat()  # dearer and worse than sin


def test_a_printed_front_marks_the_chosen_law_and_rounds_what_it_shows() -> None:
    laws = [Law.from_string(text, ["x"]) for text in ("0.7*x", "0.987654321*sin(x)")]
    front = Front.of(Candidate.score(law, [v]) for law, v in zip(laws, (0.2, 1e-5), strict=True))
    _, first, second = repr(front).splitlines()
    assert first.split() == ["1", "2.00e-01", "x'", "=", "0.7*x"]
    assert second.split() == [">", "2", "1.00e-05", "x'", "=", "0.9877*sin(x)"]


def test_a_table_says_who_found_each_law() -> None:
    laws = [Law.from_string(text, ["x"]) for text in ("0.7*x", "0.9*sin(x)")]
    own, other = (Candidate.score(law, [v]) for law, v in zip(laws, (0.2, 1e-5), strict=True))
    front = Front.of([own, replace(other, backend="operon")], "terms", "stlsq+operon")
    assert front.to_frame()["backend"].tolist() == ["stlsq+operon", "operon"]


def test_a_law_is_found_on_its_front_also_after_its_numbers_were_refined() -> None:
    front = _front()
    for i, candidate in enumerate(front):
        assert front.position(candidate.law) == i
        assert front.position(candidate.law.with_coefficients([0.123] * (i or 1))) == i
    assert front.position(Law.from_string("0.7*cos(x)", ["x"])) is None


def test_selection_takes_the_simplest_adequate_law() -> None:
    front = _front()
    assert front.best() == front[1].law
    assert front.select(tolerance=0.02) == front[1].law
    assert front.select(tolerance=0.001) == front[-1].law
    assert front.select(delta=0.5) == front[0].law
    with pytest.raises(LawError, match="No law on the front reaches"):
        front.select(delta=1e-9)


def test_equal_laws_appear_once() -> None:
    laws = [Law.from_string(t, ["x"]) for t in ("x + x", "2*x", "2.0*x + 0")]
    front = Front.of(
        Candidate.score(law, [v]) for law, v in zip(laws, (0.3, 0.2, 0.4), strict=True)
    )
    assert len(front) == 1 and front[0].loss == 0.2


def test_table_has_the_columns_pysr_users_know_and_both_measures() -> None:
    columns = list(_front().to_frame().columns)
    assert columns[:4] == ["complexity", "loss", "score", "equation"]
    assert {"omega_terms", "omega_tree"} <= set(columns)


def test_an_empty_front_says_what_happened() -> None:
    front = Front.of([], backend="x", notes=["ran out of time"])
    assert len(front) == 0 and len(front.to_frame()) == 0
    for asked in (front.best, front.select, front.plot):
        with pytest.raises(LawError, match="found no law .ran out of time"):
            asked()


def test_fronts_are_equal_whatever_sums_they_keep() -> None:
    one, other = (replace(_front(), kept=np.zeros(size)) for size in (2, 3))
    assert one == other


def test_front_can_be_plotted() -> None:
    ax = _front().plot()
    assert ax.get_yscale() == "log" and "complexity (terms)" in ax.get_xlabel()


def test_joining_outputs_equals_trying_all_combinations() -> None:
    rng = np.random.default_rng(0)
    fronts = [
        [
            (float(c), float(v), (j, i))
            for i, (c, v) in enumerate(zip(range(4), sorted(rng.random(4))[::-1], strict=True))
        ]
        for j in range(3)
    ]
    joint = combine_outputs(fronts)
    every = [
        (a[0] + b[0] + c[0], a[1] + b[1] + c[1])
        for a in fronts[0]
        for b in fronts[1]
        for c in fronts[2]
    ]
    for cost in range(10):
        lowest = min((loss for c, loss in every if c <= cost), default=None)
        found = min((sum(losses) for c, losses, _ in joint if c <= cost), default=None)
        assert found == pytest.approx(lowest)


def test_a_library_argument_may_be_a_library_a_list_of_terms_or_nothing() -> None:
    given = Library.paper(["x"])
    assert Library.of(given, ["x"]) is given
    assert Library.of(None, ["x"]) is None
    listed = Library.of(["1", "x", "sin(x)"], ["x", "u"])
    assert listed is not None and listed.names == ["1", "x", "sin(x)"]
    assert listed.inputs == ("x", "u")
    for wrong in ("sin(x)", [1, 2]):
        with pytest.raises(ConfigError, match="a list of terms such as"):
            Library.of(wrong, ["x"])  # type: ignore[arg-type]


def test_the_default_library_puts_only_states_inside_functions() -> None:
    library = Library.default(["q"], ["u"])
    assert set(library.names) == {
        "1", "q", "u", "q**2", "q*u", "u**2", "q**3", "q**2*u", "q*u**2", "u**3",
        "sin(q)", "cos(q)", "q*Abs(q)",
    }  # fmt: skip
    # Degree 2 from four inputs on: 1 + 4 + 10 monomials and three functions of each state.
    assert len(Library.default(["a", "b", "c"], ["u"])) == 35 + 3 * 3


def test_the_library_for_accelerations_has_velocities_alone() -> None:
    library = Library.paper(["z"], actions=["u"], velocities=["z_dot"])
    assert library.inputs == ("z", "z_dot", "u")
    assert set(library.names) == {"1", "z", "sin(z)", "cos(z)", "z**2", "z_dot", "u", "u*z"}


def test_the_default_grammar_knows_its_actions() -> None:
    grammar = Grammar.default(["q"], ["u"])
    assert (grammar.role("q"), grammar.role("u")) == ("state", "action")
    assert grammar.admits(Law.from_string("u*sin(q) - abs(q)", ["q", "u"], ["q"]))
    assert not grammar.admits(Law.from_string("sin(cos(q))", ["q", "u"], ["q"]))


def test_the_default_grammar_of_positive_inputs_has_quotients_and_logarithms() -> None:
    law = Law.from_string("exp(-x) - x*log(y)/(0.5 + x)", ["x", "y"], ["x"])
    assert Grammar.default(["x"], ["y"], positive=True).admits(law)
    assert not Grammar.default(["x"], ["y"]).admits(law)
    for nested in ("exp(sin(x))", "log(exp(x) + y)", "sin(log(x))"):
        inside = Law.from_string(nested, ["x", "y"], ["x"])
        assert not Grammar.default(["x", "y"], positive=True).admits(inside)


@pytest.mark.parametrize(
    ("low", "action", "order", "positive"),
    [
        (0.5, 0.2, 1, True),
        (0.5, None, 1, True),
        (0.0, None, 1, False),
        (0.001, None, 1, False),  # noise would take it below 0
        (-0.5, 0.2, 1, False),
        (0.5, -0.2, 1, False),  # quotients and logarithms of actions too
        (0.5, 0.2, 2, False),  # velocities are among the inputs
    ],
)
def test_only_positive_data_open_the_default_grammar(
    low: float, action: float | None, order: int, positive: bool
) -> None:
    seen: list[Grammar | None] = []

    class Trees(Backend):
        name = "trees"
        trees = True

        def search(self, problem: Problem) -> Front:
            seen.append(problem.grammar)
            return problem.front([], self.name)

    t = np.linspace(0, 6, 200)
    x = low + 1 - np.cos(np.outer(t, [1.0, 2.0]))
    u = None if action is None else action + 1 + np.sin(3 * t)[:, None]
    discover(x, t, u=u, backend=Trees(), order=order)
    (grammar,) = seen
    assert grammar is not None
    assert ({"div", "exp", "log"} <= set(grammar.operators)) == positive
    assert ("Abs" in grammar.operators) != positive


@pytest.mark.parametrize(
    ("divide", "expected"),
    [
        ("/", {"1/x", "1/y", "x/y", "y/x"}),
        ("inv", {"1/x", "1/y", "x/y", "y/x"}),
        ("safe_div", {"safe_div(1, x)", "safe_div(1, y)", "safe_div(x, y)", "safe_div(y, x)"}),
    ],
)
def test_a_grammar_with_division_has_quotients_among_its_terms(
    divide: str, expected: set[str]
) -> None:
    names = set(Grammar(["+", "*", divide], ["x", "y"]).library(["x"]).names)
    assert expected <= names
    assert not any("/" in n or "div" in n for n in names - expected)


def test_a_wide_grammar_of_many_inputs_is_listed_without_writing_every_product() -> None:
    """Of the 270,000 products of up to four of its 48 factors few are light."""
    written = []

    def counted(expr: sympy.Expr) -> sympy.Expr:
        written.append(expr)
        return canonicalize(expr)

    functions = ["sin", "cos", "exp", "log", "sqrt", "abs", "tanh"]
    grammar = Grammar(["+", "*", "/", *functions], [f"x{i}" for i in range(6)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sjepa.symbolic.grammar.canonicalize", counted)
        terms = grammar.terms(3.0)
    assert len(written) < 2 * len(terms)
    assert {"x0*x5", "x0**2*x3", "x1/x4", "x2*sin(x3)", "exp(x0)", "x0*x1*x2"} <= set(
        map(to_text, terms)
    )


def test_terms_of_a_grammar_are_those_of_brute_force() -> None:
    x, y = (parse(name, ["x", "y"]) for name in "xy")
    factors = [x, y, *(f(s) for f in (sympy.sin, sympy.cos, sympy.Abs) for s in (x, y))]
    products = {
        canonicalize(sympy.Mul(*parts))
        for k in range(5)
        for parts in combinations_with_replacement(factors, k)
    }
    assert set(Grammar.default(["x", "y"]).terms(3.0)) == {
        t for t in products if term_weight(t) <= 3.0
    }


def test_sums_need_a_sum_and_depth_is_that_of_the_deepest_branch() -> None:
    grammar = Grammar(["*", "sin"], ["x"], max_depth=3)
    assert "add" in str(grammar.refusal(parse("x + sin(x)", ["x"]), "x"))
    assert grammar.refusal(parse("sin(x*sin(x))", ["x"]), "x") is not None  # four levels
    assert grammar.refusal(parse("sin(x)", ["x"]), "x") is None


def test_terms_of_masks_are_among_the_terms_of_a_grammar() -> None:
    grammar = Grammar(["+", "*"], ["x", "v"], masks={"v": {"terms": ["x**7", "v"]}})
    assert "x**7" in [str(t) for t in grammar.terms()]


def test_a_longer_joint_law_must_gain_enough() -> None:
    one = [(1.0, 0.5, "a"), (2.0, 0.499, "b"), (3.0, 0.1, "c")]
    kept = combine_outputs([one], max_laws=10, min_gain=0.01)
    assert [row[2] for row in kept] == [("a",), ("c",)]


def test_a_longer_law_must_lower_the_loss_by_the_share_asked_for() -> None:
    laws = [Law.from_string(text, ["x"]) for text in ("x", "x + x**2", "x + x**2 + x**3")]
    rows = [Candidate.score(law, [v]) for law, v in zip(laws, [1.0, 0.95, 0.8], strict=True)]
    assert [c.loss for c in Front.of(rows)] == [1.0, 0.95, 0.8]
    assert [c.loss for c in Front.of(rows, min_gain=0.1)] == [1.0, 0.8]
    with pytest.raises(LawError, match="'terms' or 'tree', got 'size'"):
        Front.of(rows, "size")


def test_a_grammar_as_data_says_what_operators_accept() -> None:
    grammar = Grammar(["+", "sin"], ["x", "u"], roles={"u": "action"}, accepts={"sin": ["state"]})
    assert grammar.to_dict()["accepts"] == {"sin": ["state"]}
