"""Control with learned laws: Jacobians, two Gymnasium tasks, sample efficiency, planning speed.

``python benchmarks/control.py jacobians|pendulum|car|compare|speed`` prints what the README says.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd
import sympy
import torch
from control_tasks import Car, Pendulum

import sjepa
from sjepa.control import CEM, LawJacobian, equilibria, linearize
from sjepa.control.linearize import module_jacobian
from sjepa.models import Correction, NeuralField, Residual, Transition
from sjepa.symbolic.operators import OPERATORS


def jacobians(options: argparse.Namespace) -> None:
    """Analytic against automatic for every operator; integrated steps against differences."""
    x, y = sympy.symbols("x y", real=True)
    inner = [0.3 + x * y / 3 + x / 2, 0.8 + y**2 / 5 - x / 7, 1.1 + x**2 / 9]
    worst = 0.0
    for row in OPERATORS.values():
        expr = row.build(*inner[: 2 if row.arity is None else row.arity])
        law = sjepa.Law([sympy.sympify(expr)], ["x", "y"], ["z"], "discrete")
        z = torch.tensor(np.random.default_rng(0).uniform(-1.4, 1.4, (400, 2)))
        z = z[law.torch()(z).isfinite().all(-1)]
        a, b = LawJacobian(law)(z), module_jacobian(law.torch(), z)
        worst = max(worst, float(((a - b).abs() / (1 + b.abs())).max()))
    print(f"{len(OPERATORS)} operators: analytic against automatic, largest difference {worst:.1e}")
    torch.manual_seed(0)
    law = sjepa.Law.from_string(["w", "-1.7*sin(q) + 0.6*u*cos(q)"], ["q", "w", "u"])
    for integrator in ("euler", "midpoint", "rk4"):
        move = Transition(law.torch(), Correction(2, 1).double(), integrator=integrator)
        z, u = torch.randn(50, 2).double(), torch.randn(50, 1).double()
        a = linearize(move, z, u, dt=0.1).step.A
        h = 1e-6
        columns = [(move(z + h * e, 0.1, u) - move(z - h * e, 0.1, u)) / (2 * h)
                   for e in torch.eye(2).double()]  # fmt: skip
        gap = np.abs(a - torch.stack(columns, -1).detach().numpy()).max()
        print(f"hybrid step by {integrator}: A against central differences {gap:.1e}")


def pendulum(options: argparse.Namespace) -> None:
    """The law of Pendulum-v1 from raw observations, its analysis, and swinging up with it."""
    task = Pendulum()
    data = task.data(options.transitions, options.seed)
    transitions = sum(len(x) - 1 for x in data.x)
    print(
        f"{options.transitions} random-action transitions, {transitions} of them not at a limit\n"
    )
    front = sjepa.discover(data, library=task.library())
    print("the environment's source:", task.source, sep="\n")
    short = front.select(delta=0.01)
    print("\nsimplest law that leaves less than 1 %:", short, sep="\n")
    model = task.model(data)
    print("\nlaw at the knee, coefficients from rollouts:", model.law_, sep="\n")
    print("(dt/2 times 15 is 0.375 and dt/2 times 3 is 0.075: what stepping with the new velocity")
    print(" adds to the continuous law)\n")
    box = [(-1.1, 1.1), (-1.1, 1.1), (-8, 8)]
    print(equilibria(short, box, constraints=["c**2 + s**2 - 1"]).to_frame()
          .drop(columns=["residual", "isolated"]).to_string(index=False))  # fmt: skip
    for name, law in (("simplest law", short), ("knee, as SJEPA fits it", model)):
        cpu = process_time()
        extra = {"dt": task.dt} if law is short else {}
        table = task.play(law, range(options.episodes), **extra)
        report(f"\n{name}", table, process_time() - cpu)


def car(options: argparse.Namespace) -> None:
    """The law of MountainCarContinuous-v0 and getting to the goal with it."""
    task = Car()
    data = task.data(options.transitions, options.seed)
    where = np.concatenate(data.x)[:, 0]
    print(f"{options.transitions} transitions, actions held for 20 steps; the goal is at 0.45, "
          f"positions seen {where.min():.2f} to {where.max():.2f}\n")  # fmt: skip
    print("the environment's source:", task.source, sep="\n")
    model = task.model(data)
    print("\nlaw found:", model.law_, sep="\n")
    cpu = process_time()
    report("\nreturns", task.play(model, range(options.episodes)), process_time() - cpu)


PREDICTORS: dict[str, dict[str, Any]] = {
    "law": {},
    "hybrid": {"correction": sjepa.Neural(updates=400, horizon=2, width=32)},
    "neural": {
        "correction": sjepa.Neural(alone=True, updates=1500, horizon=2),
        "search": sjepa.LawOnly(derivatives="discrete"),
        "library": ["c", "s", "w", "u1"],  # the law is not used, so its search may be short
    },
}


def compare(options: argparse.Namespace) -> None:
    """Law, hybrid and neural predictor at equal data, with the same planner.

    Rows are added to ``--out``; those that are there already are not run again.
    """
    task = Pendulum()
    test = task.data(1000, seed=10_000)
    done = pd.read_csv(options.out).to_dict("records") if options.out.exists() else []
    cells = product(options.seeds, options.sizes, PREDICTORS)
    for seed, count, name in cells:
        if any((r["seed"], r["transitions"], r["predictor"]) == (seed, count, name) for r in done):
            continue
        cpu = process_time()
        model = task.model(task.data(count, seed), seed, **PREDICTORS[name])
        fitted = process_time() - cpu
        table = task.play(
            model, range(100, 100 + options.episodes), CEM(samples=64, iterations=3), horizon=20,
            replan=2,
        )  # fmt: skip
        row = {
            "predictor": name, "transitions": count, "seed": seed,
            "mean_return": table["return"].mean(), "worst": table["return"].min(),
            "error": rollout_error(model, test), "fit_cpu": fitted,
            "all_cpu": process_time() - cpu,
        }  # fmt: skip
        done.append(row)
        pd.DataFrame(done).to_csv(options.out, index=False)
        print(", ".join(f"{k} {_text(v)}" for k, v in row.items()), flush=True)
        if options.one:
            return
    table = pd.DataFrame(done)
    for value in ("mean_return", "worst", "error"):
        print(f"\n{value}, mean over data seeds (lowest to highest)")
        groups = table.groupby(["predictor", "transitions"])[value]
        text = groups.agg(lambda v: f"{v.mean():.3g} ({v.min():.3g} to {v.max():.3g})")
        print(text.unstack("transitions").to_string())


def rollout_error(model: sjepa.SJEPA, test: Any, steps: int = 25) -> float:
    """Root mean squared error after `steps` steps of random actions, in standard deviations."""
    transition = model.transition_
    spread = np.concatenate(test.x).std(axis=0)
    errors = []
    for x, u in zip(test.x, test.u, strict=True):
        if len(x) <= steps:
            continue
        first = range(0, len(x) - steps, 5)
        z = torch.as_tensor(x[[i for i in first]])
        inputs = torch.as_tensor(np.stack([u[i : i + steps] for i in first]))
        with torch.no_grad():
            end = transition.rollout(z, model.step_, inputs)[:, -1].numpy()
        errors.append(((end - x[[i + steps for i in first]]) / spread) ** 2)
    return float(np.sqrt(np.mean(np.nan_to_num(np.concatenate(errors), nan=1e6))))


def speed(options: argparse.Namespace) -> None:
    """One plan of CEM: 512 samples, horizon 30, 4 iterations, against a loop in Python."""
    task = Pendulum()
    law = sjepa.Law.from_string(["-s*w", "c*w", "15*s + 3*u1"], ["c", "s", "w", "u1"])
    torch.manual_seed(0)
    hybrid = Transition(law.torch(), Correction(3, 1), integrator="rk4")
    neural = Transition(None, Residual(NeuralField(3, 1), 3), dynamics="discrete")
    planner = CEM(samples=512, iterations=4)
    z = torch.tensor([[-1.0, 0.0, 0.1]])
    rates = {}
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name, model, extra in (
            ("law", law, {}),
            ("hybrid", hybrid, {}),
            ("hybrid by midpoint", hybrid, {"integrator": "midpoint"}),
            ("neural map", neural, {}),
        ):
            plan = task.task(model, dt=0.05, **extra)
            planner.plan(plan, z)
            wall, cpu, count = perf_counter(), process_time(), 0
            while perf_counter() - wall < 3.0:
                planner.plan(plan, z)
                count += 1
            wall, cpu = (perf_counter() - wall) / count, (process_time() - cpu) / count
            rates[name, threads] = cpu
            print(f"{name}, {threads} threads: {1 / wall:.0f} Hz ({1000 * cpu:.0f} ms of CPU time)")
    actions = np.random.default_rng(0).uniform(-2, 2, (512, 30))
    loops = {
        "the formulas written out on Python's floats": (lambda: loop_cost(actions), 1),
        "law.numpy() called state by state": (lambda: law_loop_cost(law, actions[:16]), 32),
    }
    for title, (run, share) in loops.items():
        cpu = process_time()
        run()
        cpu = planner.iterations * share * (process_time() - cpu)
        print(f"loop in Python, {title}: {1000 * cpu:.0f} ms of CPU time")
        if ("law", 1) in rates:
            print(f"   {cpu / rates['law', 1]:.1f} times the law's plan on one thread")


def law_loop_cost(law: sjepa.Law, actions: np.ndarray) -> list[float]:
    """One sample after the other through the law as a numpy function."""
    field, costs = law.numpy(), []
    for sequence in actions:
        z, total = np.array([-1.0, 0.0, 0.1]), 0.0
        for u in sequence:
            total += np.arctan2(z[1], z[0]) ** 2 + 0.1 * z[2] ** 2 + 0.001 * u**2
            k1 = field([*z, u])
            k2 = field([*(z + 0.025 * k1), u])
            k3 = field([*(z + 0.025 * k2), u])
            k4 = field([*(z + 0.05 * k3), u])
            z = z + 0.05 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        costs.append(total)
    return costs


def loop_cost(actions: np.ndarray) -> list[float]:
    """The rollouts of one iteration as one would first write them, on Python's own floats."""
    from math import atan2

    def field(c: float, s: float, w: float, u: float) -> tuple[float, float, float]:
        return -s * w, c * w, 15.0 * s + 3.0 * u

    costs, h = [], 0.05
    for sequence in actions.tolist():
        c, s, w, total = -1.0, 0.0, 0.1, 0.0
        for u in sequence:
            total += atan2(s, c) ** 2 + 0.1 * w * w + 0.001 * u * u
            a = field(c, s, w, u)
            b = field(c + h / 2 * a[0], s + h / 2 * a[1], w + h / 2 * a[2], u)
            d = field(c + h / 2 * b[0], s + h / 2 * b[1], w + h / 2 * b[2], u)
            e = field(c + h * d[0], s + h * d[1], w + h * d[2], u)
            c += h / 6 * (a[0] + 2 * b[0] + 2 * d[0] + e[0])
            s += h / 6 * (a[1] + 2 * b[1] + 2 * d[1] + e[1])
            w = max(-8.0, min(8.0, w + h / 6 * (a[2] + 2 * b[2] + 2 * d[2] + e[2])))
        costs.append(total)
    return costs


def report(title: str, table: pd.DataFrame, cpu: float) -> None:
    values = table["return"]
    quarters = ", ".join(f"{v:.1f}" for v in values.quantile([0.0, 0.25, 0.5, 0.75, 1.0]))
    print(
        f"{title}: {len(table)} episodes, mean return {values.mean():.1f}; smallest, quartiles, "
        f"largest {quarters}; steps {table['steps'].mean():.0f}; {cpu:.0f} s of CPU time"
    )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {f.__name__: f for f in (jacobians, pendulum, car, compare, speed)}
    parser.add_argument("part", choices=list(parts))
    parser.add_argument("--transitions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the data")
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="compare: of data")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="speed")
    parser.add_argument("--out", type=Path, default=Path("control_compare.csv"))
    parser.add_argument("--one", action="store_true", help="compare: stop after one more row")
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200, 500, 1000, 2000])
    options = parser.parse_args()
    options.episodes = options.episodes or (6 if options.part == "compare" else 20)
    torch.set_num_threads(1)
    parts[options.part](options)


if __name__ == "__main__":
    main()
