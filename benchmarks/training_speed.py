"""One epoch of every phase: ours against the literal windows of ``literal_windows.py``.

Both run on the same data in the same process, alternately, and the fastest of a few repetitions
counts. Before timing, both evaluate the same model without training it, and the prediction and
rollout terms must agree within four standard errors.

    python -m benchmarks.training_speed --threads 1 --repeats 5
"""

from __future__ import annotations

import argparse
from time import perf_counter

import torch

from benchmarks.literal_windows import literal_epoch, window_batches, window_loss
from benchmarks.paper.conditions import EXPERIMENT_1
from benchmarks.paper.exp1 import LIBRARY
from sjepa.data import TrajectoryBatch, paper_data
from sjepa.models import NeuralField, SparseLaw, make_encoder
from sjepa.training.alternating import Condition, LatentModel, Phase, TrainingConfig
from sjepa.training.alternating.objective import Objective
from sjepa.training.alternating.phase import only_trained
from sjepa.training.alternating.sampling import TrainingData, epoch_of


PHASES = (
    "warm_start",
    "neural_jepa",
    "space_phase",
    "one_step_collapse",
    "dynamics_phase",
    "post_hoc",
)
# An epoch of whole trajectories: every observation once per encoder, rollouts that tile the
# trajectories from a random offset, eleven updates.
TILES = TrainingConfig(batching="trajectories")
# The same with a rollout from every time, ten updates: all windows of the literal epoch.
DENSE = TrainingConfig(batching="trajectories", stride=1, batch=2730)
GOAL = {True: 6.0, False: 20.0}


def make_model(seed: int = 0) -> LatentModel:
    torch.manual_seed(seed)
    law = SparseLaw(LIBRARY, ("z1", "z2"))
    with torch.no_grad():
        law.coefficients.copy_(0.2 * torch.randn_like(law.coefficients))
    return LatentModel(make_encoder("mlp", 32, 2), neural=NeuralField(2), symbolic=law)


def check_expectation(condition: Condition, data: TrajectoryBatch, settings: TrainingConfig) -> str:
    """Mean terms of both implementations on one untrained model."""
    model, generator = make_model(), torch.Generator().manual_seed(0)
    objective = Objective(model, condition, settings)
    source = TrainingData.of(data)
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    with torch.no_grad():
        passes = 1 if settings.batching == "windows" else 10
        for _ in range(passes):
            for chunk in epoch_of(source, settings, generator):
                terms = objective(chunk, generator)
                ours.append([float(terms.prediction), float(terms.rollout or 0.0)])
        literal = TrainingConfig()
        for x, dt in window_batches(data, literal, generator):
            literal_loss = window_loss(model, condition, literal, x, dt, generator)
            theirs.append(
                [float(literal_loss["prediction"]), float(literal_loss.get("rollout", 0.0))]
            )
    a, b = torch.tensor(ours, dtype=torch.float64), torch.tensor(theirs, dtype=torch.float64)
    error = (a.var(0) / len(a) + b.var(0) / len(b)).sqrt()
    off = ((a.mean(0) - b.mean(0)).abs() / error.clamp(min=1e-12)).max()
    assert off < 4.0, (condition.name, a.mean(0), b.mean(0), error)
    return f"{float(off):.1f} s.e."


def time_phase(name: str, data: TrajectoryBatch, repeats: int) -> list[float]:
    """Fastest epoch in seconds: literal, tiles, dense."""
    condition = EXPERIMENT_1[name]
    literal = make_model()
    parameters = {part: list(literal.part(part).parameters()) for part in condition.trains}
    optimizer = torch.optim.AdamW(
        [{"params": p} for p in parameters.values()], lr=5e-4, weight_decay=1e-5, fused=True
    )
    phases = [Phase(make_model(), condition, data, data, s) for s in (TILES, DENSE)]
    best = [float("inf")] * 3
    generator = torch.Generator().manual_seed(0)
    for _ in range(repeats):
        with only_trained(literal, parameters):
            start = perf_counter()
            literal_epoch(literal, condition, data, TrainingConfig(), optimizer, generator)
            best[0] = min(best[0], perf_counter() - start)
        for i, phase in enumerate(phases, start=1):
            with only_trained(phase.model, phase.parameters):
                start = perf_counter()
                phase._train_epoch()
                best[i] = min(best[i], perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = TrajectoryBatch.make(paper_data("exp1")["train"])
    print("| phase | encoder | literal (s) | ours (s) | factor | goal | every window | losses |")
    print("|---|---|---|---|---|---|---|---|")
    for name in PHASES:
        condition = EXPERIMENT_1[name]
        moves = condition.updates_encoder
        agreement = check_expectation(condition, data, TILES)
        literal, tiles, dense = time_phase(name, data, options.repeats)
        print(
            f"| {name} | {'trained' if moves else 'frozen'} | {literal:.3f} | {tiles:.4f} "
            f"| {literal / tiles:.1f} | {GOAL[moves]:.0f} | {literal / dense:.1f} | {agreement} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
