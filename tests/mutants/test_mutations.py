"""The mutants themselves: each is a program, and each is another program."""

import ast
from pathlib import Path

import pytest

from tests.mutants.isolated import Record
from tests.mutants.mutations import mutants


SOURCE = '''def f(a: int = 0, *, wide=True) -> "x":
    """Text stays."""
    if not a < b and a:
        raise ValueError(f"é {a + 1}")
    log(é, a)
    return -(a - 2.0) @ b.square().sum(axis=0)
'''


def changed(source: str) -> set[str]:
    return {m.apply(source) for m in mutants(source, "f.py")}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", "(a <= b)"),
        ("a < b", "(a > b)"),
        ("not a < b and a", "(not a < b or a)"),
        ("not a < b", "(a < b)"),
        ('raise ValueError(f"é {a + 1}")', "pass"),
        ("log(é, a)", "pass"),
        ("log(é, a)", "(log(a, é))"),
        ("a - 2.0", "(a + 2.0)"),
        ("a - 2.0", "(2.0 - a)"),
        ("a - 2.0", "(a)"),
        ("2.0", "(4.0)"),
        ("b.square()", "(b)"),
        ("b.square().sum(axis=0)", "(b.square().sum())"),
        ("b.square().sum", "(b.square().mean)"),
        ("return -(a - 2.0) @ b.square().sum(axis=0)", "return None"),
        ("= 0, *, wide=True", "= (1), *, wide=True"),
        ("wide=True", "wide=(False)"),
    ],
)
def test_one_change_at_its_place(before: str, after: str) -> None:
    assert SOURCE.replace(before, after, 1) in changed(SOURCE)


def test_neither_texts_nor_annotations_nor_messages_change() -> None:
    for source in changed(SOURCE):
        assert '"""Text stays."""' in source and "a: int" in source and '-> "x"' in source
        assert "raise" not in source or 'f"é {a + 1}"' in source


@pytest.mark.parametrize("path", ["symbolic/operators.py", "control/ilqr.py", "data/weak.py"])
def test_every_mutant_of_real_code_parses_and_differs(path: str) -> None:
    source = (Path(__file__).parents[2] / "sjepa" / path).read_text(encoding="utf-8")
    original = ast.dump(ast.parse(source))
    found = mutants(source, path)
    assert len(found) > 20
    for mutant in found[::7]:
        assert ast.dump(ast.parse(mutant.apply(source))) != original, mutant


def test_the_tests_of_a_line_come_quickest_first_and_within_their_time() -> None:
    seconds = {"a": 5.0, "b": 1.0, "c": 2.0, "d": 0.1}
    record = Record({"f.py": {1: set(), 3: {"a", "b", "c", "skipped"}, 4: {"a"}}}, seconds)
    assert record.covering("f.py", (3,), most=4.0) == ["b", "c"]
    assert record.covering("f.py", (4,), most=4.0) == ["a"]
    assert record.covering("f.py", (9, 3), most=9.0) == ["b", "c", "a"]
    assert record.covering("f.py", (1,), most=9.0) == ["b", "c", "a"]  # runs at import
    assert record.covering("f.py", (7,), most=9.0) == []
