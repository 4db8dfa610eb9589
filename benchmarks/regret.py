"""Decision quality: what planning with a posterior is worth on a driven pendulum.

From 25, 50 and 100 noisy transitions a posterior over laws is inferred; actions for 15 steps are
planned by CEM with its heaviest law, with the expected cost over its draws, and with the mean of
the worst tenth (CVaR). Regret is what the plan costs on the true system, without noise, beyond
what a plan made with the true law costs. A wall that must not be touched makes mistakes dear.

python benchmarks/regret.py [--seeds 10] [--sizes 25 50 100] [--starts 8]
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sjepa.bayes import posterior
from sjepa.control import CEM, CVaR, Task, expected
from sjepa.data import Trajectories
from sjepa.models import Transition
from sjepa.symbolic import Law, Library


DT, HORIZON, WALL = 0.15, 15, 1.25
INPUTS = ["q", "w", "u1"]
TRUE = Law.from_string(["w", "-sin(q) - 0.15*w - 0.3*w*abs(w) + u1"], INPUTS)
TERMS = ["w", "sin(q)", "w*abs(w)", "u1", "q", "1", "q*u1"]


def data(transitions: int, seed: int, noise: float = 0.03) -> Trajectories:
    """Random torques, held for a step each; every step is disturbed."""
    rng, move = np.random.default_rng(seed), Transition.of(TRUE).double()
    z = torch.as_tensor(rng.uniform(-1, 1, (1, 2)))
    u, states = rng.uniform(-2, 2, (transitions + 1, 1)), [z]
    for push in u[:-1]:
        z = move(z, DT, torch.as_tensor(push)[None]).detach()
        z = z + noise * torch.as_tensor(rng.normal(size=(1, 2)))
        states.append(z)
    x = torch.cat(states).numpy()
    return Trajectories([x], DT, [u], names=["q", "w"])


def cost(z: Tensor, u: Tensor) -> Tensor:
    """To q = 1 and rest there, short of the wall."""
    beyond = (z[..., 0] - WALL).clamp(min=0.0)
    return (z[..., 0] - 1) ** 2 + 0.1 * z[..., 1] ** 2 + 0.005 * u[..., 0] ** 2 + 200 * beyond**2


def make(model: Any, **changes: Any) -> Task:
    return Task.of(
        model, cost, low=[-2], high=[2], dt=DT, horizon=HORIZON, dtype=torch.float64, **changes
    )


def plans(task: Task, starts: Tensor) -> Tensor:
    planner = CEM(samples=128, iterations=6)
    return planner.plan(task, starts, generator=torch.Generator().manual_seed(0)).actions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="*", default=[25, 50, 100])
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--draws", type=int, default=30)
    args = parser.parse_args()
    rng = np.random.default_rng(12345)
    starts = torch.as_tensor(rng.uniform([-1.0, -0.8], [0.5, 0.8], (args.starts, 2)))
    truth = make(TRUE)
    best = truth.cost(starts, plans(truth, starts))
    library = Library.from_terms(TERMS, INPUTS)
    print("transitions  planned with    mean regret   median   worst tenth   CPU s")
    for size in args.sizes:
        regrets: dict[str, list[Tensor]] = {"heaviest law": [], "expected cost": [], "CVaR 0.9": []}
        begin = process_time()
        for seed in range(args.seeds):
            result = posterior(
                data(size, 500 + seed), library=library, backend="subset", derivatives="zoh",
                n_bootstrap=2, covariance="diagonal", random_state=seed,
            )  # fmt: skip
            tasks = {
                "heaviest law": make(result.law),
                "expected cost": make(result, draws=args.draws, risk=expected),
                "CVaR 0.9": make(result, draws=args.draws, risk=CVaR(0.9)),
            }
            for name, task in tasks.items():
                regrets[name].append(truth.cost(starts, plans(task, starts)) - best)
        spent = process_time() - begin
        for name, rows in regrets.items():
            r = torch.cat(rows)
            worst = r.sort().values[-max(1, len(r) // 10) :].mean()
            print(
                f"{size:11d}  {name:15} {r.mean():11.3f} {r.median():8.3f} {worst:13.3f} "
                f"{spent:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
