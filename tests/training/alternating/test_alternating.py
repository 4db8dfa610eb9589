"""Algorithm 1 with every backend that is installed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy
import torch

import sjepa
from benchmarks.paper import PROFILES, exp1
from benchmarks.paper.conditions import EXPERIMENT_1
from sjepa.backend import Problem
from sjepa.backend.registry import available_backends, make_backend
from sjepa.callbacks import Step
from sjepa.data import TrajectoryBatch
from sjepa.errors import NumericalWarning, TrainingDiverged
from sjepa.models import SparseLaw, TreeLaw
from sjepa.symbolic import Grammar, Law
from sjepa.training.alternating import (
    AlternatingLoop,
    Alternation,
    Phase,
    Record,
    StructurePolicy,
    TrainingConfig,
    as_part,
    latent_rows,
    propose,
)
from sjepa.training.rollout_fit import refine

from .conftest import LIBRARY, make_model


BACKENDS = ["stlsq", "subset", "pysindy", "operon"]


def plan(name: str = "stlsq", cycles: int = 2) -> Alternation:
    return Alternation(
        cycles=cycles,
        dynamics=EXPERIMENT_1["dynamics_phase"].with_(epochs=2),
        space=EXPERIMENT_1["space_phase"].with_(epochs=2),
        backend=name,
        seconds=2.0,
    )


def loop(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig, **changes: object
) -> AlternatingLoop:
    model = make_model()
    model.symbolic = None
    given = replace(plan(), **changes)  # type: ignore[arg-type]
    return AlternatingLoop(model, LIBRARY, train, validation, given, settings, seed=1)


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_gives_a_law_in_the_library(
    name: str, train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    if not available_backends().get(name):
        pytest.skip(f"{name} is not installed")
    model = make_model()
    model.symbolic = None
    search = AlternatingLoop(model, LIBRARY, train, validation, plan(name), settings, seed=1)
    record = search.run()
    assert isinstance(model.symbolic, TreeLaw if name == "operon" else SparseLaw)
    assert LIBRARY.covers(model.symbolic.law())
    assert [row["cycle"] for row in search.diagnostics] == [1, 2]
    assert search.best_cycle == record.epoch
    assert {"law", "dynamics_law", "risk", "complexity", "min_std"} <= search.diagnostics[0].keys()


OWNERS = {  # emit, relaxed, propose_every_cycle
    "stlsq": ("library", True, False),
    "subset": ("library", False, True),
    "pysindy": ("library", False, True),
    "operon": ("tree", False, True),
    "pysr": ("tree", False, True),
}


@pytest.mark.parametrize("name", OWNERS)
def test_users_get_the_structure_policy_that_the_experiment_measures(name: str) -> None:
    if not available_backends().get(name):
        pytest.skip(f"{name} is not installed")
    for backend in (name, {"name": name}, make_backend(name)):
        _, ours = sjepa.Alternating().plan(backend)
        experiment = exp1.plan(PROFILES["default"], backend)
        assert ours.policy == experiment.policy == OWNERS[name]
        same = ("backend", "seconds", "cycles")
        a, b = (replace(p, backend=make_backend(p.backend)) for p in (ours, experiment))
        assert all(getattr(a, name) == getattr(b, name) for name in same)
    _, ours = sjepa.Alternating(relaxed=True).plan(name)
    assert ours.policy == (OWNERS[name][0], True, OWNERS[name][2])


def test_the_law_of_an_oscillator_is_found_from_linear_observations_of_it() -> None:
    omega, rng = np.pi / 2, np.random.default_rng(0)
    t = 0.08 * np.arange(50)  # one period, so that the states of every trajectory fill a circle
    radius, phase = rng.uniform(0.5, 1.5, (15, 1)), rng.uniform(0, 2 * np.pi, (15, 1))
    state = np.stack([radius * np.cos(omega * t + phase), -radius * np.sin(omega * t + phase)], -1)
    x = state @ rng.normal(size=(2, 6)) + 0.002 * rng.normal(size=(15, 50, 6))
    # Centered and uncorrelated coordinates: what is left of the choice of axes keeps the structure.
    gauge = {"invariance": 2.0, "variance": 3.0, "covariance": 1.0, "mean": 1.0}
    options = {
        "network": "linear", "batching": "trajectories", "passes": 5, "horizon": 5, "cycles": 2,
        "warm_epochs": 30, "dynamics_epochs": 10, "space_epochs": 30, "representation": gauge,
        "encoder_rate": 5e-3, "neural_rate": 2e-3, "symbolic_rate": 1e-2,
    }  # fmt: skip
    model = sjepa.SJEPA(search=sjepa.Alternating(**options), random_state=0).fit(list(x), t)
    z1, z2 = sympy.symbols("z1 z2", real=True)
    terms = [set(e.as_coefficients_dict()) for e in model.law_.expressions]
    assert terms == [{z2}, {z1}]
    a, b = (float(sum(e.as_coefficients_dict().values())) for e in model.law_.expressions)
    # In any units of z1 and z2 the product of both coefficients is -omega**2.
    assert a * b == pytest.approx(-(omega**2), rel=0.01)
    z = np.concatenate([model.encode(one) for one in x])
    design = np.column_stack([z, np.ones(len(z))])
    truth = state.reshape(-1, 2)
    error = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    assert (error.var(0) < 1e-4 * truth.var(0)).all()


def test_the_best_cycle_is_restored(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    search = loop(train, validation, settings, cycles=3)
    record = search.run()
    risks = [row["risk"] for row in search.diagnostics]
    assert record.risk <= min(risks) * 1.02
    chosen = search.diagnostics[search.best_cycle - 1]
    assert search.model.symbolic is not None
    law = search.model.symbolic.law(settings.report)
    assert "; ".join(law.lines(digits=5)) == chosen["law"]


def test_progress_rises_evenly_from_the_first_epoch_to_the_last(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    search = loop(train, validation, settings)
    steps: list[Step] = []
    search.on_step = steps.append
    search.run()
    epochs = search.plan.cycles * search.plan.epochs_per_cycle
    trained = [s.share for s in steps if s.epoch]
    np.testing.assert_allclose(trained, np.arange(1, epochs + 1) / epochs)


@pytest.mark.parametrize("name", ["stlsq", "operon"])
def test_a_killed_search_continues_to_the_same_result(
    name: str, train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    if not available_backends().get(name):
        pytest.skip(f"{name} is not installed")
    changes = {"backend": name}

    class Killed(Exception):
        pass

    states: list[dict[str, object]] = []

    def kill(step: Step) -> None:
        states.append(victim.state_dict())
        if (step.cycle, step.stage, step.epoch) == (2, "space_phase", 1):
            raise Killed

    victim = loop(train, validation, settings, **changes)
    victim.on_step = kill
    with pytest.raises(Killed):
        victim.run()

    def heir(state: dict[str, object] | None) -> AlternatingLoop:
        search = loop(train, validation, settings, **changes)
        if state is not None:
            search.load_state_dict(state)
        search.run()
        return search

    # A backend with a budget in seconds answers differently every time, so its search is only
    # continued after the last answer; otherwise from inside a dynamics phase, or not at all.
    others = (None, states[1]) if name == "stlsq" else (states[-2],)
    last = heir(states[-1])
    for state in others:
        other = heir(state)
        a, b = last.model.state_dict(), other.model.state_dict()
        assert all(torch.equal(a[k], b[k]) for k in a)
        assert last.diagnostics == other.diagnostics


def test_no_coefficient_below_the_pruning_threshold_is_left(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    for prune in (0.0, 0.02):
        search = loop(train, validation, settings.with_(prune=prune), cycles=1)
        search.run()
        assert isinstance(search.model.symbolic, SparseLaw)
        sizes = search.model.symbolic.active().detach().abs()
        small = int(((sizes > 0) & (sizes < 0.02)).sum())
        # The relaxed library trains all terms, so that many are small as long as none is pruned.
        assert (small == 0) if prune else (small > 2)


def test_euler_rows_are_forward_differences_and_respect_the_mask() -> None:
    z = torch.tensor([[[0.0], [1.0], [3.0]], [[0.0], [2.0], [9.0]]])
    dt = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    states, slopes = latent_rows(z, dt, mask)
    np.testing.assert_allclose(states[:, 0], [0.0, 1.0, 0.0])
    np.testing.assert_allclose(slopes[:, 0], [2.0, 4.0, 4.0])


def test_other_integrators_get_derivatives_of_high_order() -> None:
    t = torch.linspace(0, 2, 81, dtype=torch.float64)
    z = torch.stack([t.sin(), t.cos()], dim=-1)[None]
    dt = t.diff()[None]
    euler_states, euler = latent_rows(z, dt)
    states, slopes = latent_rows(z, dt, integrator="rk4")

    def error(s: np.ndarray, v: np.ndarray) -> float:
        return float(np.abs(v - np.stack([s[:, 1], -s[:, 0]], axis=1)).max())

    assert error(states, slopes) < 1e-3 * error(euler_states, euler)


def test_refining_removes_the_bias_of_a_rough_law() -> None:
    truth = Law.from_string(["z2", "-sin(z1)"], ["z1", "z2"])
    rough = Law.from_string(["0.9*z2", "-1.1*sin(z1)"], ["z1", "z2"])
    from sjepa.models import Transition

    rng = torch.Generator().manual_seed(0)
    z0 = torch.randn(20, 2, generator=rng, dtype=torch.float64)
    dt = 0.05 + 0.05 * torch.rand(20, 30, generator=rng, dtype=torch.float64)
    z = Transition(truth.torch(), integrator="rk4").rollout(z0, dt)
    found = refine(rough, z, dt)
    # The data follow the same integrator exactly, so only rounding is left.
    np.testing.assert_allclose(found.coefficients, [1.0, -1.0], atol=1e-9)
    # A term that the data do not need goes, and the others are fitted without it.
    spare = Law.from_string(["0.9*z2 + 0.3*z1", "-1.1*sin(z1)"], ["z1", "z2"])
    assert len(refine(spare, z, dt).coefficients) == 3
    np.testing.assert_allclose(refine(spare, z, dt, prune=0.05).coefficients, [1, -1], atol=1e-9)
    constant = Law.from_string(["0", "0"], ["z1", "z2"])
    assert refine(constant, z, dt) == constant


def test_a_tree_law_trains_prunes_and_comes_back() -> None:
    law = Law.from_string(["z2 + 0.01*z1**2", "-1.5*sin(z1)"], ["z1", "z2"])
    part = as_part(law, LIBRARY, StructurePolicy("tree", False, True))
    assert isinstance(part, TreeLaw)
    z = torch.randn(5, 2)
    expected = torch.stack([z[:, 1] + 0.01 * z[:, 0] ** 2, -1.5 * z[:, 0].sin()], dim=-1)
    torch.testing.assert_close(part(z), expected)
    # 1 * 1.0 + 1.5 * 0.01 + 2 * 1.5, up to the smoothing of the absolute value
    assert part.complexity().item() == pytest.approx(4.015, abs=1e-3)
    inner = TreeLaw(Law.from_string(["2.5*sin(0.5*z1) + 0.5*z2", "z1"], ["z1", "z2"]), LIBRARY)
    assert inner.emit.coefficients[inner.position].tolist() == [0.5, 2.5, 1.0] or (
        inner.emit.coefficients[inner.position].tolist() == [2.5, 0.5, 1.0]
    )
    copy = TreeLaw.from_text(part.to_text())
    copy.load_state_dict(part.state_dict())
    torch.testing.assert_close(copy(z), part(z))
    part.threshold_(0.05)
    assert part.law().complexity("terms", LIBRARY) == 3.0


def test_a_proposal_is_the_simplest_law_within_the_tolerance() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(400, 2))
    slopes = np.stack([states[:, 1], -np.sin(states[:, 0])], axis=1)
    found = propose(make_backend("subset"), states, slopes, LIBRARY)
    assert found.law.equivalent(Law.from_string(["z2", "-sin(z1)"], ["z1", "z2"]), 1e-6)


def test_a_resumed_search_keeps_its_front_as_it_was_measured(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    """A sine that the grammar sells for 0.5 cost 4.5 after a resume, and notes were lost."""
    first, second = (loop(train, validation, settings) for _ in range(2))
    cheap = Grammar(["+", "*", "sin"], ["z1", "z2"], weights={"sin": 0.5})
    rows = np.random.default_rng(0).normal(size=(9, 2))
    problem = Problem(rows, np.sin(rows), grammar=cheap)
    first.front = problem.front(
        [Law.from_string(["sin(z1)", "sin(z2)"], ["z1", "z2"])], "own", ["a note"]
    )
    assert first.front[0].tree == 3.0
    second.load_state_dict(first.state_dict())
    assert second.front == first.front


def test_a_tree_law_of_a_grammar_is_resumed(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    grammar = Grammar(["+", "*", "exp"], ["z1", "z2"])
    law = Law.from_string(["z2*exp(-0.5*z1)", "-z1"], ["z1", "z2"])
    first, second = (
        AlternatingLoop(make_model(), grammar, train, validation, plan("subset"), settings)
        for _ in range(2)
    )
    first.model.symbolic, second.model.symbolic = TreeLaw(law), None
    second.load_state_dict(first.state_dict())
    assert second.model.symbolic is not None and second.model.symbolic.law() == law


def test_what_is_not_given_is_the_plan_of_the_paper(
    train: TrajectoryBatch, validation: TrajectoryBatch
) -> None:
    search = AlternatingLoop(make_model(), LIBRARY, train, validation, seed=3)
    assert search.plan == Alternation() and search.settings == TrainingConfig()
    assert search.generator.initial_seed() == 3


def test_training_that_diverges_ends_with_the_best_cycle_or_an_error_if_there_is_none(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run = Phase.run
    search = loop(train, validation, settings, cycles=3)

    def diverging(phase: Phase) -> Record:
        if search.cycle == last:
            raise TrainingDiverged("No rollout stayed finite.")
        return run(phase)

    monkeypatch.setattr(Phase, "run", diverging)
    last = 1
    with pytest.warns(
        NumericalWarning, match="Cycle 2: No rollout stayed finite. Cycle 1 is kept."
    ):
        record = search.run()
    assert record.epoch == 1 and record.risk == search.diagnostics[0]["risk"]
    last, search = 0, loop(train, validation, settings)
    with pytest.raises(TrainingDiverged, match="No rollout stayed finite"):
        search.run()
