"""Bent encoders in the search, and what is said when even they are not enough."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories, simulate
from sjepa.errors import FormatError
from sjepa.metrics.shortcuts import CollapseChecks, CollapseReport
from sjepa.models import Whitening
from sjepa.models.encoders import LinearEncoder
from sjepa.models.polynomials import PolynomialEncoder
from sjepa.storage.tensors import pack, unpack
from sjepa.symbolic import Candidate, Law, Library
from sjepa.training.joint import SearchBudget, joint_search
from sjepa.training.joint.context import SearchContext, prepare
from sjepa.training.joint.nonlinear import nearest_structures, simplest_adequate, solved
from sjepa.training.joint.nonlinear_selection import (
    DIVERGING,
    PolynomialCandidate,
    distinct,
    fittest_and_simplest,
    promoted,
    without_information_loss,
)
from sjepa.training.joint.refinement import StructureTask, linear_head
from sjepa.training.joint.result import JointCandidate
from sjepa.training.joint.structure_moves import cheaper, variants
from sjepa.training.joint.structures import structure
from sjepa.training.joint.whitened_trajectories import Observed
from tests.training.joint.shortcut_data import pendulum_states


NAMES = ["z1", "z2"]
LIBRARY = Library.paper(NAMES) + Library.polynomial(NAMES, 3)
SINES = Library.from_terms(["z1", "z2", "sin(z1)", "sin(z2)"], NAMES)


def support(*rows: str, library: Library = LIBRARY) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sorted(library.names.index(t) for t in row.split(" + "))) for row in rows)


def test_one_equation_grows_while_the_other_stays() -> None:
    """Duffing's own states: from the linear oscillator to spring, damping and cube at once."""
    data = simulate("duffing", seed=0, noise=1e-3, trajectories=6, points=200)
    observed = Observed.of(Trajectories(data.x, data.t), Whitening(2, 2).double())
    task = StructureTask(LIBRARY, structure(LIBRARY, support("z2", "z1")), 1, (10, 30))
    found = variants(linear_head(torch.eye(2).double()), task, observed)
    assert support("z2", "z1 + z2 + z1**3") == found[0].support
    assert all(s.support[0] == support("z2", "z1")[0] for s in found)


def test_simpler_structures_drop_a_term_or_exchange_one_or_two() -> None:
    library = Library.from_terms(["1", "z1", "z2", "sin(z1)"], NAMES)
    task = StructureTask(library, structure(library, ((2,), (1, 3))), 1, (10,))
    assert sorted({s.support for s in cheaper(task)}) == [
        ((2,), (1,)), ((2,), (1, 2)), ((2,), (2,)), ((2,), (3,)),
    ]  # fmt: skip
    pair = StructureTask(LIBRARY, structure(LIBRARY, support("z2", "z1 + z1**3")), 1, (10,))
    assert support("z2", "sin(z1)") in [s.support for s in cheaper(pair)]
    assert all(s.cost < pair.structure.cost for s in cheaper(pair))


@pytest.fixture(scope="module")
def duffing() -> tuple[SearchContext, LinearEncoder]:
    """Duffing's own states as observations, and the encoder that gives them back."""
    data = simulate("duffing", seed=0, noise=1e-3, trajectories=6, points=200)
    given = Trajectories(data.x, data.t)
    context = prepare(given, LIBRARY, 2, 1, 0, SearchBudget(), None, CollapseChecks(), 2, None)
    x = torch.tensor(np.concatenate(data.x))
    seen = context.whitening(x)
    numbers = torch.linalg.lstsq(torch.cat([seen, torch.ones_like(seen[:, :1])], 1), x).solution
    head = linear_head(numbers[:-1])
    with torch.no_grad():
        head.linear.bias.copy_(numbers[-1])
    return context, head


def test_laws_that_are_tried_next_have_a_term_less_or_a_simpler_one(
    duffing: tuple[SearchContext, LinearEncoder],
) -> None:
    """With a sine too many: the law without it is among those with a term less."""
    context, head = duffing
    long = structure(LIBRARY, support("z2", "z1 + z2 + z1**3 + sin(z1)"))
    found = nearest_structures(context, head, context.task(long))
    assert support("z2", "z1 + z2 + z1**3") in [s.support for s in found[:4]]
    assert len(found) == 8 and all(s.cost < long.cost for s in found)


def test_simpler_laws_are_sought_from_the_simplest_that_is_adequate(
    duffing: tuple[SearchContext, LinearEncoder],
) -> None:
    context, head = duffing
    rows = ("z1 + z2", "z1 + z2 + z1**3 + z2**3", "z1 + z2 + z1**3")
    begun = [polynomial(support("z2", row), 1e-3) for row in rows]
    grown = [(head, context.task(own.structure)) for own in begun]
    assert simplest_adequate(context, begun, grown) == (begun[2], grown[2])
    assert simplest_adequate(context, begun[:1], grown[:1]) is None


def test_two_starts_that_ended_in_the_same_coordinates_are_one() -> None:
    linear, cubic = support("z2", "z1"), support("z2", "z1**3")
    found = [polynomial(linear, loss) for loss in (0.1, 0.101, 0.2)] + [polynomial(cubic, 0.1)]
    assert distinct(found) == [found[0], found[2], found[3]]
    refused = replace(found[1], check_report=replace(ADMITTED, reasons=("neighbor",)))
    assert refused in distinct([found[0], refused])  # a refused one does not stand for others


def test_wells_that_are_folded_into_one_do_not_take_all_places(
    duffing: tuple[SearchContext, LinearEncoder],
) -> None:
    """The folded ones leave less at a low degree; the true ones may even fail to lead anywhere."""
    folded = [
        seen(polynomial(support("z2", f"{row} + z1**2"), 0.001 * (4 - i)), neighbor=0.07)
        for i, row in enumerate(("z1", "sin(z1)", "z1 + z2"))
    ]
    true = seen(polynomial(support("z2", "z1 + z1**3"), 0.01), neighbor=0.002, reasons=(DIVERGING,))
    hopeless = seen(polynomial(support("z2", "z1 + z2"), 0.9), neighbor=0.001)
    kept = promoted(duffing[0], [*folded, true, hopeless], keep=2)
    assert true in kept and len(set(kept) & set(folded)) == 2 and hopeless not in kept


def test_where_all_forget_too_much_the_best_go_on_but_not_those_that_lead_elsewhere(
    duffing: tuple[SearchContext, LinearEncoder],
) -> None:
    found = [
        seen(polynomial(support("z2", "z1 + z1*z2"), 0.001), 0.05, ("neighbor", DIVERGING)),
        seen(polynomial(support("z2", "z1 + z2 + z2**3"), 0.002), 0.05, ("neighbor",)),
    ]
    assert promoted(duffing[0], found, keep=6) == found[1:]
    assert promoted(duffing[0], found[:1], keep=6) == found[:1]  # something must go on


def test_half_of_the_laws_that_are_grown_are_the_fittest_and_half_the_simplest() -> None:
    rows = ("z1 + z2 + z1**3", "z1 + z2 + sin(z1)", "z1", "z1 + z2", "z1 + sin(z1)")
    laws = [polynomial(support("z2", row), 0.1 * (i + 1)) for i, row in enumerate(rows)]
    assert fittest_and_simplest(laws[::-1], 4) == [laws[0], laws[1], laws[2], laws[3]]
    assert fittest_and_simplest([], 4) == [] == without_information_loss([])


def seen(
    own: PolynomialCandidate, neighbor: float, reasons: tuple[str, ...] = ()
) -> PolynomialCandidate:
    return replace(own, check_report=replace(ADMITTED, neighbor=neighbor, reasons=reasons))


ADMITTED = CollapseReport(1.0, 2.0, 0.6, 0.01, ())


def polynomial(own: tuple[tuple[int, ...], ...], loss: float) -> PolynomialCandidate:
    head = PolynomialEncoder.of(torch.randn(50, 2, dtype=torch.float64), 2, 2)
    return PolynomialCandidate(structure(LIBRARY, own), head, loss, ADMITTED)


def found(loss: float, *rows: str) -> JointCandidate:
    law = Law.from_string(list(rows), NAMES)
    own = structure(LIBRARY, support(*rows))
    candidate = replace(Candidate.score(law, [loss, loss], LIBRARY), loss=loss)
    return JointCandidate(candidate, own, torch.nn.Identity(), ADMITTED)


def curved(count: int, length: int = 61, noise: float = 0.005) -> Trajectories:
    states = pendulum_states(count, length)
    rng = np.random.default_rng(0)
    x = np.tanh(np.tanh(states @ rng.normal(size=(2, 32)) * 0.7) @ rng.normal(size=(32, 5)) * 0.3)
    x += noise * x.std(axis=(0, 1)) * rng.normal(size=x.shape)
    return Trajectories(list(x), 0.07, state=list(states))


SMALL = SearchBudget(
    structures=6,
    restarts=3,
    effort=0.5,
    finalists=2,
    refinement=40,
    rollout=5,
    max_terms=1,
    grow=False,
)


def test_a_law_that_leaves_far_more_than_noise_is_said_not_to_be_adequate() -> None:
    result = joint_search(curved(40), SINES, 2, budget=SMALL)
    assert result.ratio > 5 and result.residual == result.ratio * result.noise_floor
    assert result.verdict.adequate is False and not result.rivals
    assert "a term is missing or wrong" in result.warnings[0]


@pytest.mark.slow
def test_curved_sensors_need_a_nonlinear_encoder_and_get_one() -> None:
    """The pendulum's law, which a linear encoder of the same search misses by far."""
    data = curved(60, 141)  # more than a period: shorter ones leave the phase free
    linear = joint_search(data, SINES, 2, budget=SMALL)
    result = joint_search(data, SINES, 2, budget=replace(SMALL, grow=True))
    assert {str(t) for row in result.law.terms for _, t in row} in (
        {"z2", "sin(z1)"},
        {"sin(z2)", "z1"},
    )
    assert result.residual < 0.05 * linear.residual and not result.best.linear
    assert any("valid on the training range" in line for line in result.notes)


class Stopping:
    """A memory that stops the search when it has been given so many things."""

    def __init__(self) -> None:
        self.data: Any = None
        self.left = 10**9
        self.put_count = 0

    def get(self) -> Any:
        return self.data

    def put(self, data: Any) -> None:
        text, tensors = pack(data)  # as it would come back from a file
        self.data, self.put_count = unpack(text, tensors), self.put_count + 1
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_search_that_is_stopped_among_nonlinear_encoders_resumes_where_it_was() -> None:
    """To the last bit, and without computing again what was kept."""
    data, budget = curved(6, 45), replace(SMALL, grow=True)
    library = Library.from_terms(["z2", "sin(z1)"], NAMES)
    whole = Stopping()
    shares: list[float] = []
    expected = joint_search(
        data, library, 2, budget=budget, memory=whole, report=lambda step: shares.append(step.share)
    )
    assert whole.put_count > 8
    stopped = Stopping()
    stopped.left = whole.put_count // 2
    with pytest.raises(KeyboardInterrupt):
        joint_search(data, library, 2, budget=budget, memory=stopped)
    assert "nonlinear" in stopped.data
    result = joint_search(data, library, 2, budget=budget, memory=stopped)
    assert stopped.put_count == whole.put_count
    assert result.law.lines(digits=17) == expected.law.lines(digits=17)
    for a, b in zip(
        result.best.encoder.parameters(), expected.best.encoder.parameters(), strict=True
    ):
        assert torch.equal(a, b)
    assert shares == sorted(shares)


def test_a_checkpoint_whose_nonlinear_encoders_have_another_shape_is_refused(
    duffing: tuple[SearchContext, LinearEncoder],
) -> None:
    context, head = duffing
    memory = Stopping()
    memory.data = {"heads": []}
    context = replace(context, memory=memory)
    starts = [(structure(LIBRARY, support("z2", "z1")), head)]
    (found,) = solved(context, starts, 3, (1.0,))
    (again,) = solved(context, starts, 3, (1.0,))
    assert torch.equal(found.head.linear.weight, again.head.linear.weight) and found is not again
    assert (found.loss, found.check_report) == (again.loss, again.check_report)
    ((_, kept),) = memory.data["nonlinear"].items()
    kept["weights"] = kept["weights"][:, :1]
    with pytest.raises(FormatError, match="does not fit this search"):
        solved(context, starts, 3, (1.0,))
