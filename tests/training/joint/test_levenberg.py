"""Polynomial encoders, and the method that finds the best one for a structure."""

from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories, simulate
from sjepa.data.synthetic.systems import SYSTEMS
from sjepa.errors import FormatError
from sjepa.metrics.shortcuts import CollapseChecks
from sjepa.models import Whitening
from sjepa.models.polynomials import PolynomialEncoder, light_products
from sjepa.models.serialization import from_spec, to_spec
from sjepa.symbolic import Library
from sjepa.training.joint import SearchBudget
from sjepa.training.joint.context import SearchContext, prepare
from sjepa.training.joint.levenberg import CURVATURE_PENALTY, NormalSums, levenberg_marquardt
from sjepa.training.joint.nonlinear import diverging_rollouts, mechanical_candidates
from sjepa.training.joint.refinement import StructureTask, linear_head, noise_floor
from sjepa.training.joint.structures import structure
from sjepa.training.joint.whitened_trajectories import Observed, within_range


NAMES = ["z1", "z2"]
LIBRARY = Library.paper(NAMES) + Library.polynomial(NAMES, 3)


def support(library: Library, *rows: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sorted(library.names.index(t) for t in row.split(" + "))) for row in rows)


def curved(s: np.ndarray) -> np.ndarray:
    """Quadratic sensors that quadratic functions undo: the first two values are one shear."""
    x, y = s.T
    return np.stack([x + 0.3 * y**2, y, 0.5 * x * y + y**2, 0.2 * x**2 - y], axis=1)


def pendulum(noise: float = 0.0) -> tuple[Trajectories, SearchContext]:
    data = simulate("pendulum", seed=3, trajectories=20, points=80)
    rng = np.random.default_rng(0)
    x = [curved(s) + noise * rng.normal(size=(len(s), 4)) for s in data.x]
    seen = Trajectories(x, data.t, state=data.x)
    context = prepare(seen, LIBRARY, 2, 1, 0, SearchBudget(), None, CollapseChecks(), 4, None)
    return seen, context


def rows_of(context: SearchContext) -> torch.Tensor:
    return context.train.x[context.train.grid.mask]


def test_features_are_orthonormal_where_they_were_made_and_begin_with_the_linear_ones() -> None:
    _, context = pendulum()
    x = rows_of(context)
    head = PolynomialEncoder.of(x, 2, 4)
    p = head.features(x)
    torch.testing.assert_close(p.T @ p / len(p), torch.eye(p.shape[1]).double(), atol=1e-6, rtol=0)
    assert float(p.mean(0).abs().max()) < 1e-9
    linear = torch.linalg.lstsq(p[:, :4], x - x.mean(0))
    torch.testing.assert_close(p[:, :4] @ linear.solution, x - x.mean(0))


def test_an_encoder_imitates_any_polynomial_of_its_degree_and_says_how_nonlinear_it_is() -> None:
    _, context = pendulum()
    x = rows_of(context)
    z = torch.stack([x[:, 0] - 2.0, x[:, 1] + 0.5 * x[:, 0] ** 2], dim=1)
    head = PolynomialEncoder.of(x, 2, 2).imitate(x, z)
    torch.testing.assert_close(head(x), z)
    nonlinear = (
        z[:, 1]
        - torch.cat([x, torch.ones(len(x), 1)], 1).double()
        @ torch.linalg.lstsq(torch.cat([x, torch.ones(len(x), 1)], 1).double(), z[:, 1:]).solution[
            :, 0
        ]
    )
    assert head.curvature_penalty()[0] == pytest.approx(0.0, abs=1e-12)
    assert head.curvature_penalty()[1] == pytest.approx(
        float(nonlinear.var() / z[:, 1].var()), rel=1e-3
    )


def test_it_is_stored_as_data_and_comes_back_the_same() -> None:
    _, context = pendulum()
    x = rows_of(context)
    head = PolynomialEncoder.of(x, 2, 3).imitate(x, x[:, :2] ** 2)
    again = from_spec(to_spec(head), head.state_dict())
    assert torch.equal(again(x), head(x))
    broken = {**head.state_dict(), "factors": head.factors + 1}
    with pytest.raises(FormatError, match="not one of 4 components"):
        from_spec(to_spec(head), broken)


def slopes(head: PolynomialEncoder, task: StructureTask, observed: Observed) -> None:
    """The slope of the normal equations is half the derivative of the loss."""
    sums = NormalSums(head, task, observed, 0.1, 2)
    _, slope = sums.normal_equations()
    start = head.linear.weight.detach().clone(), head.linear.bias.detach().clone()
    numbers = sum(p.numel() for p in head.parameters())
    for i in range(0, numbers, 5):
        step = torch.zeros_like(slope)
        step[i] = 1e-5
        losses = []
        for sign in (1, -1):
            sums.move(start, sign * step)
            losses.append(sums.loss())
        numeric = (losses[0] - losses[1]) / 2e-5
        assert 2 * float(slope[i]) == pytest.approx(numeric, rel=1e-4, abs=1e-7)


def random_head(observed: Observed, dim: int, degree: int = 2) -> PolynomialEncoder:
    torch.manual_seed(0)
    rows = observed.x[observed.grid.mask]
    head = PolynomialEncoder.of(rows, dim, degree)
    with torch.no_grad():
        head.linear.weight.copy_(torch.randn(dim, head.linear.in_features).double())
    return head


def test_derivatives_are_exact_for_first_order_laws() -> None:
    _, context = pendulum()
    task = context.task(structure(LIBRARY, support(LIBRARY, "z1 + z2", "z1*z2 + sin(z1)")))
    slopes(random_head(context.train, 2), task, context.train)


def test_derivatives_are_exact_for_second_order_laws_with_velocities() -> None:
    library = Library.from_terms(["z1", "sin(z1)", "z1*v1", "v1"], ["z1", "v1"])
    seen, _ = pendulum()
    context = prepare(seen, library, 1, 2, 0, SearchBudget(), None, CollapseChecks(), 4, None)
    task = context.task(structure(library, ((1, 2, 3),)))
    slopes(random_head(context.train, 1, 3), task, context.train)


@pytest.mark.parametrize("zoh", [True, False])
def test_derivatives_are_exact_with_actions(zoh: bool) -> None:
    names = [*NAMES, "u1"]
    library = Library.from_terms(["z1", "z2", "u1", "z1*u1", "z2**2"], names)
    seen, _ = pendulum()
    rng = np.random.default_rng(1)
    u = [rng.normal(size=(len(x), 1)) for x in seen.x]
    driven = Trajectories(seen.x, seen.t, u)
    context = prepare(driven, library, 2, 1, 0, SearchBudget(), None, CollapseChecks(), 4, None)
    task = context.task(structure(library, ((1, 2), (0, 3, 4))))
    slopes(random_head(context.train, 2), task, context.train.with_zoh(zoh))


def test_short_trajectories_count_only_where_they_were_observed() -> None:
    seen, _ = pendulum()
    lengths = [60 + (7 * i) % 20 for i in range(len(seen))]
    ragged = Trajectories(
        [x[:n] for x, n in zip(seen.x, lengths, strict=True)],
        [t[:n] for t, n in zip(seen.t, lengths, strict=True)],
    )
    context = prepare(ragged, LIBRARY, 2, 1, 0, SearchBudget(), None, CollapseChecks(), 4, None)
    assert not bool(context.train.grid.mask.all())
    task = context.task(structure(LIBRARY, support(LIBRARY, "z2", "z1 + z1**3")))
    slopes(random_head(context.train, 2), task, context.train)


def solve(context: SearchContext, task: StructureTask, degree: int = 3) -> PolynomialEncoder:
    rows = rows_of(context)
    head = PolynomialEncoder.of(rows, 2, degree)
    pair = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]).double()
    head.imitate(rows, rows @ pair)
    for easing in (100.0, 10.0, 1.0):
        levenberg_marquardt(
            head,
            task,
            context.train,
            curvature_penalty=easing * CURVATURE_PENALTY,
            steps=20,
            stride=2,
        )
    return head


def test_curved_sensors_are_undone_down_to_the_noise() -> None:
    """The states come back, although no linear read-out has them."""
    seen, context = pendulum(noise=0.003)
    task = context.task(structure(LIBRARY, support(LIBRARY, "z2", "sin(z1)")))
    head = solve(context, task)
    risk = float(task.risk(head, context.train, context.validation).risk)
    assert risk < 2.0 * noise_floor(head, task, context.validation)
    x = torch.tensor(np.concatenate(seen.x))
    with torch.no_grad():
        z = head(context.whitening(x)).numpy()
    truth = np.concatenate(seen.state)  # type: ignore[arg-type]
    missed = []
    for inputs in (z, x.numpy()):  # coordinates found, and what is linear in the observations
        rows = np.column_stack([inputs, np.ones(len(z))])
        rest = truth - rows @ np.linalg.lstsq(rows, truth)[0]
        missed.append(float((rest.var(0) / truth.var(0)).max()))
    assert missed[0] < 0.2 * missed[1]


def test_a_law_that_is_wrong_stays_far_above_the_noise() -> None:
    _, context = pendulum(noise=0.003)
    task = context.task(structure(LIBRARY, support(LIBRARY, "z2", "z1")))
    head = solve(context, task)
    risk = float(task.risk(head, context.train, context.validation).risk)
    assert risk > 5 * noise_floor(head, task, context.validation)


def test_the_noise_floor_counts_what_the_law_makes_of_noise() -> None:
    """A stiff law multiplies noise: what is left of the exact one is twice that of the states."""
    data = simulate("van_der_pol", seed=0, trajectories=30, points=120, noise=0.004)
    observed = Observed.of(Trajectories(data.x, data.t), Whitening(2, 2).double())
    task = StructureTask(
        LIBRARY, structure(LIBRARY, support(LIBRARY, "z2", "z1 + z2 + z1**2*z2")), 1, (8, 16, 32)
    )
    head: Any = linear_head(torch.eye(2).double())
    risk = float(task.risk(head, observed, observed).risk)
    assert noise_floor(head, task, observed) == pytest.approx(risk, rel=0.25)


def test_the_noise_floor_of_nonlinear_coordinates_counts_the_places_where_they_are_steep() -> None:
    """Where sensors saturate, noise is magnified: a few places make most of its mean square."""
    data = simulate(replace(SYSTEMS["pendulum"], step=0.1, points=120, trajectories=40), seed=0)
    rng = np.random.default_rng(0)
    states = np.stack(data.x) / 1.5
    x = np.concatenate([np.tanh(states), np.tanh(states @ np.array([[1.0, 0.5], [-0.5, 1.0]]))], -1)
    x = x + 0.002 * rng.normal(size=x.shape)
    whitening = Whitening.fit(torch.tensor(x.reshape(-1, 4)), (4,))
    observed = Observed.of(Trajectories(list(x), data.t), whitening)
    rows = observed.x[observed.grid.mask]
    head = PolynomialEncoder.of(rows, 2, 7).imitate(
        rows, torch.tensor(np.concatenate(data.x)) @ torch.eye(2).double()
    )
    task = StructureTask(
        LIBRARY, structure(LIBRARY, support(LIBRARY, "z2", "sin(z1)")), 1, (10, 20, 40)
    )
    risk = float(task.risk(head, observed, observed).risk)
    assert noise_floor(head, task, observed) == pytest.approx(risk, rel=0.3)


def test_a_law_that_does_not_lead_along_its_coordinates_is_refused() -> None:
    """Between the two rests of a pendulum the law holds everywhere, and no start stays there."""
    rng = np.random.default_rng(0)

    def refused(states: np.ndarray, step: float) -> tuple[str, ...]:
        x = states + 0.05 * rng.normal(size=states.shape)
        budget = SearchBudget(horizon=60)
        data = Trajectories(list(x), step)
        context = prepare(data, LIBRARY, 2, 1, 0, budget, None, CollapseChecks(), 2, None)
        rows = rows_of(context)
        back = torch.linalg.inv(context.whitening.matrix.double())
        head = PolynomialEncoder.of(rows, 2, 2)
        head.imitate(rows, rows @ back + context.whitening.mean.double())
        task = context.task(structure(LIBRARY, support(LIBRARY, "z2", "sin(z1)")))
        assert float(task.risk(head, context.train, context.train).risk) < 0.05
        return diverging_rollouts(context, head, task, context.train)

    t = np.arange(0, 10, 0.1) - 5.5 + rng.uniform(0, 1, size=(30, 1))
    between = np.stack([2 * np.arctan(np.sinh(t)), 2 / np.cosh(t)], axis=-1)
    assert refused(between, 0.1) == ("its rollouts diverge from the data",)
    swings = simulate(replace(SYSTEMS["pendulum"], step=0.1, points=100, trajectories=30), seed=0)
    assert refused(np.stack(swings.x), 0.1) == ()


@pytest.mark.parametrize("rank, dim, degree", [(6, 2, 6), (12, 2, 5), (9, 3, 4), (5, 1, 5)])
def test_monomials_are_all_those_that_are_light_enough(rank: int, dim: int, degree: int) -> None:
    weights = [1] * dim + [2] * (dim * (dim + 1) // 2) + [3] * 20
    weights = weights[:rank]
    for size in range(1, degree + 1):
        every = combinations_with_replacement(range(rank), size)
        light = [own for own in every if sum(weights[i] for i in own) <= degree]
        assert list(light_products(weights, size, degree)) == light


def test_beyond_the_data_only_the_linear_part_goes_on() -> None:
    _, context = pendulum()
    x = rows_of(context)
    head = PolynomialEncoder.of(x, 2, 4).imitate(x, x[:, :2] ** 2 + x[:, :2])
    far, farther = 10 * x[:5], 20 * x[:5]
    edge = far.clamp(x.amin(0), x.amax(0))
    outside = (far == edge).logical_not().all(1)
    assert bool(outside.any())
    step = (head(farther) - head(far))[outside]
    again = (head(3 * farther - 2 * far) - head(far))[outside]
    torch.testing.assert_close(again, 3 * step)


def test_nonlinear_coordinates_are_judged_where_they_were_trained() -> None:
    _, context = pendulum()
    train = context.train
    inside = train.pick(torch.arange(4))
    outside = replace(inside, x=3 * inside.x)
    both = Observed(
        torch.cat([inside.x, outside.x[:2]]), train.grid.pick(torch.tensor([0, 1, 2, 3, 0, 1])),
        torch.cat([inside.raw, inside.raw[:2]]),
    )  # fmt: skip
    kept = within_range(train, both)
    assert torch.equal(kept.x, inside.x)
    # With nothing inside, the better half is all there is.
    assert len(within_range(train, outside)) == 2


def test_a_force_is_found_term_by_term() -> None:
    """Duffing's spring and damping from curved sensors: three terms, none of them given."""
    data = simulate("duffing", seed=1, trajectories=16, points=120)
    rng = np.random.default_rng(2)
    scale = np.concatenate(data.x).std(0)
    x = [curved(s / scale) + 0.002 * rng.normal(size=(len(s), 4)) for s in data.x]
    library = Library.from_terms(["z1", "z2", "z1**3", "z1*z2"], NAMES)
    context = prepare(
        Trajectories(x, data.t), library, 2, 1, 0, SearchBudget(), None, CollapseChecks(), 4, None
    )
    found = mechanical_candidates(context)
    three = [own for own in found if len(own.structure.support[1]) == 3]
    best = min(three, key=lambda own: own.loss)
    assert best.structure.support == support(library, "z2", "z1 + z2 + z1**3")
    assert len(found) == len({own.structure for own in found})


def test_few_rows_have_fewer_features_than_monomials() -> None:
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)).double()
    head = PolynomialEncoder.of(x, 2, 4)
    assert 3 <= head.linear.in_features < 12
    assert bool(head.features(x).isfinite().all())


def test_the_same_rows_give_the_same_bytes() -> None:
    """Answers must not depend on who computed them, and LAPACK's lstsq differs by the call."""
    _, context = pendulum()
    x = rows_of(context)
    heads = []
    for size in (1, 1001, 77, 4099):
        _kept = torch.randn(size)  # what lies in memory before
        heads.append(PolynomialEncoder.of(x, 2, 4).imitate(x, x[:, :2] ** 2 + x[:, 2:]))
    assert all(torch.equal(h.linear.weight, heads[0].linear.weight) for h in heads)
