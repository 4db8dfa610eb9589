"""What every backend promises, whatever is inside: one suite for all of them."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
import sympy

from sjepa.backend import Backend, Budget, Problem
from sjepa.backend.registry import available_backends, make_backend
from sjepa.errors import BackendError, DataError
from sjepa.symbolic import Candidate, Front, Grammar, Law, Library
from sjepa.symbolic.text import to_text


# Settings that keep the suite short; backends without an entry run with their defaults.
SMALL: dict[str, dict[str, Any]] = {
    "operon": {"runs": 2, "generations": 8, "population": 200, "rows": 200},
    "gplearn": {"population": 200, "generations": 5},
    "pysr": {"niterations": 5, "populations": 4},
}
# Settings that make a search endless unless its budget ends it.
ENDLESS: dict[str, dict[str, Any]] = {
    "operon": {"runs": 10_000},
    "gplearn": {"generations": 10_000},
}
NAMES = ["stlsq", "subset", "pysindy", "operon", pytest.param("pysr", marks=pytest.mark.julia)]
NAMES += ["subset+gplearn"]  # gplearn alone keeps it in test_own_backend.py, typed from its page


def build(name: str, settings: dict[str, dict[str, Any]] = SMALL) -> Backend:
    if "+" in name:
        return make_backend([build(one, settings) for one in name.split("+")])
    if not available_backends()[name]:
        pytest.skip(f"{name} is not installed")
    if name == "pysr":
        from sjepa_backends.pysr import julia_available

        ready, reason = julia_available()
        if not ready:
            pytest.skip(reason)
    return make_backend(name, **settings.get(name, {}))


@pytest.fixture
def backend(backend_name: str) -> Backend:
    return build(backend_name)


@pytest.fixture(scope="module")
def other_process() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


TERMS = ["1", "q", "p", "sin(q)", "q**2", "q*p", "p*Abs(p)"]
# Experiment 2: q' may use p alone, p' the sine and the drag.
MASK = {"q": ["p"], "p": ["sin(q)", "p*Abs(p)"]}
LIBRARY = Library.from_terms(TERMS, ["q", "p"])
# Weights that are nobody's default: an order by those would show.
NODES = {"sin": 0.5, "Abs": 6.0, "variable": 1.5}
GRAMMAR = Grammar(["+", "-", "*", "sin", "abs"], ["q", "p"], weights=NODES)


def states(n: int = 200) -> np.ndarray:
    return np.random.default_rng(0).uniform(-2.0, 2.0, (n, 2))


def oscillator(**changes: Any) -> Problem:
    z = states()
    targets = np.stack([z[:, 1], -z[:, 0]], axis=1)
    return Problem(**{"inputs": z, "targets": targets, "library": LIBRARY, **changes})


def drag(**changes: Any) -> Problem:
    """The drag pendulum, disturbed by terms that Experiment 2 does not allow."""
    z = states()
    q, p = z.T
    targets = np.stack([p + 0.3 * q, -np.sin(q) - 0.4 * p * np.abs(p) + 0.2 * q**2], axis=1)
    return Problem(**{"inputs": z, "targets": targets, "library": LIBRARY, **changes})


def without_library(grammar: Grammar = GRAMMAR) -> dict[str, Any]:
    return {"library": None, "grammar": grammar}


def used(law: Law) -> list[set[str]]:
    """For each output, its terms as text."""
    return [{to_text(t) for _, t in pairs} for pairs in law.terms]


SPACES = [
    pytest.param({}, id="library"),
    pytest.param(without_library(), id="grammar"),
]


@pytest.mark.parametrize("space", SPACES)
def test_finds_the_oscillator(backend: Backend, space: dict[str, Any]) -> None:
    front = oscillator(**space).solve(backend)
    law = front.best()
    assert used(law) == [{"p"}, {"q"}]
    # Single precision inside a backend is repaired by the refit in double precision.
    np.testing.assert_allclose([c for pairs in law.terms for c, _ in pairs], [1, -1], rtol=1e-9)


@pytest.mark.parametrize("space", SPACES)
def test_names_shapes_and_order(backend: Backend, space: dict[str, Any]) -> None:
    problem = drag(**space)
    front = problem.solve(backend)
    assert isinstance(front, Front) and len(front) >= 2
    assert front.backend == backend.name and front.measure == problem.measure
    for candidate in front:
        assert (candidate.law.inputs, candidate.law.outputs) == (("q", "p"), ("q", "p"))
        assert candidate.law.dynamics == "continuous"
        assert len(candidate.losses) == 2
    sizes = [front.complexity(c) for c in front]
    losses = [c.loss for c in front]
    assert sizes == sorted(set(sizes))
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("space", SPACES)
def test_every_law_is_allowed_canonical_and_scored_as_claimed(
    backend: Backend, space: dict[str, Any]
) -> None:
    weights = np.linspace(0.5, 1.5, 200)
    problem = drag(weights=weights, **space)
    assert problem.inputs is not None and problem.targets is not None
    for c in problem.solve(backend):
        assert problem.admits(c.law)
        again = Law.from_string([to_text(e) for e in c.law.expressions], ["q", "p"])
        assert again == c.law
        assert c.tree == again.complexity("tree", weights=NODES if problem.grammar else None)
        assert c.terms == again.complexity("terms", problem.library)
        # An oracle apart from our emission: SymPy's own numpy code.
        run = sympy.lambdify(c.law.symbols, c.law.expressions, "numpy")
        values = np.stack([np.broadcast_to(v, 200) for v in run(*problem.inputs.T)], axis=1)
        error = np.average((values - problem.targets) ** 2, axis=0, weights=weights)
        mean = np.average(problem.targets, axis=0, weights=weights)
        variance = np.average((problem.targets - mean) ** 2, axis=0, weights=weights)
        # Losses near zero are rounding; 1e-20 is far below anything that is compared.
        np.testing.assert_allclose(c.losses, error / variance, rtol=1e-9, atol=1e-20)
        assert c.loss == pytest.approx(np.mean(c.losses))


def test_same_seed_same_answer(backend: Backend) -> None:
    noise = 0.05 * np.random.default_rng(1).normal(size=(200, 2))
    problem = drag(seed=3, budget=Budget(iterations=1), **without_library())
    noisy = problem.with_(targets=problem.targets + noise)
    first, second = noisy.solve(backend), noisy.solve(backend)
    assert [c.law for c in first] == [c.law for c in second]
    assert [c.losses for c in first] == [c.losses for c in second]


@pytest.mark.parametrize(
    "space",
    [
        pytest.param({"library": LIBRARY.with_mask(MASK)}, id="library"),
        pytest.param(
            without_library(
                Grammar(
                    ["+", "-", "*", "sin", "abs"],
                    ["q", "p"],
                    masks={o: {"terms": t} for o, t in MASK.items()},
                )
            ),
            id="grammar",
        ),
    ],
)
def test_keeps_to_the_terms_of_experiment_2(backend: Backend, space: dict[str, Any]) -> None:
    front = drag(**space).solve(backend)
    for candidate in front:
        assert used(candidate.law)[0] <= set(MASK["q"])
        assert used(candidate.law)[1] <= set(MASK["p"])
    longest = used(front[len(front) - 1].law)
    assert longest == [{"p"}, {"sin(q)", "p*Abs(p)"}]


def test_keeps_to_the_inputs_and_operators_of_each_output(backend: Backend) -> None:
    masks = {"q": {"inputs": ["p"], "operators": ["+"]}, "p": {"operators": ["+", "sin"]}}
    grammar = Grammar(GRAMMAR.operators, ["q", "p"], masks=masks)
    for candidate in drag(**without_library(grammar)).solve(backend):
        first, second = candidate.law.expressions
        assert str(first.free_symbols) in ("set()", "{p}")
        assert not first.has(sympy.sin, sympy.Abs, sympy.Pow)
        assert not second.has(sympy.Abs, sympy.Pow)


def test_weights_of_the_grammar_choose_between_equals(backend: Backend) -> None:
    """p|p| and p**2 are the same where p > 0: whichever is cheaper is the answer."""
    z = np.abs(states()) + 0.1
    square = z[:, 1:] ** 2
    for weights, wanted in (({"Abs": 0.0, "power": 9.0, "mul": 0.0}, "p*Abs(p)"), ({}, "p**2")):
        grammar = Grammar(["+", "*", "abs"], ["q", "p"], weights=weights)
        problem = Problem(z, square, outputs=["y"], **without_library(grammar))
        warm = problem.front([Law.from_string([wanted], ["q", "p"], ["y"])], "earlier")
        front = problem.with_(warm=warm).solve(backend)
        assert used(front.best()) == [{wanted}]
        assert front.best_candidate().tree == warm[0].tree


def test_powers_of_powers_stay_in_the_grammar(backend: Backend) -> None:
    grammar = Grammar(["+", "*", "square", "cube"], ["q", "p"], max_size=12)
    z = states()
    targets = np.stack([(z[:, 0] ** 2) ** 3, (z[:, 1] ** 3 + z[:, 0]) ** 2], axis=1)
    front = oscillator(targets=targets, **without_library(grammar)).solve(backend)
    assert front[len(front) - 1].loss < 0.5 * front[0].loss
    for c in front:
        assert all(
            grammar.refusal(e, o) is None for e, o in zip(c.law.expressions, "qp", strict=True)
        )


def test_rows_of_weight_zero_do_not_count(backend: Backend) -> None:
    problem = oscillator()
    assert problem.targets is not None
    targets = problem.targets.copy()
    targets[::2] = 50.0 * states()[::2] ** 3
    weights = np.where(np.arange(200) % 2, 1.0, 0.0)
    law = oscillator(targets=targets, weights=weights).solve(backend).best()
    assert used(law) == [{"p"}, {"q"}]
    assert used(oscillator(targets=targets).solve(backend).best()) != [{"p"}, {"q"}]


def test_keeps_its_budget(backend_name: str) -> None:
    backend = build(backend_name, ENDLESS)
    problem = drag(budget=Budget(seconds=2.0), **without_library())
    assert problem.targets is not None
    noisy = problem.with_(
        targets=problem.targets + 0.1 * np.random.default_rng(1).normal(size=(200, 2))
    )
    # Processor time, by which the backend reads its budget too: others may be busy meanwhile.
    start = time.process_time()
    assert len(noisy.with_(clock=time.process_time).solve(backend))
    # The contract allows one second; another one is for first imports.
    assert time.process_time() - start < 4.0


def test_refuses_nan(backend: Backend) -> None:
    inputs = states()
    inputs[3, 1] = np.nan
    with pytest.raises(DataError, match="row 3, column 1"):
        oscillator(inputs=inputs).solve(backend)


@pytest.mark.parametrize("space", SPACES)
def test_a_warm_start_never_makes_it_worse(backend: Backend, space: dict[str, Any]) -> None:
    problem = drag(**space)
    truth = Law.from_string(["p + 0.3*q", "0.2*q**2 - sin(q) - 0.4*p*Abs(p)"], ["q", "p"])
    partial = Law.from_string(["p", "-0.9*sin(q) - 0.5*p*Abs(p)"], ["q", "p"])
    warm = problem.front([truth, partial], "earlier")
    front = problem.with_(warm=warm, budget=Budget(iterations=1)).solve(backend)
    for before in warm:
        reached = [c.loss for c in front if front.complexity(c) <= warm.complexity(before)]
        assert min(reached) <= before.loss * (1 + 1e-9) + 1e-20


def test_pickles_and_compares(backend: Backend) -> None:
    assert pickle.loads(pickle.dumps(backend)) == backend


def test_works_in_another_process(backend: Backend, other_process: ProcessPoolExecutor) -> None:
    front = other_process.submit(oscillator().solve, backend).result(timeout=120)
    assert [c.law for c in front] == [c.law for c in oscillator().solve(backend)]


@pytest.mark.parametrize("space", SPACES)
def test_a_constant_target_has_a_constant_law(backend: Backend, space: dict[str, Any]) -> None:
    targets = np.tile([3.0, 0.0], (200, 1))
    law = oscillator(targets=targets, **space).solve(backend).best()
    assert law.equivalent(Law.from_string(["3", "0"], ["q", "p"]))
    assert used(law) == [{"1"}, set()]


def test_maps_stay_maps(backend: Backend) -> None:
    z = states()
    targets = np.stack([z[:, 0] + 0.1 * z[:, 1], z[:, 1] - 0.1 * z[:, 0]], axis=1)
    front = oscillator(targets=targets, dynamics="discrete").solve(backend)
    assert {c.law.dynamics for c in front} == {"discrete"}
    assert used(front.best()) == [{"q", "p"}, {"q", "p"}]


def test_outputs_need_not_be_inputs(backend: Backend) -> None:
    target = 2.0 * states()[:, :1]
    front = oscillator(targets=target, outputs=["force"], dynamics="discrete").solve(backend)
    assert front.best().outputs == ("force",)
    assert used(front.best()) == [{"q"}]


def test_reports_its_progress(backend: Backend) -> None:
    seen: list[tuple[str, float]] = []
    oscillator(progress=lambda line, share: seen.append((line, share))).solve(backend)
    assert seen and all(line and 0.0 <= share <= 1.0 for line, share in seen)
    assert [share for _, share in seen] == sorted(share for _, share in seen)


Tamper = Callable[[Candidate], Candidate]
LIES: dict[str, Tamper] = {
    "claims a loss": lambda c: replace(c, loss=0.5 * c.loss - 1.0),
    "does not allow": lambda c: replace(c, law=Law.from_string(["q*p**5", "q"], ["q", "p"])),
    "with outputs": lambda c: replace(c, law=Law(c.law.expressions, ["q", "p"], ["p", "q"])),
    "with inputs": lambda c: replace(c, law=Law.from_string(["a", "b"], ["a", "b"], ["q", "p"])),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_wrong_answer_is_refused_and_does_not_spoil_a_list(backend: Backend, lie: str) -> None:
    front = oscillator().solve(backend)

    class Lying(Backend):
        name = backend.name
        trees, proves = backend.trees, backend.proves

        def search(self, problem: Problem) -> Front:
            return replace(front, candidates=tuple(map(LIES[lie], front)))

    with pytest.raises(BackendError, match=f"^{re.escape(backend.name)}: .*{lie}") as raised:
        oscillator().solve(Lying())
    assert "\n" not in str(raised.value)
    noise = 1e-3 * np.random.default_rng(1).normal(size=(200, 2))  # exact laws end a list early
    z = states()
    noisy = oscillator(targets=np.stack([z[:, 1], -z[:, 0]], axis=1) + noise)
    both = noisy.solve(make_backend([Lying(), "stlsq"]))
    assert used(both.best()) == [{"p"}, {"q"}]
    assert {c.backend for c in both} == {"stlsq"} and any(lie in note for note in both.notes)
