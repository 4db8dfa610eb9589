"""Reading what real PySR runs left behind, and what people write by hand."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sjepa.errors import FormatError, LawError, ParseError
from sjepa.symbolic import Law
from sjepa.symbolic.imports.pysr import law_from_pysr, parse_pysr


RUNS = Path(__file__).parents[1] / "data_files" / "pysr"


def written(path: Path, *rows: str, header: str = "Complexity,Loss,Equation") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("source", ["basic", "basic/hall_of_fame.csv", "basic_equations.csv"])
def test_the_row_that_pysr_calls_best_is_the_default(source: str) -> None:
    law = Law.from_pysr(str(RUNS / source))
    assert law.inputs == ("x0", "x1", "x2", "x3") and law.dynamics == "discrete"
    assert law.lines(digits=6) == ["y = x0**2 + 2.5382*cos(x3) - 0.5"]


def test_pysr_s_choice_is_not_just_the_lowest_loss() -> None:
    # The last row fits a trifle better, but PySR printed >>>> beside the one before it.
    law = law_from_pysr(RUNS / "pendulum", inputs=["q", "p"])
    assert law.lines(digits=8)[1] == "y1 = -sin(q) - 1.6499708e-09"


def test_a_row_can_be_chosen_for_each_output() -> None:
    law = law_from_pysr(RUNS / "drag_long", [1, 9])
    assert law.inputs == ("x0", "x1") and law.outputs == ("y0", "y1")
    assert law.lines(4) == ["y0 = x1", "y1 = -1.25*x1 - sin(x0) + sin(x1)"]
    assert law_from_pysr(RUNS / "basic", np.int64(1)).lines() == ["y = x0**2"]
    with pytest.raises(LawError, match=r"no row 99.*has 8 rows"):
        law_from_pysr(RUNS / "basic", 99)
    with pytest.raises(LawError, match="3 rows for 2 outputs"):
        law_from_pysr(RUNS / "drag", [0, 0, 0])


def test_outputs_named_after_inputs_are_derivatives() -> None:
    files = [RUNS / f"pendulum_equations_{i}.csv" for i in range(2)]
    names = {"inputs": ["q", "p"], "outputs": ["q", "p"]}
    assert law_from_pysr(files, [2, 4], **names).lines(3)[0] == "q' = p"
    assert law_from_pysr(files, **names, dynamics="discrete").dynamics == "discrete"
    with pytest.warns(UserWarning, match="order"):
        assert law_from_pysr(files).dynamics == "discrete"


def test_a_fitted_regressor_knows_its_feature_names() -> None:
    frames = [pd.read_csv(RUNS / f"pendulum_equations_{i}.csv") for i in range(2)]
    regressor = SimpleNamespace(equations_=frames, feature_names_in_=np.array(["q", "p"]))
    law = Law.from_pysr(regressor)
    assert law.inputs == ("q", "p") and law.lines()[0] == "y0 = p"
    constants = pd.DataFrame({"complexity": [1], "loss": [0.0], "equation": [1.5605824]})
    assert law_from_pysr(SimpleNamespace(equations_=constants)).coefficients == [1.5605824]
    with pytest.raises(FormatError, match="not fitted"):
        law_from_pysr(SimpleNamespace(equations_=None))
    with pytest.raises(FormatError, match="got int"):
        law_from_pysr(3)


@pytest.mark.parametrize(
    ("equation", "meaning"),
    [
        ("square(x0) + cube(x1)", "x0**2 + x1**3"),
        ("inv(x0) * 2.0", "2/x0"),
        ("x0 ^ 2.0", "x0**2"),
        ("safe_log(x0) + safe_sqrt(x1)", "log(x0) + sqrt(x1)"),
        ("safe_div(x0, x1) - exp_clip(log_safe(x0))", "safe_div(x0, x1) - exp_clip(log_safe(x0))"),
        ("neg(x0) + relu(x1)", "Max(x1, 0) - x0"),
        ("1.5f-3 * x0", "0.0015*x0"),
        ("(x0 > 1.5) * x1", "greater(x0, 1.5)*x1"),
        ("cond(x0, x1)", "cond(x0, x1)"),
    ],
)
def test_operators_of_pysr_and_our_own_are_read(
    equation: str, meaning: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "hall_of_fame.csv", f'3,0.1,"{equation}"')
    names = ["x0", "x1"]
    expected = Law.from_string(meaning, names, ["y"], "discrete")
    assert law_from_pysr(path, inputs=names) == expected
    assert law_from_pysr(tmp_path, inputs=names) == expected


def test_inputs_are_inferred_in_natural_order(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "1,1.0,z10", "4,0.5,sin(z2) + alpha")
    with pytest.warns(UserWarning, match=r"taken as alpha, z2, z10\. Name them"):
        assert Law.from_pysr(path).inputs == ("alpha", "z2", "z10")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Law.from_pysr(path, inputs=["z2", "alpha", "z10"]).inputs[0] == "z2"
        path = written(tmp_path / "b.csv", "1,1.0,x10", "4,0.5,exp(x2) * 1.0e-3")
        assert Law.from_pysr(path).inputs == tuple(f"x{i}" for i in range(11))


def test_a_back_up_is_read_when_it_is_all_there_is(tmp_path: Path) -> None:
    written(tmp_path / "hall_of_fame.csv.bak", "1,0.5,x0")
    assert law_from_pysr(tmp_path).lines() == ["y = x0"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("3,0.1,nosuch(x0)", "hall_of_fame.csv, row 1: Unknown function 'nosuch'"),
        ("3,0.1,f = sin(#1); p = [0.5]", "row 1: .* comes from a template search"),
        ("3,zero,x0", "row 1: complexity '3' and loss 'zero' must be numbers"),
        ("3,0.1", "row 1: The equation is empty"),
        ("3,0.1,__import__('os').system('true')", "row 1:"),
    ],
)
def test_what_cannot_be_read_is_named_with_file_and_row(
    row: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "hall_of_fame.csv", "1,0.5,x0", row)
    with pytest.raises(ParseError, match=message):
        law_from_pysr(path, 1, inputs=["x0"])


def test_files_that_are_not_pysr_s_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"no hall_of_fame\.csv"):
        law_from_pysr(tmp_path)
    with pytest.raises(FormatError, match="no column 'loss'"):
        law_from_pysr(written(tmp_path / "a.csv", "1,x0", header="Complexity,Equation"))
    with pytest.raises(FormatError, match="has no rows"):
        law_from_pysr(written(tmp_path / "b.csv"))
    with pytest.raises(FormatError, match="does not exist"):
        law_from_pysr(tmp_path / "nosuch.csv")
    with pytest.raises(ParseError, match="template"), pytest.warns(UserWarning, match="order"):
        law_from_pysr(RUNS / "template")


def test_bad_comparisons_are_left_to_the_parser() -> None:
    with pytest.raises(ParseError):
        parse_pysr("x0 > > 1", ["x0"])
    with pytest.raises(ParseError, match="compare two values"):
        parse_pysr("1 < x0 < 2", ["x0"])


OURS = sorted((RUNS / "ours").glob("*/hall_of_fame*.csv"))
JULIA = {
    "square": np.square, "inv": np.reciprocal, "neg": np.negative, "max": np.maximum,
    "abs": np.abs, "sin": np.sin, "tanh": np.tanh, "sqrt": np.sqrt, "exp": np.exp,
}  # fmt: skip


@pytest.mark.parametrize("path", OURS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_row_of_the_runs_that_our_backend_made_means_what_pysr_wrote(path: Path) -> None:
    """Among them the rows with powers in powers on which the parser once never finished."""
    table = pd.read_csv(path, dtype=str)
    names = ["q", "p"] if path.stem.endswith(("1", "2")) else ["x0", "x1"]
    values = np.random.default_rng(0).uniform(0.3, 2.0, (40, 2))
    given = dict(zip(names, values.T, strict=True))
    for text in table["Equation"]:
        law = Law([parse_pysr(text, names)], names, ["y"], "discrete")
        meant = eval(text.replace("^", "**"), {"__builtins__": {}, **JULIA, **given})
        expected = np.broadcast_to(meant, 40)
        np.testing.assert_allclose(law.numpy()(values)[:, 0], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["x99999999", "x" + 5000 * "9"])
def test_a_column_far_beyond_any_table_is_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "hall_of_fame.csv", f"1,0.5,{name}")
    with pytest.raises(FormatError, match="inputs"):
        law_from_pysr(path)
    assert law_from_pysr(path, inputs=[name]).inputs == (name,)
