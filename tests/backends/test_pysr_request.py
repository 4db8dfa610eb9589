"""What PySR is asked: operators, complexities, constraints, guesses, and nothing it lacks."""

import ast
import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sjepa.backend import Budget, Problem
from sjepa.errors import ConfigError, ParseError
from sjepa.symbolic import Candidate, Front, Grammar, Law, Library
from sjepa.symbolic.operators import OPERATORS
from sjepa.symbolic.parse import parse, symbol
from sjepa_backends.pysr import PySR, PySRTemplate
from sjepa_backends.pysr.guess import guesses
from sjepa_backends.pysr.request import plan
from sjepa_backends.pysr.so_far import PrintedTable, in_our_names
from sjepa_julia import definitions


RUNS = Path(__file__).parents[1] / "data_files" / "pysr"
RECORDED = json.loads((RUNS / "signatures.json").read_text())
EVERYTHING = PySR(
    procs=4,
    cluster_manager="slurm",
    batching=True,
    options={"parsimony": 0.1, "maxdepth": 9},
    elementwise_loss="L1DistLoss()",
    denoise=True,
    dimensional_constraint_penalty=10.0,
    hall_of_fame="runs",
)
UNITS = {"q": "m", "p": "m/s", "q'": "m/s", "p'": "m/s**2"}


def problem(**changes: Any) -> Problem:
    z = np.random.default_rng(0).uniform(0.5, 2, (30, 2))
    settings: dict[str, Any] = {"grammar": Grammar(["+", "-", "*", "sin"], ["q", "p"]), **changes}
    return Problem(z, z, ["q", "p"], **settings)


def asked(backend: PySR = PySR(), **changes: Any) -> dict[str, Any]:  # noqa: B008
    p = problem(**changes)
    (task,) = plan(p, backend._templates(p))[0]
    return backend.request(task, p)


def pysr_version() -> str:
    return importlib.metadata.version("pysr")


def option_names(path: Path) -> set[str]:
    """Parameters of ``PySRRegressor``, without importing PySR, which would start Julia."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (cls,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "PySRRegressor")
    (init,) = (n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    return {a.arg for a in (*init.args.args, *init.args.kwonlyargs)}


@pytest.mark.parametrize("version", ["1.5.10", "2.0.0a2", "2.7.2", "the installed one"])
def test_every_option_we_send_exists(version: str) -> None:
    if version in RECORDED:
        known = set(RECORDED[version]["PySRRegressor"])
    else:
        spec = importlib.util.find_spec("pysr")
        if spec is None or spec.origin is None:
            pytest.skip("pysr is not installed")
        known = option_names(Path(spec.origin).with_name("sr.py"))
    nested = Grammar(["+", "^", "sin"], ["q", "p"], nested={"sin": {"sin": 0}})
    library = Library.from_terms(["1", "q", "sin(q)"], ["q", "p"])
    for backend in (PySR(), PySR(deterministic=False), EVERYTHING):
        for change in ({"grammar": nested}, {"grammar": None, "library": library}):
            sent = asked(backend, budget=Budget(seconds=3.0), units=UNITS, **change)["settings"]
            assert not sent.keys() - known
    # Added by the worker.
    assert {"extra_sympy_mappings", "expression_spec", "logger_spec", "warm_start"} <= known
    major = int((pysr_version() if version == "the installed one" else version).split(".")[0])
    assert ("guesses" in known) == (major >= 2)


@pytest.mark.parametrize("version", ["1.5.10", "2.0.0a2", "2.7.2"])
def test_what_the_worker_builds_and_passes_exists(version: str) -> None:
    known = RECORDED[version]
    template = PySRTemplate("f(q) + c[1] * g(p)", ["f", "g"], {"c": 1})
    request = asked(PySR(template=template, tensorboard="logs"), units=UNITS)
    assert request["template"]["parameters"] == {"c": 1}
    assert request["template"].keys() <= set(known["TemplateExpressionSpec"])
    assert request["logger"].keys() <= set(known["TensorBoardLoggerSpec"])
    assert {*request["units"], "weights", "complexity_of_variables"} <= set(known["fit"])


def test_terms_of_a_library_cost_what_its_weights_say() -> None:
    cost = {}
    for weights in (None, [1.0, 7.0]):
        library = Library.from_terms(["q", "sin(q)"], ["q", "p"], weights)
        sent = asked(grammar=None, library=library)
        cost[weights is None] = sent["complexity_of_variables"]
    assert cost[True] == [2, 4] and cost[False] == [2, 14]


def test_losses_are_sent_by_the_name_that_their_argument_has() -> None:
    plain = asked(PySR(loss_function="f(tree, dataset, options) = 1"))["settings"]
    assert plain["loss_function"] == "f(tree, dataset, options) = 1"
    known = PySR(template=PySRTemplate("f(q)", ["f"]), loss_function="g(e, dataset, options) = 1")
    settings = asked(known)["settings"]
    assert settings["loss_function_expression"] == "g(e, dataset, options) = 1"
    assert "loss_function" not in settings
    assert asked(PySR(elementwise_loss="L1DistLoss()"))["settings"]["elementwise_loss"]
    assert not {"elementwise_loss", "denoise", "loss_function"} & asked()["settings"].keys()
    with pytest.raises(ConfigError, match="elementwise_loss or a loss_function, not both"):
        PySR(elementwise_loss="L1DistLoss()", loss_function="f(t, d, o) = 1")


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("m/s**2", "m*s^-2"), ("N", "m*kg*s^-2"), ("", "1"), ("rad", "1"),
        ("sqrt(m)", None), ("m**0.5", "m^(1//2)"),
    ],
)  # fmt: skip
def test_units_are_sent_as_base_units_in_julias_spelling(text: str, sent: str | None) -> None:
    pytest.importorskip("pint")
    if sent is None:
        with pytest.raises(ConfigError, match="cannot be read"):
            asked(units=UNITS | {"p'": text})
        return
    request = asked(units=UNITS | {"p'": text}, dimensionless_constants=True)
    assert request["units"] == {"X_units": ["m", "m*s^-1"], "y_units": ["m*s^-1", sent]}
    assert request["settings"]["dimensionless_constants_only"] is True
    # PySR's own penalty, unless one is asked for.
    assert "dimensional_constraint_penalty" not in request["settings"]
    sharp = asked(PySR(dimensional_constraint_penalty=5.0), units=UNITS)["settings"]
    assert sharp["dimensional_constraint_penalty"] == 5.0


def test_units_of_columns_that_are_terms_are_not_sent_and_a_penalty_needs_units() -> None:
    pytest.importorskip("pint")
    library = Library.from_terms(["q", "q**2", "p"], ["q", "p"])
    request = asked(grammar=None, library=library, units=UNITS)
    assert "units" not in request and "dimensionless_constants_only" not in request["settings"]
    assert "units" not in asked()
    with pytest.raises(ConfigError, match="needs units"):
        asked(PySR(dimensional_constraint_penalty=5.0))


def test_the_hall_of_fame_is_kept_where_it_is_wanted(tmp_path: Path) -> None:
    settings = asked(PySR(hall_of_fame=str(tmp_path)))["settings"]
    assert settings["output_directory"] == str(tmp_path) and not settings["temp_equation_file"]
    assert asked()["settings"]["temp_equation_file"] and "output_directory" not in asked()


def test_rows_of_the_hall_of_fame_are_told_in_our_names() -> None:
    p = problem()
    (task,), _ = plan(p, {})
    row = "5           3.045e+00  1.063e-02  y₂ = (x₀ * x₁) + -0.25544"
    assert in_our_names(row, task, p) == "p = (q * p) + -0.25544  (loss 3.045e+00, size 5)"
    assert in_our_names("  2   1.0e+00  0.0e+00  y = x₁", task, p).startswith("q = p  (")
    for line in ("Progress: 3 / 12 total iterations (25.000%)", "9 1.0 0.0 y₃ = x₀", "5 1 1 y = "):
        assert in_our_names(line, task, p) in (line, "q =   (loss 1, size 5)")


def test_the_table_that_pysr_prints_stands_below_its_lines() -> None:
    p = problem()
    (task,), _ = plan(p, {})
    table = PrintedTable(task, p)
    assert table.with_table("Progress: 1 / 12") == "Progress: 1 / 12"
    first = ["Complexity  Loss       Score      Equation", "1  3.4e+01  0.0e+00  y₂ = 3.85"]
    again = [first[0], "2  3.4e+01  0.0e+00  y₂ = x₀", "5  1.2e+00  9.0e-01  y₂ = sin(x₀) + x₁"]
    lines = [table.with_table(line) for line in (*first, *again)]
    assert lines[1].splitlines()[1:] == [
        "complexity      loss  equation", "       0.5   3.4e+01  p = 3.85",
    ]  # fmt: skip
    assert lines[-1].splitlines()[2:] == [
        "         1   3.4e+01  p = q", "       2.5   1.2e+00  p = sin(q) + p",
    ]  # fmt: skip


def test_complexities_are_our_weights_doubled() -> None:
    request = asked(grammar=Grammar(["+", "-", "*", "/", "sin", "abs", "safe_div"], ["q", "p"]))
    settings = request["settings"]
    costs = settings["complexity_of_operators"]
    assert costs == {"+": 2, "-": 2, "*": 3, "/": 4, "sin": 7, "abs": 2, "safe_div": 4}
    assert settings["complexity_of_constants"] == 1 and settings["complexity_of_variables"] == 2
    assert settings["maxsize"] == 40
    # PySR's count of an equation is twice the tree complexity of the same equation.
    law = Law.from_string("0.5*q - sin(p)", ["q", "p"], ["q"])
    assert costs["*"] + costs["-"] + costs["sin"] + 1 + 2 + 2 == 2 * law.complexity("tree")


def test_weights_of_the_grammar_are_honored() -> None:
    grammar = Grammar(
        ["+", "-", "sin"], ["q", "p"], weights={"sin": 1.0, "+": 2.0, "constant": 0.0}
    )
    settings = asked(grammar=grammar)["settings"]
    assert settings["complexity_of_operators"] == {"+": 4, "-": 4, "sin": 2, "*": 3}
    assert settings["complexity_of_constants"] == 1  # PySR needs whole numbers of at least 1


def test_our_own_operators_are_sent_as_their_julia_definition() -> None:
    names = ["+", "safe_div", "exp_clip", "log_safe", "sqrt_safe", "log", "max"]
    request = asked(grammar=Grammar(names, ["q", "p"]))
    settings = request["settings"]
    assert definitions()["safe_div"] in settings["binary_operators"]
    assert "max" in settings["binary_operators"] and "log" in settings["unary_operators"]
    assert definitions()["exp_clip"] in settings["unary_operators"]
    assert request["defined"] == ["safe_div", "exp_clip", "log_safe", "sqrt_safe"]


def test_numbers_may_multiply_where_products_are_not_allowed() -> None:
    settings = asked(grammar=Grammar(["+", "sin"], ["q", "p"]))["settings"]
    assert settings["binary_operators"] == ["+", "*"]
    assert settings["constraints"] == {"*": [-1, 1]}  # the right one no more than a constant
    free = asked(grammar=Grammar(["+", "*", "sin"], ["q", "p"]))["settings"]
    assert "constraints" not in free


def test_nesting_and_powers_are_limited() -> None:
    nested = {"sin": {"sin": 0, "cos": 1}, "tanh": {"sin": 0}}
    settings = asked(grammar=Grammar(["*", "^", "sin"], ["q", "p"], nested=nested))["settings"]
    # Julia raises for operators that are not in use, so only the others are sent.
    assert settings["nested_constraints"] == {"sin": {"sin": 0}}
    idle = Grammar(["*", "^", "sin"], ["q", "p"], nested={"sin": {"cos": 0}})
    assert not asked(grammar=idle)["settings"].get("nested_constraints")
    assert settings["constraints"] == {"^": [-1, 2]}


def test_however_short_the_law_the_search_has_room() -> None:
    """Three operators and four leaves at least: SymbolicRegression.jl starts from such trees."""
    small = Grammar(["+", "*"], ["q", "p"], max_size=2)
    assert asked(PySR(maxsize=3), grammar=small)["settings"]["maxsize"] == 3 * 3 + 4 * 2
    assert asked(PySR(maxsize=12))["settings"]["maxsize"] == 3 * 7 + 4 * 2
    assert asked(PySR(maxsize=30))["settings"]["maxsize"] == 60
    # Experiment 2: both terms were found in no run at 17, in all from 24 on.
    masked = Library.from_terms(["sin(q)", "p*Abs(p)"], ["q", "p"])
    assert asked(PySR(maxsize=1), grammar=None, library=masked)["settings"]["maxsize"] >= 24


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("constraints", {"cos": 3}),
        ("complexity_of_operators", {"sine": 2}),
        ("nested_constraints", {"sin": {"cos": 0}}),
        ("nested_constraints", {"cos": {"sin": 0}}),
    ],
)
def test_options_about_operators_that_are_not_searched_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{option} names '(cos|sine)', which is not searched"):
        asked(PySR(options={option: value}))
    asked(PySR(options={"constraints": {"sin": 3}, "nested_constraints": {"sin": {"*": 0}}}))


def test_every_operator_of_the_table_can_be_asked_for_or_is_noted() -> None:
    names = list(OPERATORS)
    p = problem(grammar=Grammar(names, ["q", "p"]))
    (task,), notes = plan(p, {})
    assert set(names) - set(task.operators) == {n for n in names if not OPERATORS[n].pysr}
    assert bool(notes) == bool(set(names) - set(task.operators))
    assert "Heaviside" in task.operators
    request = asked(grammar=Grammar(["+", "Heaviside"], ["q", "p"]))
    assert definitions()["heaviside"] in request["settings"]["unary_operators"]
    assert request["defined"] == ["heaviside"]


@pytest.mark.parametrize(
    ("backend", "seconds", "expected"),
    [
        (PySR(), None, {"parallelism": "serial", "deterministic": True, "niterations": 60}),
        (PySR(), 5.0, {"niterations": 60, "timeout_in_seconds": 5.0}),
        (PySR(niterations=9), 5.0, {"niterations": 9}),
        (PySR(deterministic=False), None, {"parallelism": "multithreading", "niterations": 60}),
        (PySR(deterministic=False), 5.0, {"niterations": 1_000_000}),
        (PySR(procs=3), None, {"parallelism": "multiprocessing", "procs": 3}),
        (PySR(cluster_manager="slurm"), None, {"cluster_manager": "slurm", "procs": None}),
        (PySR(options={"niterations": 2}), None, {"niterations": 2}),
    ],
)
def test_repeatable_searches_end_by_iterations_and_others_by_time(
    backend: PySR, seconds: float | None, expected: dict[str, Any]
) -> None:
    settings = asked(backend, budget=Budget(seconds=seconds), seed=-1)["settings"]
    assert expected.items() <= settings.items()
    assert settings.get("random_state", 2**32 - 1) == 2**32 - 1
    assert ("random_state" in settings) == settings.get("deterministic", False)


def test_terms_that_are_not_finite_are_left_out() -> None:
    library = Library.from_terms(["q", "log(q)", "1"], ["q", "p"])
    z = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    (task,), notes = plan(Problem(z, z, ["q", "p"], library=library), {})
    assert [str(c) for c in task.columns] == ["q"] and task.bias
    assert "not finite" in notes[0]


GUESSES = [
    "0.5*q - sin(p)",
    "q*p**2 - q**3*sin(q)**2",
    "-1.5*q/p + 1/p**2",
    "2.0 - p*Abs(p)",
    "Max(q, p, 0.5)",
    "safe_div(q, p + 1)*exp_clip(q)",
]


@pytest.mark.parametrize("short", [[], ["square", "cube", "inv"]])
def test_guesses_mean_the_laws_they_were_made_of(short: list[str]) -> None:
    names = ["q", "p"]
    operators = ["+", "*", "/", "sin", "abs", "max", "safe_div", "exp_clip", *short]
    laws = [Law.from_string(["q", g], names) for g in GUESSES]
    warm = Front(tuple(Candidate.score(w, [0, 1]) for w in laws))
    p = problem(grammar=Grammar(operators, names), warm=warm)
    (task,), _ = plan(p, {})
    found = guesses(task, p)
    assert found is not None and found[0] == ["x0"]
    read = {Law([parse(text, ["x0", "x1"])], ["x0", "x1"], ["y"]) for text in found[1]}
    places = dict(zip(laws[0].symbols, (symbol("x0"), symbol("x1")), strict=True))
    assert read == {Law([w.expressions[1].xreplace(places)], ["x0", "x1"], ["y"]) for w in laws}
    for text in found[1]:
        _only_offered(text, task.operators)


def _only_offered(text: str, operators: tuple[str, ...]) -> None:
    """Binary operations and offered calls only: Julia has no unary minus in the operator set."""
    signs = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
    calls = {OPERATORS[n].pysr for n in operators}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp):
            assert signs[type(node.op)] in operators
        if isinstance(node, ast.UnaryOp):
            assert isinstance(node.operand, ast.Constant)
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name) and node.func.id in calls


def test_laws_that_the_search_cannot_write_are_no_guesses() -> None:
    texts = ["tanh(q)", "sqrt(q)", "log(p)", "q*p", "1.5", "q**p"]
    laws = [Law.from_string([text, "q"], ["q", "p"]) for text in texts]
    warm = Front(tuple(Candidate.score(law, [0, 1]) for law in laws))
    p = problem(grammar=Grammar(["+", "sin", "log", "sqrt", "^"], ["q", "p"]), warm=warm)
    (task,), _ = plan(p, {})
    # Nothing for the first output; a list must not be empty, so the simplest guess stands in.
    assert guesses(task, p) == [["x0"], ["x0"]]
    assert guesses(task, p.with_(warm=None)) is None


def test_guesses_for_a_library_are_sums_of_its_terms() -> None:
    library = Library.from_terms(["1", "q", "sin(q)"], ["q", "p"])
    laws = [Law.from_string(e, ["q", "p"]) for e in (["0", "0"], ["0.5 - 2*sin(q)", "p"])]
    warm = Front(tuple(Candidate.score(law, [0, 1]) for law in laws))
    p = problem(grammar=None, library=library, warm=warm)
    (task,), _ = plan(p, {})
    assert guesses(task, p) == [["(0.5 + (x1 * -2.0))"], ["x0"]]


def test_a_template_reads_rows_of_a_real_run() -> None:
    template = PySRTemplate("f(q) + p[1] * g(v)", ["f", "g"], {"p": 1})
    rows = (RUNS / "template_equations.csv").read_text().splitlines()[1:]
    equations = [line.split(",")[3] for line in rows]
    laws = [Law([template.expression(e, ["q", "v"])], ["q", "v"], ["v"]) for e in equations]
    assert laws[3] == Law.from_string("sin(q) + 0.5*v**2", ["q", "v"], ["v"])
    assert laws[0].lines(4) == ["v' = q + 0.637"]


@pytest.mark.parametrize(
    ("combine", "row", "meaning"),
    [
        ("D(H, 2)(q, v)", "H = #1 * #2^3", "3*q*v**2"),
        ("sin(H(q, H(v, q)))", "H = #1 - #2", "sin(q - (v - q))"),
        ("H(q, v)^2 / c[2]", "H = #1; c = [1.0, 2.5f-1]", "4*q**2"),
    ],
)
def test_templates_nest_and_differentiate(combine: str, row: str, meaning: str) -> None:
    template = PySRTemplate(combine, ["H"], {"c": 2} if "c[" in combine else {})
    expr = template.expression(row, ["q", "v"])
    assert Law([expr], ["q", "v"], ["y"]) == Law.from_string(meaning, ["q", "v"], ["y"])


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (PySRTemplate("f(q) +", ["f"]), "cannot be read"),
        (PySRTemplate("f(q) + p[2]", ["f"], {"p": 1}), r"'p' is also the name of an input"),
        (PySRTemplate("f(q) + c[2]", ["f"], {"c": 1}), r"c\[2\] is not one of the parameters"),
        (PySRTemplate("nosuch(f(q))", ["f"]), "Unknown function 'nosuch'"),
        (PySRTemplate("tanh(f(q))", ["f"]), "not in the grammar: .* needs tanh"),
    ],
)
def test_templates_are_checked_before_the_search(template: PySRTemplate, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(problem(), {"q": template})


def test_templates_for_unknown_outputs_and_broken_rows_are_refused() -> None:
    with pytest.raises(ConfigError, match="output 'x'; outputs are q, p"):
        plan(problem(), {"x": PySRTemplate("f(q)", ["f"])})
    template = PySRTemplate("f(q, p)", ["f"])
    for row in ("g = #1", "f", "f = #3"):
        with pytest.raises(ParseError):
            template.expression(row, ["q", "p"])


def test_a_template_for_a_list_of_terms_is_refused() -> None:
    library = Library.from_terms(["q", "p"], ["q", "p"])
    with pytest.raises(ConfigError, match="'q' has a list of terms; a template needs operators"):
        plan(problem(library=library, grammar=None), {"q": PySRTemplate("f(q)", ["f"])})


def test_an_output_that_a_known_part_explains_is_not_searched() -> None:
    z = np.random.default_rng(0).uniform(-2, 2, (50, 2))
    left = np.column_stack([1e-9 * z[:, 0], -0.2 * z[:, 1]])
    grammar = Grammar(["+", "*"], ["q", "p"])
    tasks, _ = plan(Problem(z, left, grammar=grammar, loss_unit=np.ones(2)), {})
    assert [(task.outputs, bool(task.columns)) for task in tasks] == [((0,), False), ((1,), True)]
