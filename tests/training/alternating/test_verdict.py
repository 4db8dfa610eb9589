"""Laws learned in turns get the verdict that all laws get."""

import numpy as np
import pytest

import sjepa
from sjepa.backend import Backend, Problem
from sjepa.symbolic import Front, Grammar
from sjepa.training.judge import judge_trained
from sjepa.training.result import identity
from tests.training.joint.shortcut_data import pendulum_states


SHORT = sjepa.Alternating(
    batching="trajectories", horizon=5, cycles=1, warm_epochs=2, dynamics_epochs=2, space_epochs=2
)


@pytest.fixture(scope="module")
def swings() -> list[np.ndarray]:
    s = pendulum_states(60)
    return list(s + 0.003 * np.random.default_rng(0).normal(size=s.shape))


def test_a_law_that_is_hardly_trained_is_not_adequate_and_says_so(
    swings: list[np.ndarray],
) -> None:
    model = sjepa.SJEPA(search=SHORT, random_state=0).fit(swings, 0.07)
    verdict = model.verdict_
    assert verdict is not None and verdict.adequate is False
    assert model.warnings_ == list(verdict.reasons) and model.figures_["adequate"] == 0.0
    assert not any("nonlinear" in warning for warning in model.warnings_)


@pytest.mark.parametrize(
    ("equations", "adequate"),
    [(("z2", "-sin(z1)"), True), (("z2", "-z1"), False), (("z2", "-0.8*sin(z1)"), False)],
)
def test_a_trained_law_is_judged_as_it_is(
    equations: tuple[str, str], adequate: bool, swings: list[np.ndarray]
) -> None:
    """Coefficients that training left off are no better than a wrong term."""
    data = sjepa.Trajectories(swings, 0.07)
    train, held_out = data.split((0.6, 0.4), seed=0)
    law = sjepa.Law.from_string(list(equations), ["z1", "z2"])
    verdict = judge_trained(law, [], identity, train, held_out)
    assert verdict.adequate is adequate, verdict.reasons


def test_a_backend_of_trees_gets_a_grammar_unless_a_library_was_given(
    swings: list[np.ndarray],
) -> None:
    asked: list[bool] = []

    class Trees(Backend):
        name, trees, owns_structure = "trees", True, True

        def search(self, problem: Problem) -> Front:
            asked.append(isinstance(problem.grammar, Grammar))
            raise RuntimeError("asked")

    for library in (None, ["z1", "z2", "sin(z1)"]):
        model = sjepa.SJEPA(search=SHORT, backend=Trees(), library=library, random_state=0)
        with pytest.raises(RuntimeError, match="asked"):
            model.fit(swings, 0.07)
    assert asked == [True, False]
