"""Several backends as one: shared time, seeded by each other, one merged front."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import sjepa
from sjepa.backend import Backend, Budget, Problem
from sjepa.backend.registry import make_backend
from sjepa.errors import BackendError, ConfigError, UnknownBackend
from sjepa.symbolic import Front, Law, Library


NAMES = ["q", "p"]
LIBRARY = Library.from_terms(["1", "q", "p", "sin(q)", "q**2"], NAMES)
Z = np.random.default_rng(0).uniform(-2.0, 2.0, (100, 2))


def problem(**changes: Any) -> Problem:
    targets = np.stack([Z[:, 1], -np.sin(Z[:, 0])], axis=1)
    return Problem(**{"inputs": Z, "targets": targets, "library": LIBRARY, **changes})


@dataclass(frozen=True)
class Knows(Backend):
    """Answers with the laws it knows and those it was started from, and keeps what it was asked."""

    name: ClassVar[str] = "knows"
    laws: tuple[Law, ...]
    asked: list[Problem] = field(default_factory=list, compare=False)

    def search(self, problem: Problem) -> Front:
        self.asked.append(problem)
        problem.report("half", 0.5)
        return problem.front([*self.laws, *(c.law for c in problem.warm or ())], self.name, ["hm"])


class Other(Knows):
    name: ClassVar[str] = "other"


class Fails(Knows):
    name: ClassVar[str] = "fails"

    def search(self, problem: Problem) -> Front:
        raise RuntimeError("no license")


SHORT = Law.from_string(["p", "0"], NAMES)
MIDDLE = Law.from_string(["p", "-0.9*q"], NAMES)
TRUTH = Law.from_string(["p", "-sin(q)"], NAMES)


def test_fronts_are_merged_and_each_law_names_its_first_finder() -> None:
    first, second = Knows((SHORT, MIDDLE)), Other((MIDDLE, TRUTH))
    front = problem().solve(make_backend([first, second]))
    assert {c.law: c.backend for c in front} == {SHORT: "knows", MIDDLE: "knows", TRUTH: "other"}
    assert front.backend == "knows+other"
    assert front.to_frame()["backend"].tolist() == ["knows", "knows", "other"]
    assert "-sin(q)  (other)" in repr(front)
    assert front.notes == ("knows: hm", "other: hm")
    assert Front.from_dict(front.to_dict()) == front
    # Later ones start from what earlier ones found, which one alone could not know.
    assert first.asked[0].warm is None
    assert [c.law for c in second.asked[0].warm or ()] == [SHORT, MIDDLE]


def test_a_warm_start_reaches_every_member() -> None:
    warm = problem().front([MIDDLE], "earlier")
    members = Knows((SHORT,)), Other(())
    problem(warm=warm).solve(make_backend(list(members)))
    assert [c.law for c in members[0].asked[0].warm or ()] == [MIDDLE]
    assert [c.law for c in members[1].asked[0].warm or ()] == [SHORT, MIDDLE]


def asked_by_time(*members: type[Knows], seconds: float, **changes: Any) -> list[Problem]:
    """What each member of a list was asked, in order, where every search takes two seconds."""
    now, asked = [0.0], []

    def timed(kind: type[Knows]) -> Knows:
        class Slow(kind):  # type: ignore[misc, valid-type]
            def search(self, problem: Problem) -> Front:
                now[0] += 2.0
                asked.append(problem)
                return super().search(problem)  # type: ignore[no-any-return]

        return Slow(changes.pop(kind.name, (SHORT,)))

    several = make_backend([timed(kind) for kind in members])
    problem(budget=Budget(seconds, 7), clock=lambda: now[0], **changes).solve(several)
    return asked


class Trees(Knows):
    name: ClassVar[str] = "trees"
    trees: ClassVar[bool] = True


class MoreTrees(Trees):
    name: ClassVar[str] = "more"


def test_libraries_alone_share_the_time_that_is_left_equally() -> None:
    budgets = [p.budget for p in asked_by_time(Knows, Other, Knows, seconds=12.0)]
    assert [b.seconds for b in budgets] == pytest.approx([4.0, 5.0, 8.0])
    assert {b.iterations for b in budgets} == {7}


def test_libraries_come_before_trees_and_leave_them_the_time() -> None:
    asked = asked_by_time(Trees, Knows, seconds=5.0)
    assert [p.budget.seconds for p in asked] == pytest.approx([0.5, 3.0, 1.0])
    # The first was the library; what it found starts the trees.
    assert [p.warm is not None for p in asked] == [False, True, True]


def test_the_trees_that_came_furthest_go_on_with_other_seeds() -> None:
    found = {"trees": (MIDDLE,), "more": (SHORT,)}
    asked = asked_by_time(Trees, MoreTrees, seconds=10.0, seed=3, **found)
    assert [p.budget.seconds for p in asked] == pytest.approx([2.5, 3.0, 6.0, 4.0, 2.0])
    assert [p.seed for p in asked] == [3, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("found", "adequate", "alone", "after"),
    [(TRUTH, None, 1, 1), (MIDDLE, 0.5, 3, 6), (MIDDLE, 1e-9, 10, 10), (SHORT, None, 10, 10)],
)
def test_an_exact_law_ends_the_search_and_one_that_is_good_enough_when_it_stood_for_long(
    found: Law, adequate: float | None, alone: int, after: int
) -> None:
    """Found after 2 seconds it is believed after 6; found by a library, trees have their turn."""
    trees = asked_by_time(Trees, seconds=20.0, trees=(found,), adequate=adequate)
    both = asked_by_time(Knows, Trees, seconds=20.0, knows=(found,), adequate=adequate)
    assert (len(trees), len(both)) == (alone, after)


def test_progress_rises_over_all_members() -> None:
    seen: list[float] = []
    both = make_backend([Knows((SHORT,)), Other((TRUTH,))])
    problem(progress=lambda line, share: seen.append(share)).solve(both)
    assert seen == [0.25, 0.75]


def test_one_failure_is_a_note_and_all_failures_an_error() -> None:
    front = problem().solve(make_backend([Fails(()), Knows((TRUTH,))]))
    assert front.best() == TRUTH
    assert front.notes[0] == "fails: the search failed with RuntimeError: no license"
    with pytest.raises(BackendError, match="fails: .* no license"):
        problem().solve(make_backend([Fails(()), Fails(())]))


def test_an_exception_of_the_listener_ends_everything() -> None:
    def stop(line: str, share: float) -> None:
        raise KeyError("stopped by the user")

    with pytest.raises(KeyError, match="stopped by the user"):
        problem(progress=stop).solve(make_backend([Knows((SHORT,)), Other((TRUTH,))]))


def test_it_is_what_its_members_are() -> None:
    both = make_backend("stlsq+subset")
    assert (both.name, both.trees, both.proves, both.owns_structure) == (
        "stlsq+subset", False, True, True,
    )  # fmt: skip
    assert both == make_backend(["stlsq", {"name": "subset"}])
    certified = problem().solve(both)
    assert all(c.certified for c in certified)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([], ConfigError, "at least one"),
        (["stlsq", "sublet"], UnknownBackend, "Did you mean 'subset'"),
        ({"name": ["stlsq", "subset"], "runs": 3}, ConfigError, "belong to its members"),
        (3, UnknownBackend, "or a list of them"),
    ],
)
def test_what_is_no_list_of_backends_is_refused(
    wrong: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_backend(wrong)


def test_discover_and_the_regressor_take_lists() -> None:
    t = np.arange(0, 8, 0.02)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    front = sjepa.discover(x, t, backend=["stlsq", "subset"], feature_names=NAMES)
    assert front.best().lines(3) == ["q' = p", "p' = -4*q"]
    model = sjepa.SymbolicRegressor(["stlsq", "subset"]).fit(Z, Z[:, 0] * Z[:, 1])
    assert model.law_.lines(3) == ["y = x1*x2"]
    assert set(model.equations_["backend"]) <= {"stlsq", "subset"}


def test_sparse_and_tree_backends_search_one_grammar() -> None:
    pytest.importorskip("pyoperon")
    small = {"name": "operon", "runs": 1, "generations": 6, "population": 200}
    y = Z[:, 0] * Z[:, 1] - np.sin(Z[:, 0])
    model = sjepa.SymbolicRegressor(["stlsq", small], random_state=0).fit(Z, y)
    assert model.front_.measure == "tree"
    assert model.law_.lines(3) == ["y = x1*x2 - sin(x1)"]


def test_other_digits_make_no_other_finder() -> None:
    near = Law.from_string(["p", "-0.89999*q"], NAMES)  # a little better
    front = problem().solve(make_backend([Knows((MIDDLE,)), Other((near, TRUTH))]))
    assert {c.law: c.backend for c in front} == {near: "knows", TRUTH: "other"}


def test_integrals_leave_each_law_to_its_first_finder() -> None:
    t, rng = np.arange(0, 10, 0.05), np.random.default_rng(0)
    x = [TRUTH.simulate(start, t).z for start in ([1.5, 0.0], [-0.5, 1.5])]
    x = [path + 0.01 * path.std(axis=0) * rng.normal(size=path.shape) for path in x]
    backends = [Knows((MIDDLE, TRUTH)), type("Trees", (Other,), {"trees": True})((MIDDLE,))]
    grammar = sjepa.Grammar(["+", "*", "sin"], NAMES)
    front = sjepa.discover(x, t, feature_names=NAMES, backend=backends, grammar=grammar, budget=2)
    assert front.form == "weak" and front.best().round(1) == TRUTH
    assert front.best_candidate().backend == "knows"
