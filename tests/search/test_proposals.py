"""Guesses and proposals: text from anywhere takes part in a search and is never executed."""

import numpy as np
import pytest

import sjepa
from sjepa import Front, Law
from sjepa.errors import ConfigError


# Without what is proposed, laws of the library lack a term, and that is said.
pytestmark = pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")

T = np.arange(0, 10, 0.05)
# Its term is in no default library.
LAW = Law.from_string(["p", "-sin(q) - 0.4*tanh(3*p)"], ["q", "p"])
TEXT = "p' = -sin(q) - 0.5*tanh(2*p)"


def swings(noise: float = 0.0) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    paths = [LAW.simulate(rng.uniform(-2, 2, 2), T).z for _ in range(3)]
    spread = np.concatenate(paths).std(axis=0)
    return [x + noise * spread * rng.normal(size=x.shape) for x in paths]


OPTIONS = {"feature_names": ["q", "p"], "library": ["q", "p", "sin(q)", "p*abs(p)", "p**3"]}


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("backend", ["subset", "stlsq"])
def test_a_proposed_law_is_fitted_compared_and_chosen(noise: float, backend: str) -> None:
    seen: list[Front] = []

    def propose(front: Front) -> list[str]:
        seen.append(front)
        return [TEXT]

    front = sjepa.discover(swings(noise), T, backend=backend, propose=propose, **OPTIONS)  # type: ignore[arg-type]
    assert seen and all(len(one) for one in seen)
    assert front.best().equivalent(LAW, tolerance=0.1 if noise else 1e-3)
    assert front.verdict is not None and front.verdict.adequate


def test_guesses_are_compared_with_what_is_found() -> None:
    guesses = ["q' = p; p' = -0.5*sin(q) - tanh(2*p)", ["p", "-q"]]
    front = sjepa.discover(swings(), T, guesses=guesses, **OPTIONS)  # type: ignore[arg-type]
    assert front.best().equivalent(LAW, tolerance=1e-3)


def test_trees_start_from_guesses_and_ask_between_rounds() -> None:
    asked: list[int] = []

    def propose(front: Front) -> list[str]:
        asked.append(len(front))
        return ["p' = -sin(q) - 0.4*p/(0.3 + abs(p))"] if len(asked) == 1 else []

    front = sjepa.discover(
        swings(0.01), T, feature_names=["q", "p"], backend="operon", budget=4, propose=propose,
    )  # fmt: skip
    assert len(asked) > 1
    assert front.backend == "operon"


def test_wrong_texts_are_notes_of_one_line_and_do_not_end_the_search() -> None:
    def propose(front: Front) -> list[str]:
        return ["p' = __import__('os').system('true')", "r' = q", "p' = velocity", "p' = -sin(q"]

    front = sjepa.discover(swings(), T, propose=propose, **OPTIONS)  # type: ignore[arg-type]
    notes = [note for note in front.notes if note.startswith("proposed ")]
    assert len(notes) == 4 and not any("\n" in note for note in notes)
    assert len(front)


def test_a_function_that_fails_is_a_note() -> None:
    def propose(front: Front) -> list[str]:
        raise TimeoutError("no answer")

    front = sjepa.discover(swings(), T, propose=propose, **OPTIONS)  # type: ignore[arg-type]
    assert any("propose failed with TimeoutError: no answer" in note for note in front.notes)


def test_what_is_proposed_is_the_whole_law_beside_a_known_part() -> None:
    shown: list[Law] = []

    def propose(front: Front) -> list[str]:
        shown.append(front.best())
        return [TEXT]

    front = sjepa.discover(
        swings(), T, known=["q' = p", "p' = -sin(q)"], propose=propose, **OPTIONS  # type: ignore[arg-type]
    )  # fmt: skip
    assert "sin(q)" in str(shown[0])
    assert front.best().equivalent(LAW, tolerance=1e-3)


def test_a_search_starts_from_a_previous_front() -> None:
    x = swings()
    first = sjepa.discover(x, T, guesses=["q' = p; p' = -sin(q) - tanh(2*p)"], **OPTIONS)  # type: ignore[arg-type]
    again = sjepa.discover(x, T, guesses=first, known="q' = p", **OPTIONS)  # type: ignore[arg-type]
    assert first.best().equivalent(LAW, tolerance=1e-3)
    assert all("p" in str(c.law.expressions[0]) for c in again)


@pytest.mark.parametrize(
    ("guesses", "words"),
    [
        ("q' = p", "list of laws"),
        (["p' = -q"], "no equation for q"),
        (["q' = p; p' = -sin(q) + speed"], "speed"),
        ([["p"]], "equations for q, p"),
    ],
)
def test_guesses_that_cannot_be_read_are_refused_in_one_line(guesses: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        sjepa.discover(swings(), T, guesses=guesses, **OPTIONS)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_a_map_takes_proposals() -> None:
    law = Law.from_string(["14.9*x*exp(-2.7*x)"], ["x"], dynamics="discrete")
    x = law.simulate([0.3], np.arange(60.0)).z
    front = sjepa.discover(
        x, 1.0, derivatives="discrete", feature_names=["x"], library=["1", "x", "x**2"],
        guesses=["x[t+1] = 10*x*exp(-2*x)"],
    )  # fmt: skip
    assert front.best().equivalent(law, tolerance=1e-4)


def test_a_formula_is_proposed_for_a_table() -> None:
    X = np.random.default_rng(0).uniform(0.5, 2, (200, 2))
    y = X[:, 0] / (1.3 + X[:, 1] ** 3)
    shown: list[int] = []

    def propose(front: Front) -> list[str]:
        shown.append(len(front))
        return ["x1/(1 + x2**3)", "x1 + open('file')"]

    model = sjepa.SymbolicRegressor("subset", propose=propose, random_state=0).fit(X, y)
    assert shown and model.law_.equivalent(Law.from_string("x1/(1.3 + x2**3)", ["x1", "x2"]), 1e-6)
    assert sum(note.startswith("proposed x1 + open") for note in model.front_.notes) == 1


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_term_that_is_not_defined_on_the_data_is_a_note(noise: float) -> None:
    def propose(front: Front) -> list[str]:
        return ["p' = -log(q)", TEXT, "p' = -sin(q) - p/(2 + p**2)"]

    front = sjepa.discover(swings(noise), T, propose=propose, **OPTIONS)  # type: ignore[arg-type]
    assert any("log(q) is not finite on all of the data" in note for note in front.notes)
    assert front.best().equivalent(LAW, tolerance=0.1 if noise else 1e-3)


def test_proposals_do_not_stand_beside_constraints() -> None:
    with pytest.raises(ConfigError, match="need not keep constraints"):
        sjepa.discover(
            swings(), T, guesses=["q' = p; p' = -q"], constraints=["coef(p', p) <= 0"], **OPTIONS  # type: ignore[arg-type]
        )  # fmt: skip
