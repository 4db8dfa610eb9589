"""A phase trains what it should, follows its target, selects, and can be continued."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.paper.conditions import CONDITIONS
from sjepa.callbacks import Step
from sjepa.data import Trajectories, TrajectoryBatch
from sjepa.errors import ConfigError, DataError, NumericalWarning, TrainingDiverged
from sjepa.models import SparseLaw, make_encoder
from sjepa.models.devices import resolve_device
from sjepa.symbolic import Library
from sjepa.training.alternating import LatentModel, Phase, TrainingConfig
from sjepa.training.alternating.conditions import COMPONENTS

from .conftest import LIBRARY, make_model


def run(
    model: LatentModel,
    name: str,
    train: TrajectoryBatch,
    validation: TrajectoryBatch,
    settings: TrainingConfig,
    **changes: object,
) -> Phase:
    condition = CONDITIONS[name].with_(**{"epochs": 2, **changes})
    generator = torch.Generator().manual_seed(3)
    phase = Phase(model, condition, train, validation, settings, generator)
    phase.run()
    return phase


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_trains_exactly_its_parts(
    name: str, train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    model = make_model()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    run(model, name, train, validation, settings)
    condition = CONDITIONS[name]
    for part in (*COMPONENTS, "target"):
        same = [
            torch.equal(v, before[k]) for k, v in model.state_dict().items() if k.startswith(part)
        ]
        trained = condition.updates_encoder if part == "target" else part in condition.trains
        assert (not all(same)) == trained, part
    assert all(p.requires_grad for p in model.encoder.parameters())


def test_the_target_follows_the_encoder(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    one_batch = settings.with_(batch=10_000)
    model = make_model()
    start = [p.clone() for p in model.encoder.parameters()]
    run(model, "warm_start", train, validation, one_batch, epochs=1)
    moved = zip(start, model.encoder.parameters(), model.target.parameters(), strict=True)
    for old, new, target in moved:
        torch.testing.assert_close(target, 0.99 * old + 0.01 * new)


def test_frozen_phases_encode_nothing(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    model = make_model()
    phase = Phase(model, CONDITIONS["dynamics_phase"].with_(epochs=3), train, validation, settings)
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append("context"))
    model.target.register_forward_hook(lambda *_: calls.append("target"))
    phase.run()
    assert not calls


def test_the_best_checkpoint_is_restored(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    model = make_model()
    # A rate at which training gets worse sooner or later.
    wild = settings.with_(symbolic_rate=3.0)
    phase = run(model, "dynamics_phase", train, validation, wild, epochs=12)
    risks = [row["risk"] for row in phase.history]
    assert len(risks) == 12 and min(risks) < risks[-1]
    chosen = phase.shortlist.best()[0]
    assert chosen.risk <= min(risks) * 1.02
    assert phase.validate().risk == pytest.approx(chosen.risk, rel=1e-5)


def test_collapsed_checkpoints_are_not_eligible_unless_exempt(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    for name, eligible in (("space_phase", False), ("one_step_collapse", True)):
        model = make_model()
        with torch.no_grad():
            for p in model.encoder.parameters():
                p.mul_(1e-3)
        phase = Phase(model, CONDITIONS[name].with_(epochs=0), train, validation, settings)
        record = phase.validate()
        assert record.min_std < 0.2
        assert record.eligible is eligible
    # A frozen encoder is not this phase's doing.
    model = make_model()
    with torch.no_grad():
        for p in model.encoder.parameters():
            p.zero_()
    assert Phase(model, CONDITIONS["post_hoc"], train, validation, settings).validate().eligible


def test_the_same_seed_gives_the_same_world(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    models = [make_model(), make_model()]
    for model in models:
        run(model, "space_phase", train, validation, settings)
    a, b = (w.state_dict() for w in models)
    assert all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("name", ["warm_start", "dynamics_phase"])
def test_a_saved_phase_continues_as_if_nothing_had_happened(
    name: str, train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    condition = CONDITIONS[name].with_(epochs=6)

    def phase(seed: int) -> Phase:
        generator = torch.Generator().manual_seed(seed)
        return Phase(make_model(), condition, train, validation, settings, generator)

    straight = phase(0)
    straight.run()
    first = phase(0)
    for _ in range(3):
        first.step()
    second = phase(99)
    second.load_state_dict(first.state_dict())
    second.run()
    a, b = straight.model.state_dict(), second.model.state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert straight.history == second.history


def test_patience_ends_a_phase_that_no_longer_improves(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    model = make_model()
    still = settings.with_(symbolic_rate=1e-12, weight_decay=0.0, patience=3)
    phase = run(model, "dynamics_phase", train, validation, still, epochs=50)
    assert phase.epoch < 15


def test_callbacks_see_every_epoch(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    steps: list[Step] = []
    every_other = settings.with_(validate_every=2)
    condition = CONDITIONS["dynamics_phase"].with_(epochs=5)
    phase = Phase(make_model(), condition, train, validation, every_other, on_step=steps.append)
    phase.run()
    assert [s.epoch for s in steps] == [1, 2, 3, 4, 5]
    assert [s.share for s in steps] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert [s.risk is not None for s in steps] == [False, True, False, True, True]
    assert [s.risk for s in steps if s.risk is not None] == [row["risk"] for row in phase.history]
    assert steps[-1].law is not None and steps[-1].law.startswith("z1' = ")


def spread_out(model: LatentModel, data: TrajectoryBatch) -> None:
    """Scale the encoder's last layer so that every coordinate has unit spread."""
    last = [m for m in model.encoder.modules() if isinstance(m, torch.nn.Linear)][-1]
    with torch.no_grad():
        z = model.encoder(data.x).flatten(0, 1)
        last.weight.div_(z.std(0)[:, None])
        last.bias.copy_((last.bias - z.mean(0)) / z.std(0))
    model.target.encoder.load_state_dict(model.encoder.state_dict())


def test_the_one_step_objective_collapses_a_spread_out_encoder_through_its_targets(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    """With the paper's stopped gradient it does not: what is small there was small before."""
    quick = settings.with_(encoder_rate=1e-2)
    spreads = {}
    for name in ("one_step_collapse", "one_step_attached"):
        model = make_model()
        model.symbolic = SparseLaw(LIBRARY, LIBRARY.inputs)
        spread_out(model, train)
        before = Phase(model, CONDITIONS[name], train, validation, quick).validate()
        after = run(model, name, train, validation, quick, epochs=40).validate()
        assert before.min_std > 0.8
        spreads[name] = after.min_std
    assert spreads["one_step_attached"] < 0.05 < 0.4 < spreads["one_step_collapse"]
    # The collapsed one looks best by its own objective, with no law at all.
    assert after.risk < 1e-3 * before.risk
    assert model.symbolic.law(settings.report).complexity("terms", LIBRARY) == 0.0


def test_a_condition_without_a_law_has_no_complexity(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    neural, symbolic = (
        Phase(make_model(), CONDITIONS[name], train, validation, settings).validate()
        for name in ("neural_jepa", "dynamics_phase")
    )
    assert neural.complexity == 0.0 < symbolic.complexity


def test_the_representation_term_spreads_embeddings_out(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    model, quick = make_model(), settings.with_(encoder_rate=1e-2)
    before = Phase(model, CONDITIONS["warm_start"], train, validation, quick).validate().min_std
    phase = run(model, "warm_start", train, validation, quick, epochs=40)
    assert phase.validate().min_std > 10 * before


def test_messages(train: TrajectoryBatch, validation: TrajectoryBatch) -> None:
    with pytest.raises(DataError, match="use horizon=24 or less"):
        Phase(make_model(), CONDITIONS["post_hoc"], train, validation, TrainingConfig(horizon=25))
    model = make_model()
    model.symbolic = None
    with pytest.raises(ConfigError, match="needs a symbolic part"):
        Phase(model, CONDITIONS["post_hoc"], train, validation, TrainingConfig(horizon=5))
    with pytest.raises(ConfigError, match="batching"):
        TrainingConfig(batching="rows")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="device is"):
        resolve_device("tpu")
    assert resolve_device("cpu") == torch.device("cpu")


def far_and_near(count: int = 12) -> tuple[TrajectoryBatch, LatentModel]:
    """A decay; the first trajectory is so far out that squares of it overflow in a few steps."""
    t = torch.arange(8) * 0.1
    start = torch.linspace(0.2, 1.0, count)
    start[0] = 1e4
    x = start[:, None] * torch.exp(-t)
    data = TrajectoryBatch.make(Trajectories([one[:, None].numpy() for one in x], t.numpy()))
    library = Library.from_terms(["z1", "z1**2"], inputs=["z1"])
    law = SparseLaw(library, ("z1",))
    with torch.no_grad():
        law.coefficients.copy_(torch.tensor([[-0.5], [1.0]]))
    return data, LatentModel(make_encoder("identity", 1, 1), symbolic=law)


def test_an_overflowing_rollout_does_not_ruin_the_other_batches() -> None:
    data, model = far_and_near()
    near = TrajectoryBatch(data.x[1:], data.dt[1:], data.u, data.mask[1:])
    condition = CONDITIONS["dynamics_phase"].with_(epochs=40, symbolic=0.0)
    settings = TrainingConfig(horizon=4, batch=4, validate_every=5, symbolic_rate=0.05)
    phase = Phase(model, condition, data, near, settings)
    before = phase.validate().risk
    assert phase.run().risk < 0.05 * before
    # Windows from the far trajectory are in some batch of every epoch, and were left out.
    assert 40 <= phase.skipped < 40 * 12
    other = Phase(model, condition, data, near, settings)
    other.load_state_dict(phase.state_dict())
    assert other.skipped == phase.skipped
    old = {k: v for k, v in phase.state_dict().items() if k not in ("skipped", "multiplier")}
    other.load_state_dict(old)  # runs of the first release do not know of them
    assert other.skipped == 0 and other.objective.multiplier == 1.0


def test_training_that_only_overflows_is_an_error_that_says_what_to_do() -> None:
    data, model = far_and_near(count=1)
    condition = CONDITIONS["dynamics_phase"].with_(epochs=20)
    with pytest.raises(
        TrainingDiverged, match=r"dynamics phase diverged in epoch 1: .*warm_epochs"
    ):
        Phase(model, condition, data, data, TrainingConfig(horizon=4)).run()


def test_training_that_overflows_later_keeps_what_it_had(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    model = make_model()
    condition = CONDITIONS["dynamics_phase"].with_(epochs=9)
    phase = Phase(model, condition, train, validation, settings)

    def overflow(step: Step) -> None:
        if step.epoch == 3:
            with torch.no_grad():
                model.symbolic.coefficients.fill_(1e30)  # type: ignore[union-attr]

    phase.on_step = overflow
    with pytest.warns(NumericalWarning, match="diverged in epoch 4: .* epoch [123] is kept"):
        record = phase.run()
    assert math.isfinite(record.risk)
    assert phase.validate().risk == pytest.approx(record.risk, rel=1e-6)


def test_validation_is_repeatable_with_dropout_and_noise(
    train: TrajectoryBatch, validation: TrajectoryBatch, settings: TrainingConfig
) -> None:
    model = make_model()
    model.encoder = torch.nn.Sequential(model.encoder, torch.nn.Dropout(0.5))
    noisy = settings.with_(latent_noise=0.5)
    phase = Phase(model, CONDITIONS["warm_start"], train, validation, noisy)
    records = []
    for _ in range(2):
        model.train()
        records.append(phase.validate())
    assert records[0] == records[1]
