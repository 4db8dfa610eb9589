"""Which open choices of Experiment 1 move its outcome, and by how much: a designed comparison.

The paper leaves ten choices open. A Plackett-Burman plan of twelve readings sets each of them both
ways six times, balanced against all others, so that every main effect is estimated from all cells.
A cell is one reading with one seed: warm start, Neural JEPA, post hoc and SJEPA, sized as profile
`fast`. Finished cells are files in OUT and are not run again; the reading is to be chosen by
validation risk alone, which is why that column comes first.

python -m benchmarks.design --out DIR [--seeds 100 101 102 103 104 105] [--jobs 2] [--only ROW]
python -m benchmarks.design --out DIR --report
python -m benchmarks.design --out DIR --table
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from torch import Tensor, nn

from benchmarks.paper import PROFILES, Profile, exp1
from benchmarks.paper.common import Result
from sjepa.data.synthetic.pendulum import observation_map
from sjepa.symbolic import Law
from sjepa.training.alternating import LatentModel, TrainingConfig
from sjepa.training.alternating.objective import Objective
from sjepa.training.alternating.sampling import TrainingData, validation_chunks


# What the text leaves open: the level that is ours in profile `paper`, and the other one.
FACTORS: Mapping[str, tuple[Any, Any]] = {
    "batches": ("trajectories", "windows"),
    "first_validation": (None, 1),
    "initialization": ("default", "xavier"),
    "views": ("both noisy", "one clean"),
    "ema": ("step", "cycle"),
    "validates": ("context", "target"),
    "patience": (10, None),
    "rollout_cut": (0.05, 0.0175),
    "dynamics_targets": ("ema", "context"),
    "standardization": ("each", "common"),
}
GENERATOR = (1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0)
METRICS = ("val_risk", "omega_terms", "test_rollout", "ood_rollout", "ood_divergence", "min_std")
CONDITIONS = ("neural_jepa", "post_hoc", "sjepa")


def plan() -> list[dict[str, Any]]:
    """Twelve readings; the last has every choice at its first level, as profile `paper`."""
    rows = [np.roll(GENERATOR, i) for i in range(11)] + [np.zeros(11, int)]
    return [
        {name: levels[row[k]] for k, (name, levels) in enumerate(FACTORS.items())} for row in rows
    ]


class OneClean:
    """The two views of the invariance term in turn: the observation itself, then a noisy one."""

    def __init__(self, noise: float = 0.012) -> None:
        self.noise, self.second = noise, False

    def __call__(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        self.second = not self.second
        if self.second:
            return x
        drawn = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
        return x.add(drawn, alpha=self.noise)

    def __repr__(self) -> str:
        return "OneClean()"


def profile_of(choice: Mapping[str, Any], scale: float = 1.0) -> Profile:
    fast = PROFILES["fast"]
    windows = choice["batches"] == "windows"
    settings = fast.settings.with_(
        batching=choice["batches"],
        first_validation=choice["first_validation"],
        validates=choice["validates"],
        patience=choice["patience"],
        augmentation=OneClean() if choice["views"] == "one clean" else 0.012,
        # An epoch of windows has twice the updates of one of `fast`: half as many epochs.
        validate_every=3 if windows else 5,
    )
    share = scale * (0.5 if windows else 1.0)
    return replace(
        fast,
        name="design",
        settings=settings,
        epochs={name: max(1, round(share * n)) for name, n in fast.epochs.items()},
        ema=choice["ema"],
        rollout_cut=choice["rollout_cut"],
        changes={"dynamics_phase": {"targets": choice["dynamics_targets"]}},
    )


class Cell(exp1.SeedRun):
    """One seed of one reading."""

    def __init__(self, seed: int, choice: Mapping[str, Any], scale: float) -> None:
        super().__init__(seed, profile_of(choice, scale))
        self.choice = choice
        if choice["standardization"] == "common":
            spread = observation_map()(self.data["train"].states).std(axis=(0, 1))
            size = torch.as_tensor(spread / np.sqrt((spread**2).mean()), dtype=torch.float32)
            for name, split in self.data.items():
                batch = replace(split.batch, x=split.batch.x * size)
                self.data[name] = replace(split, batch=batch)
            self.train, self.validation = self.data["train"].batch, self.data["val"].batch

    def fresh(self) -> LatentModel:
        model = super().fresh()
        if self.choice["initialization"] == "xavier":
            torch.manual_seed(self.seed)
            for module in model.encoder.modules():
                if isinstance(module, nn.Linear):
                    nn.init.xavier_uniform_(module.weight)
                    nn.init.zeros_(module.bias)
            model.target.encoder.load_state_dict(model.encoder.state_dict())
        return model

    def _result(
        self, name: str, model: LatentModel, law: Law | None, seconds: float, diagnostics: list[Any]
    ) -> Result:
        result = super()._result(name, model, law, seconds, diagnostics)
        result.metrics["val_risk"] = self.validation_risk(name, model)
        return result

    @torch.no_grad()
    def validation_risk(self, name: str, model: LatentModel) -> float:
        """L_pred + 0.35 L_roll of the finished model, measured alike for every reading."""
        settings = TrainingConfig()
        row = {"sjepa": "dynamics_phase"}.get(name, name)
        condition = PROFILES["paper"].condition(row).with_(trains=(), representation=0.0)
        model.eval()
        context_targets = condition.targets == "context"
        z = model.encode(self.validation.x)
        goal = z if context_targets else model.encode(self.validation.x, target=True)
        source = TrainingData.of(self.validation, (z, goal))
        terms = [
            Objective(model, condition, settings)(c) for c in validation_chunks(source, settings)
        ]
        return float(torch.stack([t.risk(condition) for t in terms]).mean())


def run_cell(row: int, seed: int, folder: Path, scale: float) -> str:
    path = folder / f"cell_{row:02d}_{seed}.json"
    if path.exists():
        return f"{path.name} was there"
    torch.set_num_threads(1)
    begin, choice = process_time(), plan()[row]
    cell = Cell(seed, choice, scale)
    warm = cell.warm()
    results = cell.conditions(["neural_jepa", "post_hoc"], warm) + cell.conditions(["sjepa"], warm)
    metrics = {r.condition: {m: r.metrics.get(m) for m in METRICS} for r in results}
    laws = {r.condition: Law.from_json(r.law).lines(4) for r in results if r.law is not None}
    cpu = process_time() - begin
    text = {"row": row, "seed": seed, **choice, "metrics": metrics, "laws": laws, "cpu": cpu}
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(text, indent=1))
    partial.replace(path)
    return f"{path.name}: {cpu:.0f} CPU s"


def effects(folder: Path) -> pd.DataFrame:
    """Main effects: mean at the other level minus mean at ours, with their standard errors.

    Seeds are blocks: what a seed does to all readings alike is taken out first.
    """
    cells = [json.loads(p.read_text()) for p in sorted(folder.glob("cell_*.json"))]
    rows = []
    for condition in CONDITIONS:
        for metric in METRICS:
            values = [c["metrics"][condition].get(metric) for c in cells]
            used = [(c, v) for c, v in zip(cells, values, strict=True) if v is not None]
            if len(used) < 2:
                continue
            seeds = sorted({c["seed"] for c, _ in used})
            # Risks and rollouts spread over decades.
            log = metric.endswith(("risk", "rollout"))
            y = np.array([np.log10(max(v, 1e-12)) if log else v for _, v in used])
            blocks = [[float(c["seed"] == s) for s in seeds] for c, _ in used]
            signs = [
                [float(c[f] != ours) - 0.5 for f, (ours, _) in FACTORS.items()] for c, _ in used
            ]
            x = np.column_stack([signs, blocks])
            beta, *_ = np.linalg.lstsq(x, y, rcond=None)
            free = len(y) - np.linalg.matrix_rank(x)
            left = ((y - x @ beta) ** 2).sum() / free if free > 0 else np.nan
            error = np.sqrt(left * np.diag(np.linalg.pinv(x.T @ x)))
            for k, factor in enumerate(FACTORS):
                rows.append((condition, metric, log, factor, beta[k], error[k], y.mean()))
    columns = ["condition", "metric", "log10", "factor", "effect", "error", "mean"]
    return pd.DataFrame(rows, columns=columns)


def report(folder: Path) -> None:
    rows = effects(folder)
    count = len(list(folder.glob("cell_*.json")))
    print(f"{count} cells. Effect of leaving our level; * beyond two standard errors.")
    for (condition, metric), part in rows.groupby(["condition", "metric"], sort=False):
        log = " (log10)" if part["log10"].iloc[0] else ""
        print(f"\n{condition}, {metric}{log}: mean {part['mean'].iloc[0]:.3g}")
        for row in part.sort_values("effect", key=np.abs, ascending=False).itertuples():
            mark = "*" if abs(row.effect) > 2 * row.error else " "
            print(f"  {mark} {row.factor:18} {row.effect:+8.3f} ± {row.error:.3f}")
    cells = [json.loads(p.read_text()) for p in sorted(folder.glob("cell_*.json"))]
    table = pd.DataFrame(
        [{"row": c["row"], **{f"{k} {m}": c["metrics"][k][m] for k in ("sjepa", "post_hoc")
                              for m in METRICS[:4]}} for c in cells]
    )  # fmt: skip
    print("\nMedians by reading, sorted by SJEPA's validation risk:")
    print(
        table.groupby("row").median().sort_values("sjepa val_risk").to_string(float_format="%.4g")
    )


COLUMNS = (
    ("neural_jepa", "val_risk"), ("post_hoc", "omega_terms"), ("post_hoc", "test_rollout"),
    ("sjepa", "val_risk"), ("sjepa", "omega_terms"), ("sjepa", "test_rollout"),
    ("sjepa", "ood_rollout"),
)  # fmt: skip


def table(folder: Path) -> None:
    """The effects as the page about the paper shows them, and how often the claims hold."""
    by_factor = effects(folder).set_index(["condition", "metric", "factor"])
    print("| | " + " | ".join(f"{c}, {m}" for c, m in COLUMNS) + " |\n|" + "---|" * 8)
    strength = {f: max(abs(by_factor.loc[(*c, f), "effect"] / by_factor.loc[(*c, f), "error"])
                       for c in COLUMNS) for f in FACTORS}  # fmt: skip
    for factor in sorted(FACTORS, key=strength.__getitem__, reverse=True):
        cells = []
        for column in COLUMNS:
            row = by_factor.loc[(*column, factor)]
            size = f"× {10**row.effect:.2g}" if row.log10 else f"{row.effect:+.1f}"
            cells.append(f"**{size}**" if abs(row.effect) > 2 * row.error else size)
        ours, other = FACTORS[factor]
        print(f"| {factor}, {ours} → {other} | " + " | ".join(cells) + " |")
    every = [json.loads(p.read_text())["metrics"] for p in sorted(folder.glob("cell_*.json"))]
    names = ("omega_terms", "test_rollout", "ood_rollout")
    wins = [[m["sjepa"][n] < m["post_hoc"][n] for n in names] for m in every]
    print(f"\n{len(wins)} cells: joint lower in", dict(zip(names, np.sum(wins, 0), strict=True)),
          f"all three {sum(map(all, wins))}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="Print the page's table and stop.")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(100, 106)))
    parser.add_argument("--only", type=int, nargs="*", help="Rows of the plan, 0 to 11.")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="Of all epochs, for a try.")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.report or args.table:
        (table if args.table else report)(args.out)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    cells = [(r, s) for s in args.seeds for r in args.only or range(12)]
    jobs = (delayed(run_cell)(r, s, args.out, args.scale) for r, s in cells)
    for line in Parallel(n_jobs=args.jobs, return_as="generator_unordered")(jobs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
