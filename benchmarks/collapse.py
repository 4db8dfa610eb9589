"""Under which reading does the paper's one-step objective collapse a representation?

Each row starts from one of three encoders (untrained; untrained and scaled to unit spread; warm, by
the paper's warm start in short), minimizes L_pred + λ_s Ω_train and nothing else, and is printed
with its smallest standard deviation before and after. The loop is written down literally, beside
the product's own, so that a target can also be differentiated through.

python benchmarks/collapse.py [--only NAME ...] [--seed 7] [--epochs 100]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, fields
from pathlib import Path
from time import process_time

import torch
from torch import Tensor, nn

from benchmarks.paper.conditions import EXPERIMENT_1
from sjepa.backend.registry import make_backend
from sjepa.data import TrajectoryBatch, paper_data
from sjepa.metrics import latent_spread
from sjepa.models import EMATarget, NeuralField, SparseLaw, make_encoder
from sjepa.symbolic import Library
from sjepa.training.alternating import (
    LatentModel,
    Phase,
    StructurePolicy,
    TrainingConfig,
    as_part,
    latent_rows,
    propose,
)


LIBRARY = Library.paper(["z1", "z2"])
LAMBDA_S, RATE, BATCH = 2.5e-4, 0.35 * 5e-4, 256


@dataclass(frozen=True)
class Reading:
    """One way to read the condition; the defaults are the paper's text."""

    start: str = "warm"  # untrained, spread, warm
    law: str = "zero"  # zero: zero first, then trained; fixed: zero for good; stlsq: fitted first
    target: str = "ema"  # ema; context: the encoder itself, no gradient; attached: with gradient
    rate: float = 1.0  # times the paper's
    epochs: float = 1.0  # times the paper's 100
    weight_decay: float = 1e-5
    noise: float = 0.0  # of the augmentation, on both ends


READINGS: dict[str, Reading] = {
    "untrained": Reading(start="untrained"),
    "untrained, attached": Reading(start="untrained", target="attached"),
    "spread": Reading(start="spread"),
    "spread, attached": Reading(start="spread", target="attached"),
    "warm": Reading(),
    "warm, law fixed at zero": Reading(law="fixed"),
    "warm, fitted law": Reading(law="stlsq"),
    "warm, own targets": Reading(target="context"),
    "warm, own targets, law fixed": Reading(target="context", law="fixed"),
    "warm, attached": Reading(target="attached"),
    "warm, attached, law fixed": Reading(target="attached", law="fixed"),
    "warm, attached, fitted law": Reading(target="attached", law="stlsq"),
    "warm, rate x 10": Reading(rate=10.0),
    "warm, rate x 10, law fixed": Reading(rate=10.0, law="fixed"),
    "warm, weight decay 0.1": Reading(weight_decay=0.1),
    "warm, weight decay 10": Reading(weight_decay=10.0),
    "warm, epochs x 3": Reading(epochs=3.0),
    "warm, augmented": Reading(noise=0.012),
}


def start_of(reading: Reading, data: TrajectoryBatch, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    encoder = make_encoder("mlp", 32, 2)
    if reading.start == "warm":
        model = LatentModel(encoder, neural=NeuralField(2))
        condition = EXPERIMENT_1["warm_start"].with_(epochs=30)
        settings = TrainingConfig(batching="trajectories", passes=3, patience=10)
        Phase(model, condition, data, data, settings, torch.Generator().manual_seed(seed)).run()
    elif reading.start == "spread":
        last = [m for m in encoder.modules() if isinstance(m, nn.Linear)][-1]
        with torch.no_grad():
            z = encoder(data.x).flatten(0, 1)
            last.weight.div_(z.std(0)[:, None])
            last.bias.copy_((last.bias - z.mean(0)) / z.std(0))
    return encoder


def law_of(reading: Reading, encoder: nn.Module, data: TrajectoryBatch) -> SparseLaw:
    if reading.law == "stlsq":
        backend = make_backend({"name": "stlsq", "threshold": 0.035, "ridge": 1e-5})
        with torch.no_grad():
            rows = latent_rows(encoder(data.x), data.dt)
        law = propose(backend, *rows, LIBRARY).law
        part = as_part(law, LIBRARY, StructurePolicy.of(backend))
        assert isinstance(part, SparseLaw)
        return part
    return SparseLaw(LIBRARY, LIBRARY.inputs)


def run(reading: Reading, data: TrajectoryBatch, seed: int, epochs: int) -> dict[str, float]:
    encoder = start_of(reading, data, seed)
    law, target = law_of(reading, encoder, data), EMATarget(encoder)
    before = latent_spread(encoder(data.x).detach().flatten(0, 1))
    groups = [{"params": list(encoder.parameters()), "lr": RATE * reading.rate}]
    if reading.law != "fixed":
        groups.append({"params": list(law.parameters()), "lr": 2e-3})
    optimizer = torch.optim.AdamW(groups, weight_decay=reading.weight_decay)
    x0, x1 = data.x[:, :-1].flatten(0, 1), data.x[:, 1:].flatten(0, 1)
    dt = data.dt.flatten()[:, None]
    generator = torch.Generator().manual_seed(seed)

    def seen(x: Tensor) -> Tensor:
        if not reading.noise:
            return x
        return x + reading.noise * torch.randn(x.shape, generator=generator)

    begin = process_time()
    for _ in range(round(epochs * reading.epochs)):
        for rows in torch.randperm(len(x0), generator=generator).split(BATCH):
            z = encoder(seen(x0[rows]))
            if reading.target == "attached":
                goal = encoder(seen(x1[rows]))
            elif reading.target == "context":
                goal = encoder(seen(x1[rows])).detach()
            else:
                goal = target(seen(x1[rows]))
            loss = (z + dt[rows] * law(z) - goal).square().mean() + LAMBDA_S * law.complexity()
            optimizer.zero_grad()
            loss.backward()
            flat = [p for group in groups for p in group["params"]]
            nn.utils.clip_grad_norm_(flat, 3.0)
            optimizer.step()
            target.update(encoder)
    with torch.no_grad():
        z, goal = encoder(data.x), target(data.x)
        ahead = z[:, :-1] + data.dt[..., None] * law(z[:, :-1])
        mse = float((ahead - goal[:, 1:]).square().mean())
    after = latent_spread(z.flatten(0, 1))
    active = law.active().detach().abs() >= 0.05
    return {
        "before": before.min_std, "after": after.min_std, "trace": after.covariance_trace,
        "latent_mse": mse, "omega": float((law.weights[:, None] * active).sum()),
        "cpu": process_time() - begin,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(READINGS))
    parser.add_argument("--seed", type=int, nargs="*", default=[7])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--trajectories", type=int, default=300)
    parser.add_argument("--out", type=Path, help="One JSON line a row, appended.")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = TrajectoryBatch.make(paper_data("exp1")["train"][: args.trajectories])
    print(f"{'reading':32} seed  before   after    trace  latent MSE  omega  CPU s")
    for name in args.only or READINGS:
        for seed in args.seed:
            r = run(READINGS[name], data, seed, args.epochs)
            print(
                f"{name:32} {seed:4d} {r['before']:7.4f} {r['after']:7.4f} {r['trace']:8.2g} "
                f"{r['latent_mse']:11.2e} {r['omega']:6g} {r['cpu']:6.0f}",
                flush=True,
            )
            if args.out is not None:
                settings = {f.name: getattr(READINGS[name], f.name) for f in fields(Reading)}
                with args.out.open("a") as file:
                    file.write(json.dumps({"reading": name, "seed": seed, **settings, **r}) + "\n")


if __name__ == "__main__":
    main()
