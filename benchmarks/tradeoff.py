"""The alternating search under other weights, constraints and backends, on both experiments.

    python -m benchmarks.tradeoff exp2 --out DIR          # also exp1; writes surface.csv and .png
    python -m benchmarks.tradeoff constrained --out DIR   # L_pred held at δ beside L_pred weighted
    python -m benchmarks.tradeoff backends --out DIR      # who proposes laws in Experiment 1

Reduced: some of the training trajectories and short phases (see SIZES); one seed, for `backends`
three. Points that are finished are in DIR and are not run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.surface import plot_surface, sweep
from sjepa import SJEPA, Alternating, Library, Trajectories
from sjepa.data import paper_data
from sjepa.metrics import AffineMap, rollout_score, segment_errors


# Trajectories, and the options of the search.
SIZES: Mapping[str, tuple[int, dict[str, Any]]] = {
    "exp1": (
        60,
        {"batching": "trajectories", "passes": 5, "cycles": 2, "warm_epochs": 80,
         "dynamics_epochs": 30, "space_epochs": 40, "symbolic_rate": 5e-3, "refit": False},
    ),
    "exp2": (
        40,
        {"batching": "trajectories", "passes": 5, "dynamics_epochs": 150, "symbolic_rate": 5e-3,
         "neural_rate": 2e-3},
    ),
}  # fmt: skip
# What Experiment 2 allows without the drag, and with distractors and the drag.
INCOMPLETE = Library.from_terms(
    ["p", "sin(q)"], ["q", "p"], mask=np.array([[1, 0], [0, 1]], dtype=bool)
)
OPEN = Library.from_terms(["1", "q", "p", "sin(q)", "p*abs(p)", "q**2", "p**2"], ["q", "p"])
WEIGHTS = (1.5e-5, 1.5e-4, 1.5e-3)


def data_of(name: str) -> Trajectories:
    part = paper_data(name)["train"][: SIZES[name][0]]
    if name == "exp1":
        return Trajectories(part.x, part.t)
    return Trajectories(part.x, part.t, names=["q", "p"])


def surface(name: str, out: Path, seed: int) -> None:
    begin = process_time()
    settings: dict[str, Any] = {}
    weights: dict[str, Sequence[float]]
    weights = {"lambda_s": WEIGHTS, "lambda_c": (0, 1.5e-3, 1.5e-2, 0.15)}
    if name == "exp2":
        settings |= {"encoder": "identity", "library": INCOMPLETE}
    else:
        weights = {"lambda_s": (2.5e-5, 2.5e-4, 2.5e-3), "lambda_c": (2e-2, 2e-1)}
    table = sweep(
        data_of(name), out=out, seed=seed,
        search=Alternating(**SIZES[name][1], integrator="euler"), **weights, **settings,
        progress=lambda line, _: print(f"{line}  {process_time() - begin:.0f} CPU s", flush=True),
    )  # fmt: skip
    plot_surface(table).savefig(out / "surface.png", dpi=110)
    print(table.to_string(float_format="%.3g"))


def constrained(out: Path, seed: int) -> None:
    """λ_s in four strengths, then the strongest with δ in four sizes: held-out errors and laws."""
    train, held_out = data_of("exp2").split((0.75, 0.25), seed=seed)
    rows = []
    plan: list[tuple[str, float, Callable[[float], dict[str, Any]]]] = [
        *(("λ_s", v, lambda v: {"lambda_s": v}) for v in (*WEIGHTS, 1.5e-2)),
        *(("δ", v, lambda v: {"delta": v}) for v in (2e-6, 1e-5, 5e-5, 2e-4)),
    ]
    for what, value, options in plan:
        begin, settings = process_time(), options(value)
        search = Alternating(
            **SIZES["exp2"][1], integrator="euler", lambda_s=settings.pop("lambda_s", 1.5e-2)
        )
        model = SJEPA(
            search=search, encoder="identity", library=OPEN, random_state=seed, verbose=False,
            **settings,
        ).fit(train)  # fmt: skip
        with torch.no_grad():
            errors = segment_errors(model.transition_, held_out)
        rows.append({
            "held": f"{what} = {value:g}", "l_pred": float(errors[:, 0].mean()),
            "l_roll": float(errors.mean()), "size": float(np.abs(model.law_.coefficients).sum()),
            "omega": model.law_.complexity("terms"),
            "law": "; ".join(model.law_.lines(digits=3)), "cpu": process_time() - begin,
        })  # fmt: skip
        print(rows[-1], flush=True)
    out.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(out / "constrained.csv", index=False)


def backends(out: Path, seed: int) -> None:
    """What `SJEPA(search="alternating", backend=...)` gives a user, judged as in Experiment 1."""
    data, path = data_of("exp1"), out / "backends.csv"
    states = paper_data("exp1")
    options = {k: v for k, v in SIZES["exp1"][1].items() if k != "refit"}
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []
    out.mkdir(parents=True, exist_ok=True)
    for s in range(seed, seed + 3):
        for backend in ("stlsq", "subset", "pysindy", "operon"):
            if any(r["backend"] == backend and r["seed"] == s for r in rows):
                continue
            begin = process_time()
            model = SJEPA(
                search=Alternating(**options), backend=backend, random_state=s, verbose=False
            ).fit(data)
            z = np.stack([model.encode(x) for x in data.x])
            align = AffineMap.fit(z, np.stack(states["train"].state[: len(data)]))
            row = {"backend": backend, "seed": s, "omega": model.law_.complexity("terms")}
            for split in ("test", "ood"):
                part = states[split][:60]
                first = torch.as_tensor(np.stack([model.encode(x)[0] for x in part.x]))
                dt = torch.as_tensor(np.stack(part.steps)[:, :80])
                run = model.transition_.rollout(first, dt)
                score = rollout_score(run[:, 1:], np.stack(part.state)[:, 1:81], align)
                row |= {f"{split}_rollout": score.mse, f"{split}_divergence": score.divergence_rate}
            row |= {"law": "; ".join(model.law_.lines(digits=3)), "cpu": process_time() - begin}
            rows.append(row)
            pd.DataFrame(rows).to_csv(path, index=False)
            print(row, flush=True)
    table = pd.DataFrame(rows).drop(columns="law")
    print(table.groupby("backend").agg(["mean", "min", "max"]).drop(columns="seed").T.to_string())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["exp1", "exp2", "constrained", "backends"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.what == "constrained":
        constrained(args.out, args.seed)
    elif args.what == "backends":
        backends(args.out, args.seed)
    else:
        surface(args.what, args.out, args.seed)


if __name__ == "__main__":
    main()
