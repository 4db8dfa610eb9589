"""Whole trajectories in parallel against windows one by one."""

from __future__ import annotations

import pytest
import torch

from benchmarks.literal_windows import window_loss
from benchmarks.paper.conditions import CONDITIONS
from sjepa.data import TrajectoryBatch
from sjepa.errors import ConfigError
from sjepa.models import NeuralField, make_encoder
from sjepa.training.alternating import LatentModel, TrainingConfig
from sjepa.training.alternating.objective import Objective
from sjepa.training.alternating.sampling import TrainingData, epoch_of
from sjepa.training.losses import REPRESENTATION_TERMS

from .conftest import make_model


NAMES = list(CONDITIONS)


def enlarge(model: LatentModel, factor: float) -> None:
    """Latents of both encoders, `factor` times as large."""
    with torch.no_grad():
        for encoder in (model.encoder, model.target.encoder):
            last = [m for m in encoder.modules() if isinstance(m, torch.nn.Linear)][-1]
            last.weight.mul_(factor)
            last.bias.mul_(factor)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_starts_give_the_same_terms(name: str, train: TrajectoryBatch) -> None:
    condition, settings, model = CONDITIONS[name], TrainingConfig(horizon=5), make_model()
    offset, stride = 1, 3
    source = TrainingData.of(train)
    ours = Objective(model, condition, settings)(
        source.chunk(slice(0, 4), offset, stride), torch.Generator().manual_seed(0)
    )
    starts = range(offset, train.x.shape[1] - 5, stride)
    x = torch.stack([train.x[:4, s : s + 6] for s in starts], dim=1).flatten(0, 1)
    dt = torch.stack([train.dt[:4, s : s + 5] for s in starts], dim=1).flatten(0, 1)
    literal = window_loss(model, condition, settings, x, dt, torch.Generator().manual_seed(0))
    for term, value in literal.items():
        torch.testing.assert_close(getattr(ours, term), value, rtol=1e-4, atol=1e-7)
    total = sum(getattr(condition, term) * value for term, value in literal.items())
    torch.testing.assert_close(ours.total, total, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("batching", ["windows", "trajectories"])
def test_both_ways_of_batching_have_the_expectation_of_all_windows(
    batching: str, train: TrajectoryBatch
) -> None:
    condition, model = CONDITIONS["dynamics_phase"], make_model()
    settings = TrainingConfig(horizon=5, batch=32, batching=batching)  # type: ignore[arg-type]
    everything = Objective(model, condition, settings)(
        TrainingData.of(train).chunk(slice(None), 0, 1)
    )
    generator = torch.Generator().manual_seed(0)
    rows = []
    with torch.no_grad():
        for _ in range(1 if batching == "windows" else 60):
            for chunk in epoch_of(TrainingData.of(train), settings, generator):
                terms = Objective(model, condition, settings)(chunk)
                count = terms.z.shape[0] * terms.z.shape[1]
                assert terms.rollout is not None
                rows.append((count, float(terms.prediction), float(terms.rollout)))
    count, *values = torch.tensor(rows, dtype=torch.float64).T
    assert everything.rollout is not None
    for value, full in zip(values, (everything.prediction, everything.rollout), strict=True):
        mean = float((count * value).sum() / count.sum())
        # Windows: every one exactly once, so only rounding is left. Tiles: random offsets, which
        # weigh the first and last starts of a trajectory a little less than the others.
        assert mean == pytest.approx(full.item(), rel=1e-5 if batching == "windows" else 0.03)


def test_windows_that_reach_into_padding_do_not_count() -> None:
    from .conftest import oscillator

    full = oscillator(6)
    mask = full.mask.clone()
    mask[3:, 15:] = False
    x = full.x.clone()
    x[3:, 15:] = 1e3  # would be noticed
    padded = TrajectoryBatch(x, full.dt, None, mask)
    model, settings = make_model(), TrainingConfig(horizon=5)
    objective = Objective(model, CONDITIONS["dynamics_phase"], settings)
    found = objective(TrainingData.of(padded).chunk(slice(None), 0, 1))
    long = objective(TrainingData.of(full).chunk(slice(0, 3), 0, 1))
    short = objective(
        TrainingData.of(
            TrajectoryBatch(full.x[3:, :15], full.dt[3:, :14], None, mask[3:, :15])
        ).chunk(slice(None), 0, 1)
    )
    n_long, n_short = 3 * 20, 3 * 10
    expected = (n_long * long.prediction + n_short * short.prediction) / (n_long + n_short)
    torch.testing.assert_close(found.prediction, expected)
    chunks = list(epoch_of(TrainingData.of(padded), settings, torch.Generator().manual_seed(0)))
    assert sum(len(c.context) for c in chunks) == n_long + n_short


# What each representation term needs besides the defaults of a run.
EXTRA: dict[str, dict[str, object]] = {"variational": {"stochastic": True}}


@pytest.mark.parametrize("name", list(REPRESENTATION_TERMS))
def test_every_representation_term_trains_by_name_on_padded_data(name: str) -> None:
    from .conftest import oscillator

    full = oscillator(6)
    mask = full.mask.clone()
    mask[3:, 15:] = False
    data = TrajectoryBatch(torch.where(mask[..., None], full.x, 1e3), full.dt, None, mask)
    torch.manual_seed(0)
    encoder = make_encoder("mlp", 6, 2, width=16, **EXTRA.get(name, {}))
    model = LatentModel(encoder, neural=NeuralField(2, width=16))
    settings = TrainingConfig(
        horizon=5, batch=64, batching="trajectories", stride=2,
        representation={name: 1.0, "variance": 1.0},
    )  # fmt: skip
    terms = Objective(model, CONDITIONS["warm_start"], settings)(
        TrainingData.of(data).chunk(slice(None), 0, 2), torch.Generator().manual_seed(0)
    )
    assert terms.representation is not None and terms.representation.isfinite()
    # Padding would show: its latents are hundreds away from all others.
    assert terms.representation.item() < 20.0
    terms.total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())


@pytest.mark.parametrize("name", [*REPRESENTATION_TERMS, "scale_free"])
def test_padded_data_give_the_terms_of_cut_data(name: str) -> None:
    from .conftest import oscillator

    full = oscillator(6)
    inside = full.mask & (torch.arange(25) < 15)
    padded = TrajectoryBatch(torch.where(inside[..., None], full.x, 1e3), full.dt, None, inside)
    cut = TrajectoryBatch(full.x[:, :15], full.dt[:, :14], None, full.mask[:, :15])
    torch.manual_seed(0)
    encoder = make_encoder("mlp", 6, 2, width=16, **EXTRA.get(name, {}))
    model = LatentModel(encoder, neural=NeuralField(2, width=16)).eval()
    settings = TrainingConfig(
        horizon=5, batching="trajectories", scale_free=name == "scale_free", augmentation=0.0,
        representation={"variance" if name == "scale_free" else name: 1.0},
    )  # fmt: skip
    objective = Objective(model, CONDITIONS["warm_start"], settings)
    found, expected = (
        objective(TrainingData.of(data).chunk(slice(None), 0, 2), torch.Generator().manual_seed(0))
        for data in (padded, cut)
    )
    for term in ("prediction", "rollout", "representation", "total"):
        torch.testing.assert_close(getattr(found, term), getattr(expected, term))


def test_predictive_information_compares_the_next_state_with_its_prediction(
    train: TrajectoryBatch,
) -> None:
    model, weights = make_model(), {"predictive_information": 1.0}
    enlarge(model, 30.0)  # untrained latents are too close together to tell one from another
    settings = TrainingConfig(horizon=5, representation=weights)
    chunk = TrainingData.of(train).chunk(slice(0, 4), 0, 5)
    found = Objective(model, CONDITIONS["warm_start"], settings)(chunk).representation
    starts = torch.arange(0, 20, 5)
    with torch.no_grad():
        z, after = model.encoder(train.x[:4, starts]), model.target(train.x[:4, starts + 1])
        assert model.neural is not None
        ahead = z + train.dt[:4, starts, None] * model.neural(z)  # one Euler step
        # Each of 16 targets picks its own prediction among all by squared distance.
        gaps = (after.reshape(-1, 1, 2) - ahead.reshape(1, -1, 2)).square().sum(-1)
        expected = -torch.log_softmax(-gaps / 2 / (0.1 * 2), dim=1).diagonal().mean()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_terms_that_lack_what_they_need_are_refused_before_training() -> None:
    model, warm = make_model(), CONDITIONS["warm_start"]
    with pytest.raises(ConfigError, match="stochastic encoder"):
        Objective(model, warm, TrainingConfig(representation={"variational": 1.0}))
    with pytest.raises(ConfigError, match="batching='trajectories'"):
        Objective(model, warm, TrainingConfig(representation={"within_trajectory": 1.0}))


def test_latent_noise_acts_in_training_alone(train: TrajectoryBatch) -> None:
    model, condition = make_model(), CONDITIONS["dynamics_phase"]
    chunk = TrainingData.of(train).chunk(slice(0, 4), 0, 5)
    quiet, noisy = TrainingConfig(horizon=5), TrainingConfig(horizon=5, latent_noise=0.5)

    def prediction(settings: TrainingConfig) -> float:
        generator = torch.Generator().manual_seed(0)
        losses = Objective(model, condition, settings)(chunk, generator)
        return float(losses.prediction.detach())

    model.train()
    # The noise starts each rollout elsewhere: about 0.5² is added to every squared error.
    assert prediction(noisy) == pytest.approx(prediction(quiet) + 0.25, rel=0.5)
    model.eval()
    assert prediction(noisy) == prediction(quiet)


def test_scale_free_distances_do_not_change_when_latents_are_rescaled(
    train: TrajectoryBatch,
) -> None:
    """With an identity transition only the scale of the encoder is left to matter."""
    model = make_model()
    assert model.symbolic is not None
    model.symbolic.threshold_(1e9)  # no law: the identity
    chunk = TrainingData.of(train).chunk(slice(0, 4), 0, 5)
    settings = TrainingConfig(horizon=5, scale_free=True)
    objective = Objective(model, CONDITIONS["dynamics_phase"], settings)

    enlarge(
        model, 30.0
    )  # an untrained encoder spreads so little that the floor of the variance counts
    before = objective(chunk)
    enlarge(model, 7.0)
    after = objective(chunk)
    torch.testing.assert_close(after.prediction, before.prediction, rtol=1e-4, atol=0.0)
    torch.testing.assert_close(after.rollout, before.rollout, rtol=1e-4, atol=0.0)


def test_rollout_weights_pick_the_steps_that_count(train: TrajectoryBatch) -> None:
    model, condition = make_model(), CONDITIONS["dynamics_phase"]
    chunk = TrainingData.of(train).chunk(slice(0, 4), 0, 5)
    first = TrainingConfig(horizon=5, rollout_weights=(1.0, 0.0, 0.0, 0.0, 0.0))
    terms = Objective(model, condition, first)(chunk)
    torch.testing.assert_close(terms.rollout, terms.prediction)
    with pytest.raises(ConfigError, match="each of the 5 steps"):
        TrainingConfig(horizon=5, rollout_weights=(1.0,))
