"""A backend that is wrong, careless or broken is found out before anyone uses its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import sympy

from sjepa.backend import Backend, Problem
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.discovery import discover
from sjepa.errors import BackendError, ConfigError, DataError
from sjepa.metrics.induced import induced_complexity
from sjepa.symbolic import Candidate, Front, Grammar, Law, Library


NAMES = ["q", "p"]
LIBRARY = Library.from_terms(["1", "q", "p", "sin(q)"], NAMES, mask={"q": ["p"]})
TRUTH = Law.from_string(["p", "-sin(q)"], NAMES)


@dataclass(frozen=True)
class Scripted(Backend):
    """Answers with whatever it was told to."""

    name: ClassVar[str] = "scripted"

    answer: Callable[[Problem], Any]

    def search(self, problem: Problem) -> Front:
        return self.answer(problem)


def pendulum(**changes: Any) -> Problem:
    z = np.random.default_rng(0).uniform(-2.0, 2.0, (100, 2))
    targets = np.stack([z[:, 1], -np.sin(z[:, 0])], axis=1)
    return Problem(**{"inputs": z, "targets": targets, "library": LIBRARY, **changes})


def answering(*laws: Law, **changes: Any) -> Callable[[Problem], Front]:
    """A front of these laws with an honest score, apart from the changes."""

    def answer(problem: Problem) -> Front:
        honest = problem.candidate(TRUTH)
        return Front(tuple(replace(honest, law=law, **changes) for law in laws), "terms", "x")

    return answer


def law(*equations: str, inputs: Any = NAMES, outputs: Any = None, **options: Any) -> Law:
    return Law.from_string(equations, inputs, outputs, **options)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (answering(law("y", "-sin(x)", inputs=["x", "y"])), "inputs x, y; the problem has q, p"),
        (answering(law("p", "-sin(q)", outputs=["a", "b"])), "outputs a, b; the problem has q, p"),
        (answering(law("p", outputs=["q"])), "outputs q; the problem has q, p"),
        (answering(law("p", "-sin(q)", dynamics="discrete")), "dynamics discrete"),
        (answering(law("p", "-q**2")), r"p' = -q\*\*2, which the library or grammar does not"),
        (answering(law("q", "-sin(q)")), "q' = q; .* does not allow"),  # in the library, masked
        (answering(law("p", "-0.5*sin(q)")), "claims a loss of .* on the rows of the problem it"),
        (answering(TRUTH, loss=0.5, losses=()), "claims a loss of 0.5"),
        (answering(TRUTH, losses=(0.0, 0.2)), "claims a loss of 0.2"),
        (answering(TRUTH, loss=float("nan")), "claims a loss of nan"),
        (answering(TRUTH, certified=True), "does not say that it proves"),
        (lambda problem: [TRUTH], "returned a list, not a front"),
        (lambda problem: None, "returned a NoneType, not a front"),
    ],
)
def test_a_false_answer_is_an_error_with_the_backends_name(
    answer: Callable[[Problem], Any], complaint: str
) -> None:
    with pytest.raises(BackendError, match=f"^scripted: .*{complaint}") as caught:
        pendulum().solve(Scripted(answer))
    assert "\n" not in str(caught.value)


def raising(error: BaseException) -> Callable[[Problem], Front]:
    def answer(problem: Problem) -> Front:
        raise error

    return answer


@pytest.mark.parametrize(
    "error",
    [ValueError("shapes\nand more"), np.linalg.LinAlgError("Singular matrix"), KeyError("x")],
)
def test_what_breaks_inside_comes_out_as_one_line_with_the_name(error: Exception) -> None:
    with pytest.raises(BackendError) as caught:
        pendulum().solve(Scripted(raising(error)))
    assert str(caught.value).startswith(f"scripted: the search failed with {type(error).__name__}:")
    assert "\n" not in str(caught.value) and caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DataError("row 3 is empty")])
def test_interrupts_and_our_own_errors_pass_as_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        pendulum().solve(Scripted(raising(error)))
    assert caught.value is error


def test_an_exception_of_the_listener_is_not_blamed_on_the_backend() -> None:
    class Stop(Exception):
        pass

    def listen(line: str, share: float) -> None:
        raise Stop

    def answer(problem: Problem) -> Front:
        problem.report("working", 0.5)
        return problem.front([TRUTH], "scripted")

    with pytest.raises(Stop):
        pendulum(progress=listen).solve(Scripted(answer))


def test_laws_come_back_canonical_scored_by_the_problem_and_sorted() -> None:
    q, p = TRUTH.symbols
    loose = Law([p + 0 * q, -1.0 * sympy.sin(q) + 0.0 * q], NAMES, canonical=False)
    zero = law("0", "0")

    def answer(problem: Problem) -> Front:
        # Complexities of its own invention, in the wrong order.
        rows = [(loose, 0.0, 1.0), (zero, float(np.mean(problem.losses(zero))), 7.0)]
        return Front(tuple(Candidate(found, loss, size, size) for found, loss, size in rows))

    front = pendulum().solve(Scripted(answer))
    assert [c.law.expressions for c in front] == [zero.expressions, TRUTH.expressions]
    assert [(c.terms, len(c.losses)) for c in front] == [(0.0, 2), (3.0, 2)]
    assert front.measure == "terms"


def test_weights_of_the_grammar_decide_the_scores() -> None:
    grammar = Grammar(["+", "*", "sin"], NAMES, weights={"sin": 0.25, "variable": 2.0})
    front = pendulum(library=None, grammar=grammar).solve(
        Scripted(lambda problem: Front((replace(problem.candidate(TRUTH), tree=99.0),), "tree"))
    )
    # p is a variable, -sin(q) a sine of one; a sign is free.
    assert front[0].tree == 2.0 + 0.25 + 2.0


@pytest.mark.parametrize("space", ["library", "grammar"])
def test_one_equation_scores_like_its_column_of_the_whole_law(space: str) -> None:
    grammar = Grammar(["+", "*", "sin"], NAMES, masks={"q": {"inputs": ["p"]}})
    both = {"library": LIBRARY, "grammar": None}
    if space == "grammar":
        both = {"library": None, "grammar": grammar}
    weights = np.linspace(0.0, 1.0, 100)
    problem = pendulum(weights=weights, **both)
    whole = problem.candidate(law("0.9*p", "-sin(q) + 0.1*q"))
    for j in range(2):
        alone = problem.candidate(problem.equation(j, whole.law.expressions[j]))
        assert alone.losses == pytest.approx(whole.losses[j : j + 1], rel=1e-12)
    q = sympy.Symbol("q", real=True)
    assert [problem.admits(problem.equation(j, q)) for j in range(2)] == [False, True]


def test_every_caller_checks() -> None:
    """discover and induced_complexity stand for those who search."""
    t = np.arange(0.0, 6.0, 0.05)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    liar = Scripted(lambda problem: replace(problem.front([], ""), candidates=("p' = q",)))
    silent = Scripted(lambda problem: None)
    with pytest.raises(BackendError, match="scripted: the answer"):
        discover(x, t, feature_names=NAMES, backend=liar)
    with pytest.raises(BackendError, match="scripted: returned a NoneType"):
        induced_complexity(None, Trajectories([x], 0.05), Library.paper(NAMES), backend=silent)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("stlsq", "threshold", "big"), ("stlsq", "ridge", float("inf")), ("stlsq", "max_iter", 2.5),
        ("subset", "min_gain", None), ("subset", "beam", True), ("pysindy", "optimizer", 3),
        ("operon", "options", "fast"), ("operon", "population", 2**70),
    ],
)  # fmt: skip
def test_an_option_of_the_wrong_kind_is_refused_by_its_name(
    name: str, option: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=f"^{option} of backend '{name}' is .*, got "):
        make_backend({"name": name, option: value})


def test_options_of_the_right_kind_are_taken() -> None:
    made = make_backend({"name": "stlsq", "threshold": np.float64(0.1), "ridge": 0, "max_iter": 3})
    assert made == make_backend("stlsq", threshold=0.1, ridge=0.0, max_iter=3)
