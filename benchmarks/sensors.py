"""Laws and coordinates through curved sensors, and whether a wrong answer is said to be one.

``python benchmarks/sensors.py --systems pendulum duffing --sensors tanh6 camera --seeds 10 11``
prints a row a run and the shares asked for in the end. ``--compare`` adds the linear search alone,
and PySINDy on principal components and on the latents of an autoencoder. With ``--out FILE`` a
table that was cut off goes on where it ended.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import torch
from sensors_data import SAMPLING, SENSORS, observed
from sensors_judge import not_longer, same_structure, shifted_r2, state_r2
from torch import nn

from sjepa import SJEPA, Joint
from sjepa.data import Trajectories
from sjepa.data.synthetic.systems import SYSTEMS
from sjepa.metrics import AffineMap, r2


def run(system: str, kind: str, seed: int, linear_only: bool = False) -> dict[str, Any]:
    train, test = observed(system, kind, seed)
    dim = len(SYSTEMS[system].inputs)
    start = process_time()
    model = SJEPA(dim, search=Joint(grow=not linear_only), random_state=seed).fit(train)
    cpu = process_time() - start
    rivals = [r.law for r in model.rivals_]
    adequate = model.figures_["adequate"] > 0
    right = same_structure(model.law_, system)
    # An adequate law that is no longer than the true one cannot be told from it by these data.
    rival = adequate and not right and not_longer(model.law_, system)
    return {
        "system": system, "sensor": kind, "seed": seed, "right": right, "rival": rival,
        "named": right or any(same_structure(law, system) for law in rivals),
        "r2": state_r2(model, train, test), "shifted_r2": shifted_r2(model, test),
        "adequate": adequate,
        **{k: model.figures_[k] for k in ("noise_floor", "residual", "ratio")},
        "cpu": cpu, "law": "; ".join(model.law_.lines(digits=3)),
        "rivals": " | ".join("; ".join(law.lines(digits=2)) for law in rivals[:3]),
    }  # fmt: skip


def pysindy_on(name: str, z: list[np.ndarray], train: Trajectories) -> dict[str, Any]:
    """PySINDy's defaults with cubic terms: terms, R2 of the velocities, R2 of the states."""
    import pysindy

    model = pysindy.SINDy(feature_library=pysindy.PolynomialLibrary(3))
    model.fit(z, list(train.t))
    rows, states = (torch.as_tensor(np.concatenate(a)) for a in (z, train.state))
    aligned = np.asarray(AffineMap.fit(rows, states)(rows))
    scores = [float(r2(aligned[:, [i]], states.numpy()[:, [i]])) for i in range(states.shape[1])]
    return {
        f"{name}_terms": int(np.count_nonzero(model.coefficients())),
        f"{name}_score": float(model.score(z, list(train.t))),
        f"{name}_r2": min(scores),
    }


def components(train: Trajectories, dim: int) -> list[np.ndarray]:
    """The leading principal components, of unit variance."""
    rows = np.concatenate(train.x)
    mean = rows.mean(0)
    basis = np.linalg.svd(rows - mean, full_matrices=False)[2]
    scale = ((rows - mean) @ basis[:dim].T).std(0)
    return [(x - mean) @ basis[:dim].T / scale for x in train.x]


def autoencoded(train: Trajectories, dim: int, seed: int, steps: int = 3000) -> list[np.ndarray]:
    """Latents of an autoencoder (two layers of 64 SiLU units each way), of unit variance."""
    torch.manual_seed(seed)
    rows = np.concatenate(train.x)
    mean, scale = rows.mean(0), rows.std(0)
    x = torch.tensor((rows - mean) / scale, dtype=torch.float32)

    def network(first: int, last: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(first, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, last)
        )

    encode, decode = network(x.shape[1], dim), network(dim, x.shape[1])
    parameters = [*encode.parameters(), *decode.parameters()]
    optimizer = torch.optim.Adam(parameters, 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        batch = x[torch.randint(len(x), (512,))]
        optimizer.zero_grad()
        (decode(encode(batch)) - batch).square().mean().backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        z = encode(x).double().numpy()
    z = (z - z.mean(0)) / z.std(0)
    return np.split(z, np.cumsum([len(states) for states in train.x])[:-1])


def compared(system: str, kind: str, seed: int) -> dict[str, Any]:
    """The linear search alone, and PySINDy on other coordinates of the same data."""
    alone = run(system, kind, seed, linear_only=True)
    row = {f"linear_{k}": alone[k] for k in ("right", "r2", "adequate", "cpu")}
    train, _ = observed(system, kind, seed)
    dim = len(SYSTEMS[system].inputs)
    row |= pysindy_on("components", components(train, dim), train)
    return row | pysindy_on("autoencoder", autoencoded(train, dim, seed), train)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", default=list(SAMPLING), choices=list(SAMPLING))
    parser.add_argument("--sensors", nargs="+", default=list(SENSORS), choices=list(SENSORS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--compare", action="store_true")
    parser.add_argument(
        "--out", help="a CSV file that is written after every run and read at first"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    if options.out and Path(options.out).exists():
        rows = pd.read_csv(options.out).to_dict("records")
    known = {(row["system"], row["sensor"], row["seed"]): row for row in rows}
    for system in options.systems:
        for kind in options.sensors:
            for seed in options.seeds:
                row = known.get((system, kind, seed))
                old = row is not None
                if row is None:
                    row = run(system, kind, seed)
                    rows.append(row)
                if options.compare and not pd.notna(row.get("autoencoder_r2")):
                    row.update(compared(system, kind, seed))
                elif old:
                    continue
                print(", ".join(f"{k} {_text(v)}" for k, v in row.items()), flush=True)
                if options.out:
                    pd.DataFrame(rows).to_csv(options.out, index=False)
    summarize(pd.DataFrame(rows))


def summarize(table: pd.DataFrame) -> None:
    good = table["right"] | table["rival"]
    wrong, right = table[~good], table[good]
    print(f"\nright or rival: {int(good.sum())} of {len(table)}")
    print(f"right: {int(table['right'].sum())}")
    named = table["named"].fillna(table["right"]).astype(bool)
    print(f"the true law is the answer or among its rivals: {int(named.sum())}")
    print(f"of these, R2 at least 0.99: {int((right['r2'] >= 0.99).sum())} of {len(right)}")
    print(f"up to a shift in time: {int((right['shifted_r2'] >= 0.99).sum())} of {len(right)}")
    print(f"wrong and said not to be adequate: {int((~wrong['adequate']).sum())} of {len(wrong)}")
    print(f"right and said not to be adequate: {int((~right['adequate']).sum())} of {len(right)}")
    print(f"median CPU seconds: {table['cpu'].median():.0f}")


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
