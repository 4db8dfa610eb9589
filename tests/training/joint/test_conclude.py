"""The end of a search, on candidates made by hand."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import sjepa
from sjepa import SJEPA
from sjepa.data import Trajectories
from sjepa.errors import TrainingDiverged
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport
from sjepa.models import Transition, Whitening
from sjepa.symbolic import Law, Library
from sjepa.training.joint.budget import SearchBudget
from sjepa.training.joint.conclude import (
    POINTS,
    RolloutLoss,
    candidate_losses,
    checked,
    conclude,
    scored,
)
from sjepa.training.joint.context import SearchContext, prepare
from sjepa.training.joint.refinement import StructureTask, canceling, linear_head
from sjepa.training.joint.result import JointCandidate
from sjepa.training.joint.rollout_refinement import CAP, followed
from sjepa.training.joint.structures import structure
from sjepa.training.joint.whitened_trajectories import Observed
from tests.training.joint.shortcut_data import pendulum_states


LIBRARY = Library.from_terms(["z1", "z2", "sin(z1)"], ["z1", "z2"])
FINE = CollapseReport(1.0, 2.0, 0.6, 0.01, ())


@pytest.fixture(scope="module")
def context() -> SearchContext:
    """The pendulum in its own coordinates, and a third that is mostly noise."""
    s = pendulum_states(30)
    third = s.sum(-1, keepdims=True) + np.random.default_rng(0).normal(size=(*s.shape[:2], 1))
    data = Trajectories(list(np.concatenate([s, third], axis=-1)), 0.07)
    budget = SearchBudget(rollout=0)
    return prepare(data, LIBRARY, 2, 1, 0, budget, None, CollapseChecks(), 3, None)


def found(
    context: SearchContext,
    support: tuple[tuple[int, ...], ...],
    columns: tuple[int, int] = (0, 1),
    loss: float | None = None,
    check_report: CollapseReport = FINE,
) -> JointCandidate:
    """A law in two of the observed quantities, read off the whitened ones, with a loss as told."""
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        white = context.whitening(x)
    readout = torch.linalg.lstsq(white - white.mean(0), (x - x.mean(0))[:, list(columns)]).solution
    head = linear_head(readout)
    with torch.no_grad():
        head.linear.bias.copy_((x[:, list(columns)] - white @ readout).mean(0))
    one = scored(context, context.task(structure(context.library, support)), head)
    candidate = one.candidate if loss is None else replace(one.candidate, loss=loss)
    return replace(one, candidate=candidate, check_report=check_report)


def test_the_observations_decide_between_coordinates_whatever_their_laws_leave(
    context: SearchContext,
) -> None:
    """One coordinate twice satisfies its law as well, and tells half of what is observed."""
    repeated = found(context, ((1,), (0,)), columns=(0, 0), loss=1e-9)
    law = found(context, ((1,), (2,)), loss=1e-3)
    result = conclude(context, [repeated, law], "auto", None)
    assert result.best.structure == law.structure and result.verdict.adequate
    assert not result.warnings and result.figures["adequate"] == 1.0


def test_collapsed_coordinates_are_not_adequate_and_the_checks_say_why(
    context: SearchContext,
) -> None:
    repeated = found(context, ((1,), (0,)), columns=(0, 0), loss=1e-9)
    result = conclude(context, [repeated], "auto", None)
    assert not result.verdict.adequate and result.figures["adequate"] == 0.0
    assert any("Some of them repeat the others" in r for r in result.verdict.reasons)


def test_a_wrong_law_is_not_adequate(context: SearchContext) -> None:
    result = conclude(context, [found(context, ((1,), (0,)))], "auto", None)
    assert result.verdict.adequate is False
    assert any("a term is missing or wrong" in warning for warning in result.warnings)


def test_the_same_law_from_another_origin_is_no_alternative(context: SearchContext) -> None:
    library = Library.from_terms(["z1", "z2", "sin(z1)", "cos(z1)"], ["z1", "z2"])
    wider = replace(context, library=library)
    law = found(wider, ((1,), (2,)))
    encoder = deepcopy(law.encoder)
    with torch.no_grad():
        encoder[1].linear.bias[0] += torch.pi / 2  # type: ignore[index, union-attr]
    turned = scored(wider, wider.task(structure(library, ((1,), (3,)))), encoder[1])  # type: ignore[index]
    result = conclude(wider, [law, turned], "auto", None)
    assert result.verdict.adequate and not result.rivals


def test_the_front_holds_what_no_simpler_law_explains_better(context: SearchContext) -> None:
    short, right = found(context, ((1,), (0,))), found(context, ((1,), (2,)))
    long = found(context, ((0, 1), (1, 2)))
    result = conclude(context, [long, right, short], "auto", None)
    laws = [one.structure for one in result.found]
    assert laws == [short.structure, right.structure] and result.front.chosen == 1
    worse, best = (row.evidence for row in result.front)
    assert worse is not None and worse < -10 and best == 0.0


def test_what_lies_outside_the_range_of_training_is_reported_and_not_dropped(
    context: SearchContext,
) -> None:
    inside = conclude(context, [found(context, ((1,), (2,)))], "auto", None)
    size = context.train.x.abs().amax((1, 2))
    near = (size < size.median()).nonzero()[:, 0]
    narrow = replace(context, train=context.train.pick(near))
    result = conclude(narrow, [found(context, ((1,), (2,)))], "auto", None)
    assert result.figures["outside_range"] > inside.figures["outside_range"]
    share = f"{result.figures['outside_range']:.1%} of the held-out data lie outside the range"
    assert any(share in reason for reason in result.verdict.reasons)


def test_the_residual_is_reported_for_held_out_and_for_training_data(
    context: SearchContext,
) -> None:
    result = conclude(context, [found(context, ((1,), (2,)))], "auto", None)
    (note,) = [n for n in result.notes if n.startswith("unexplained variance")]
    assert f"{result.residual:.2g} on held-out" in note
    assert note.endswith(f"{result.training_residual:.2g} in training")


def test_a_refined_law_takes_the_place_of_the_one_it_came_from(context: SearchContext) -> None:
    law = found(context, ((1,), (2,)))
    rough = replace(law.candidate, law=law.law.with_coefficients([0.8, -1.3]))
    for steps in (0, 30):  # simulations find the coefficients already
        refining = replace(context, budget=SearchBudget(rollout=steps))
        result = conclude(refining, [replace(law, candidate=rough)], "auto", None)
        # q' = p and p' = -sin q: the product of the coefficients is -1 in any unit of p.
        assert np.prod(result.law.coefficients) == pytest.approx(-1.0, rel=0.02)
        assert result.rollout < 1e-3


def test_a_given_delta_takes_the_simplest_law_within_it(context: SearchContext) -> None:
    cheap = found(context, ((1,), (0,)), loss=1.5e-2)
    dear = found(context, ((1,), (0, 2)), loss=9e-3)
    for delta, best in ((1e-2, dear), (2e-2, cheap), (5e-3, dear)):
        result = conclude(context, [dear, cheap], delta, None)
        assert result.best.structure == best.structure
        (reason,) = [r for r in result.verdict.reasons if "given delta" in r]
        assert result.verdict.adequate is (result.residual <= delta)
        assert ("more than" in reason) is (result.residual > delta)


def test_a_hidden_state_is_named_where_the_law_is_not_adequate() -> None:
    """Angles of a pendulum without its speed, next to something that never tells it either."""
    q = pendulum_states(30)[..., :1]
    data = Trajectories(list(np.concatenate([q, np.sin(2 * q), np.cos(q)], axis=-1)), 0.07)
    blind = prepare(
        data, LIBRARY, 2, 1, 0, SearchBudget(rollout=0), None, CollapseChecks(), 3, None
    )
    result = conclude(blind, [found(blind, ((0,), (1,)))], "auto", None)
    assert any("A state is hidden" in warning for warning in result.warnings)


def test_terms_that_cancel_each_other_are_refused() -> None:
    """z - k sin(z) with numbers far larger than their difference is a cube in disguise."""
    library = Library.from_terms(["z2", "z1", "sin(z1)", "z1**3"], ["z1", "z2"])
    t = np.linspace(0, 9, 91)
    paths = [
        solve_ivp(lambda _, s: [s[1], -30 * s[0] ** 3], (0, 9), [a, 0], t_eval=t, rtol=1e-9).y.T
        for a in (0.2, 0.25, 0.3)
    ]
    observed = Observed.of(Trajectories(paths, t), Whitening(2, 2).double())
    head = linear_head(torch.eye(2).double())

    def reasons(row: tuple[int, ...]) -> tuple[str, ...]:
        task = StructureTask(library, structure(library, ((0,), row)), 1, (5, 20))
        return canceling(head, task, observed)

    assert reasons((1, 2)) == ("its terms cancel each other",)
    assert reasons((3,)) == reasons((1, 3)) == ()


def test_a_rollout_beyond_the_range_of_numbers_counts_as_far_off(context: SearchContext) -> None:
    law = found(context, ((1,), (2,)))
    head = law.encoder[1]  # type: ignore[index]
    loss = RolloutLoss(context.validation, context.horizon, 1)
    module = law.law.with_coefficients([1e200, -1e200]).torch().double()
    with torch.no_grad():
        assert float(loss(head, module)) == pytest.approx(CAP, rel=0.2)
    # One that is lost leaves the others a slope to go down by.
    begin = torch.tensor([[0.1, 0.0], [1e3, 0.0]]).double()
    grown = Law.from_string(["z1**9*sin(z1)", "z2"], ["z1", "z2"]).with_free_terms()
    module = grown.torch().double()
    path = followed(Transition(module), begin, torch.ones(2, 4).double(), None)
    assert path.isfinite().all() and bool((path[1].abs() > 1e99).any())
    path.clamp(max=5.0).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in module.parameters())  # type: ignore[union-attr]


def test_laws_without_a_finite_error_are_no_candidates(context: SearchContext) -> None:
    bad, good = found(context, ((0,), (1,)), loss=float("nan")), found(context, ((1,), (2,)))
    assert conclude(context, [bad, good], "auto", None).best.structure == good.structure
    with pytest.raises(TrainingDiverged, match="finite error on these data; leave out"):
        conclude(context, [bad], "auto", None)


def test_what_leaves_the_range_of_numbers_is_fitted_and_saved(tmp_path: Path) -> None:
    """z'' = z² - z: beyond 1 everything goes to infinity, and soon a noisy law does so earlier."""
    rng, t, x = np.random.default_rng(0), np.arange(0, 4, 0.1), []
    while len(x) < 10:
        start = rng.uniform([-1, -1], [1.3, 1.3])
        path = solve_ivp(
            lambda _, s: [s[1], s[0] ** 2 - s[0]], (0, t[-1]), start, t_eval=t, rtol=1e-8
        )
        if path.status == 0 and np.abs(path.y).max() < 200:
            seen = path.y[:1].T @ np.array([[1.0, -0.5, 2.0]])
            x.append(seen + 0.2 * rng.normal(size=seen.shape))
    options = {"restarts": 2, "structures": 5, "grow": False, "horizon": 36, "rollout": 5}
    model = SJEPA(
        1,
        search=sjepa.Joint(**options),
        order=2,
        library=["z1", "z1**2"],
        random_state=0,
        verbose=False,
    ).fit(x, t, run=tmp_path / "run")
    assert all(np.isfinite(value) for value in model.figures_.values())
    assert model.figures_["rollout_held_out"] > 0.5
    assert sjepa.load(tmp_path / "run").figures_ == model.figures_


@pytest.mark.parametrize("friction", [0.0, 0.12])
def test_a_term_whose_lack_noise_cannot_explain_is_not_left_out(
    friction: float,
) -> None:
    rng = np.random.default_rng(1)
    turn = expm(0.1 * np.array([[0.0, 1.0], [-1.0, -friction]]))
    path = [rng.normal(size=(60, 2))]
    for _ in range(79):
        path.append(path[-1] @ turn.T)
    s = np.stack(path, axis=1)
    data = Trajectories(list(s + 0.1 * s.std((0, 1)) * rng.normal(size=s.shape)), 0.1)
    budget = SearchBudget(rollout=0)
    context = prepare(data, LIBRARY, 2, 1, 0, budget, None, CollapseChecks(), 2, None)
    head = linear_head(torch.linalg.inv(context.whitening.matrix.double()))
    short, long = (
        scored(context, context.task(structure(LIBRARY, support)), head)
        for support in (((1,), (0,)), ((1,), (0, 1)))
    )
    result = conclude(context, [short, long], "auto", None)
    assert result.best.structure == (long if friction else short).structure
    assert result.verdict.adequate and not result.rivals


def test_a_number_inside_a_term_that_moved_is_judged_where_it_is(context: SearchContext) -> None:
    numbers = Library.from_terms(["z1", "z2", "sin(0.8*z1)"], ["z1", "z2"])
    wrong = replace(context, library=numbers)
    one = found(context, ((1,), (2,)))
    text = [str(e).replace("(z1)", "(0.999*z1)") for e in one.law.expressions]
    near = Law.from_string(text, ["z1", "z2"])
    moved = replace(one, candidate=replace(one.candidate, law=near))
    for observed in (context.train, context.validation):
        left = candidate_losses(context, one, observed)
        assert candidate_losses(wrong, moved, observed) == pytest.approx(left, rel=0.05, abs=1e-5)


def test_what_coordinates_forget_is_judged_on_the_many_trajectories_of_training(
    context: SearchContext,
) -> None:
    """Two held-out trajectories hardly meet: their nearest neighbors are not near."""
    sparse = replace(context, whole=context.whole.pick(torch.arange(2)))
    law = found(context, ((1,), (2,)))
    head = law.encoder[1]  # type: ignore[index]
    own = scored(sparse, sparse.task(law.structure), head)
    many = checked(sparse, head, sparse.train, sparse.near, POINTS)
    few = checked(sparse, head, sparse.whole, sparse.checks, POINTS)
    assert own.check_report.neighbor == many.neighbor
    assert few.neighbor > 2 * many.neighbor
