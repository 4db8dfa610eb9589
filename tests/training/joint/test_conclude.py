"""The end of a search, on candidates made by hand."""

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
from sjepa.training.joint import conclude as conclusion
from sjepa.training.joint.budget import SearchBudget
from sjepa.training.joint.conclude import (
    POINTS,
    RolloutLoss,
    _by_start,
    _floors,
    _losses,
    checked,
    conclude,
    scored,
)
from sjepa.training.joint.context import SearchContext, prepare
from sjepa.training.joint.noise import noise_floor
from sjepa.training.joint.observed import Observed
from sjepa.training.joint.refinement import StructureTask, canceling, linear_head
from sjepa.training.joint.result import JointCandidate
from sjepa.training.joint.rollout import CAP, followed
from sjepa.training.joint.select import caveats, simplest_adequate
from sjepa.training.joint.structures import structure
from tests.training.joint.shortcut_data import pendulum_states


LIBRARY = Library.from_terms(["z1", "z2", "sin(z1)"], ["z1", "z2"])
FINE = CollapseReport(1.0, 2.0, 0.6, 0.01, ())
REFUSED = CollapseReport(1.0, 2.0, 0.6, 0.9, ("neighbor",))


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
        white = context.whitening(x) - context.whitening(torch.zeros_like(x))
    readout = torch.linalg.lstsq(white, x[:, list(columns)]).solution
    one = scored(context, context.task(structure(LIBRARY, support)), linear_head(readout))
    candidate = one.candidate if loss is None else replace(one.candidate, loss=loss)
    return replace(one, candidate=candidate, check_report=check_report)


def test_what_is_inadmissible_is_not_chosen_however_well_it_fits(context: SearchContext) -> None:
    shortcut = found(context, ((0,), (1,)), loss=1e-9, check_report=REFUSED)
    law = found(context, ((1,), (2,)), loss=1e-3)
    rough = found(context, ((1,), (0,)), loss=0.5)
    result = conclude(context, [shortcut, law, rough], 1e-2, None)
    assert result.best is law and result.adequate
    assert shortcut.law not in [c.law for c in result.front]
    assert not any("passes the checks" in note for note in result.notes)


def test_where_nothing_is_admissible_the_best_fit_is_returned_and_said_so(
    context: SearchContext,
) -> None:
    worse = found(context, ((1,), (0,)), loss=0.5, check_report=REFUSED)
    better = found(context, ((1,), (2,)), loss=0.1, check_report=REFUSED)
    result = conclude(context, [worse, better], 1e-2, None)
    assert result.best is better and not result.adequate
    assert any("No candidate passes the checks" in note for note in result.notes)


def test_a_law_of_collapsed_coordinates_is_not_adequate_however_well_it_fits(
    context: SearchContext,
) -> None:
    repeated = found(context, ((1,), (0,)), columns=(0, 0), loss=1e-9)
    result = conclude(context, [repeated], 1e-2, None)
    assert [f.name for f in result.findings] == ["dimensional collapse"]
    assert not result.adequate and result.figures["adequate"] == 0.0


def test_the_residual_is_reported_for_held_out_and_for_training_data(
    context: SearchContext,
) -> None:
    result = conclude(context, [found(context, ((1,), (2,)))], "auto", None)
    task = context.task(result.best.structure)
    head = result.encoder[1]
    fitted = task.risk(head, context.train, context.train)
    assert result.figures["residual_training"] == pytest.approx(float(fitted.risk), rel=1e-6)
    (note,) = [n for n in result.notes if n.startswith("unexplained variance")]
    assert f"{result.residual:.2g} on held-out" in note
    assert note.endswith(f"{result.training_residual:.2g} in training")


def test_the_noise_floor_is_that_of_the_law_that_is_chosen(context: SearchContext) -> None:
    clean = found(context, ((1,), (2,)), loss=1e-3)
    noisy = found(context, ((1,), (2,)), columns=(0, 2), loss=0.9)

    def floor(one: JointCandidate) -> float:
        task = context.task(one.structure)
        return noise_floor(one.encoder[1], task, context.validation)  # type: ignore[index]

    assert floor(noisy) > 100 * floor(clean)
    result = conclude(context, [noisy, clean], "auto", None)
    assert result.noise_floor == pytest.approx(floor(clean))


def test_a_refined_law_takes_the_place_of_the_one_it_came_from(context: SearchContext) -> None:
    law = found(context, ((1,), (2,)))
    rough = replace(law.candidate, law=law.law.with_coefficients([0.8, -1.3]))
    refining = replace(context, budget=SearchBudget(rollout=30))
    result = conclude(refining, [replace(law, candidate=rough)], 1.0, None)
    # q' = p and p' = -sin q: the product of the coefficients is -1 in any unit of p.
    assert np.prod(result.law.coefficients) == pytest.approx(-1.0, rel=0.02)
    assert result.rollout < 1e-3


def test_who_sets_delta_is_not_told_that_what_is_left_is_more_than_noise(
    context: SearchContext,
) -> None:
    law = found(context, ((1,), (2,)), loss=2e-4)
    told, asked = (conclude(context, [law], delta, None) for delta in ("auto", 0.1))
    assert told.adequate and any("not noise" in caveat for caveat in told.caveats)
    assert asked.adequate and not any("not noise" in caveat for caveat in asked.caveats)


def test_a_law_slightly_above_delta_is_not_adequate(context: SearchContext) -> None:
    cheap, dear = (
        found(context, ((1,), (0,)), loss=1.5e-2),
        found(context, ((1,), (0, 2)), loss=9e-3),
    )
    assert simplest_adequate([dear, cheap], 1e-2) == (dear, True)
    assert simplest_adequate([dear, cheap], 2e-2) == (cheap, True)
    assert simplest_adequate([cheap, dear], 5e-3) == (dear, False)


def test_the_shortest_code_counts_every_observation_once(context: SearchContext) -> None:
    """Of two adequate laws the longer is worth its term if it saves half as many bits a row."""
    count = int(context.validation.grid.mask.sum())
    short = found(context, ((1,), (0,)), loss=9e-3)
    for saved in (1e-6, 0.5):  # nats a row: nothing, and far more than a term costs
        long = found(context, ((1,), (0, 2)), loss=9e-3 * np.exp(-2 * saved))
        result = conclude(context, [long, short], 1e-2, None, "mdl")
        codes = [f.law.description_length(f.candidate.loss, count) for f in (long, short)]
        assert result.best is (long if codes[0] < codes[1] else short)
        assert result.best is (long if saved == 0.5 else short)
        assert any(f"the shortest code for {count} held-out" in note for note in result.notes)
        assert conclude(context, [long, short], 1e-2, None).best is short


def test_a_hidden_state_is_named_where_the_law_is_not_adequate() -> None:
    """Angles of a pendulum without its speed, next to something that never tells it either."""
    q = pendulum_states(30)[..., :1]
    data = Trajectories(list(np.concatenate([q, np.sin(2 * q), np.cos(q)], axis=-1)), 0.07)
    blind = prepare(
        data, LIBRARY, 2, 1, 0, SearchBudget(rollout=0), None, CollapseChecks(), 3, None
    )
    result = conclude(blind, [found(blind, ((0,), (1,)))], "auto", None)
    assert "hidden state" in [f.name for f in result.findings]


def test_the_farthest_quarter_of_the_starts_is_judged_apart(context: SearchContext) -> None:
    """Distance counts in each coordinate's own spread: a large unit does not decide alone."""
    context = replace(context, validation=context.train)  # more starts
    law = found(context, ((1,), (2,)))
    weight = law.encoder[1].linear.weight.detach().T  # type: ignore[index, union-attr]
    head = linear_head(weight * torch.tensor([1.0, 50.0]).double())
    own = scored(context, context.task(law.structure), head)
    with torch.no_grad():
        z = head(context.validation.x)[:, 0].numpy()
    far = np.argsort(np.linalg.norm((z - z.mean(0)) / z.std(0), axis=1))
    cut = len(z) - len(z) // 4
    expected = []
    for rows in (far[cut:], far[:cut]):
        some = context.validation.pick(torch.as_tensor(rows.copy()))
        run = own.law.torch(trainable=False).double()
        with torch.no_grad():
            expected.append(float(RolloutLoss(some, context.horizon, 1)(head, run)))
    assert _by_start(context, own) == pytest.approx(tuple(expected), rel=1e-9)
    assert len(z) == 24 and expected[0] != pytest.approx(expected[1], rel=0.05)


def test_caveats_name_rivals_nonlinear_encoders_and_starts_and_what_to_try(
    context: SearchContext,
) -> None:
    law, rival = found(context, ((1,), (2,))), found(context, ((1,), (0,)))
    assert law.linear and caveats(law, []) == []
    (one,) = caveats(law, [rival])
    assert "1 other law is adequate" in one and "; ".join(rival.law.lines(digits=3)) in one
    (two,) = caveats(law, [rival, rival])
    assert "2 other laws are adequate" in two
    (starts,) = caveats(law, [], (0.5, 0.001))
    assert "error of 0.5 of the variance, the others 0.001" in starts
    (nonlinear,) = caveats(replace(law, linear=False), [])
    advice = ("fewer terms (library=)", "Give more trajectories", "Compare rollouts")
    assert all(
        try_this in said for try_this, said in zip(advice, (one, starts, nonlinear), strict=True)
    )
    assert caveats(law, [], (0.0011, 0.001)) == []
    assert caveats(law, [], (0.6, 0.05)) and not caveats(law, [], (0.4, 0.05))  # ten times


def test_a_simpler_law_in_nonlinear_encoders_must_be_adequate_there(context: SearchContext) -> None:
    """Within delta of the best law found, but far above its own noise: it is not chosen."""
    simple = replace(found(context, ((1,), (0,)), loss=4e-4), linear=False)
    right = replace(found(context, ((1,), (2,)), loss=1e-5), linear=False)
    assert conclude(context, [simple, right], 1e-3, None).best is simple  # as was asked for
    result = conclude(context, [simple, right], "auto", None)
    assert result.delta > 0 and result.best is right


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


def test_refinement_may_not_trade_the_residual_for_rollouts(
    context: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = found(context, ((1,), (2,)))
    refining = replace(context, budget=SearchBudget(rollout=1))

    def result(numbers: list[float], rollout: float) -> bool:
        worse = law.law.with_coefficients(numbers)
        monkeypatch.setattr(conclusion, "refine_by_rollouts", lambda *_: (worse, 0.0))
        losses = {worse: rollout, law.law: 1.0}
        monkeypatch.setattr(conclusion, "_rollout", lambda _, one: losses[one.law])
        return conclude(refining, [law], 1.0, None).law == worse

    near = [c * 1.001 for c in law.law.coefficients]
    assert result(near, 1.0) and not result(near, 1.1) and not result(near, float("nan"))
    assert not result([0.5 * c for c in law.law.coefficients], 0.1)


def test_laws_without_a_finite_error_are_no_candidates(context: SearchContext) -> None:
    bad, good = found(context, ((0,), (1,)), loss=float("nan")), found(context, ((1,), (2,)))
    assert conclude(context, [bad, good], "auto", None).best is good
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
def test_a_term_whose_lack_noise_cannot_explain_is_not_left_out_though_delta_would_allow_it(
    friction: float,
) -> None:
    rng = np.random.default_rng(0)
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
    assert short.candidate.loss < result.delta  # noise is large, and so is delta
    assert result.best is (long if friction else short)
    assert result.adequate and not result.rivals
    given = conclude(context, [short, long], result.delta, None)  # a delta that is asked for holds
    assert given.best is short


def test_a_number_inside_a_term_that_moved_is_judged_where_it_is(context: SearchContext) -> None:
    numbers = Library.from_terms(["z1", "z2", "sin(0.8*z1)"], ["z1", "z2"])
    wrong = replace(context, library=numbers)
    one = found(context, ((1,), (2,)))
    text = [str(e).replace("(z1)", "(0.999*z1)") for e in one.law.expressions]
    near = Law.from_string(text, ["z1", "z2"])
    moved = replace(one, candidate=replace(one.candidate, law=near))
    for observed in (context.train, context.validation):
        left = _losses(context, one, observed)
        assert _losses(wrong, moved, observed) == pytest.approx(left, rel=0.05)
    floors = _floors(wrong, [moved])(moved), _floors(context, [one])(one)
    assert floors[0] == pytest.approx(floors[1], rel=0.05)


def test_nonlinear_encoders_are_judged_by_the_noise_that_they_carry_themselves(
    context: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shorter law leaves more, but so does noise in its coordinates."""
    short = replace(found(context, ((1,), (2,)), loss=8e-4), linear=False)
    long = replace(found(context, ((1,), (1, 2)), loss=3e-4), linear=False)
    floors = {id(short): 5e-4, id(long): 3e-4}
    monkeypatch.setattr(conclusion, "_floors", lambda *_: lambda one: floors.get(id(one), 5e-4))
    monkeypatch.setattr(conclusion, "_rollout", lambda *_: 0.01)
    assert conclude(context, [short, long], "auto", None).best is short
    floors[id(short)] = 3.9e-4
    assert conclude(context, [short, long], "auto", None).best is long


def test_nonlinear_encoders_whose_rollouts_fail_are_not_adequate(
    context: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = found(context, ((1,), (2,)))
    monkeypatch.setattr(conclusion, "_floors", lambda *_: lambda one: one.candidate.loss)
    monkeypatch.setattr(conclusion, "_rollout", lambda *_: 0.5)
    nonlinear = conclude(context, [replace(law, linear=False)], "auto", None)
    assert not nonlinear.adequate and "rollouts fail" in [f.name for f in nonlinear.findings]
    linear = conclude(context, [law], "auto", None)
    assert linear.adequate and any("do not predict" in line for line in linear.caveats)


def test_nonlinear_encoders_that_forget_more_than_others_are_not_chosen(
    context: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conclusion, "_floors", lambda *_: lambda one: one.candidate.loss)
    lossy = replace(found(context, ((1,), (2,)), loss=1e-5), linear=False)
    whole = replace(
        found(context, ((1,), (1, 2)), loss=1e-5), linear=False,
        check_report=replace(FINE, neighbor=0.001),
    )  # fmt: skip
    assert conclude(context, [lossy, whole], "auto", None).best is whole
    assert conclude(context, [lossy], "auto", None).best is lossy


def test_a_long_law_in_nonlinear_encoders_is_flagged_and_in_linear_ones_it_is_not(
    context: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conclusion, "_floors", lambda *_: lambda one: one.candidate.loss)
    law = found(context, ((0, 1, 2), (0, 1, 2)), loss=1e-5)
    assert law.structure.cost > 6
    nonlinear = conclude(context, [replace(law, linear=False)], "auto", None)
    assert not nonlinear.adequate and [f.name for f in nonlinear.findings] == ["long law"]
    assert conclude(context, [law], "auto", None).adequate
    # Four times the noise is adequate for a short law in linear coordinates, not for a long one.
    monkeypatch.setattr(conclusion, "_floors", lambda *_: lambda one: one.candidate.loss / 4)
    monkeypatch.setattr(conclusion, "RESIDUAL", 0.0)
    assert not conclude(context, [law], "auto", None).adequate
    assert conclude(context, [found(context, ((1,), (2,)), loss=1e-3)], "auto", None).adequate


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


def test_coordinates_that_forget_more_answer_with_a_doubt_where_nothing_else_is_adequate(
    context: SearchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conclusion, "_floors", lambda *_: lambda one: 1e-5)
    lossy = replace(found(context, ((1,), (2,)), loss=1e-5), linear=False)
    keeping = replace(FINE, neighbor=0.001)
    poor = found(context, ((1,), (1, 2)), loss=1e-2, check_report=keeping)
    result = conclude(context, [lossy, poor], "auto", None)
    assert result.best is lossy and not result.adequate
    assert [finding.name for finding in result.findings] == ["information loss"]
    good = found(context, ((1,), (1, 2)), loss=1e-5, check_report=keeping)
    result = conclude(context, [lossy, good], "auto", None)
    assert result.best is good and result.adequate
