"""The joint search over workers: what two of them save, and that the law stays the same.

    OMP_NUM_THREADS=1 python benchmarks/workers.py [--wall]

Every task of the executor is run here, one after the other, and its CPU time noted, with that of
packing it for another process. From these follows what one, two or four idle cores would need:
what is not a task and the packing, and for each round of tasks the busiest worker. A busy machine
does not change these figures. `--wall` also runs it on one and two processes by the clock, starting
them not counted, which needs idle cores, and compares the laws and encoders bit by bit.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
from typing import Any

import numpy as np
import torch

from sjepa.data import Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.symbolic import Library
from sjepa.training.joint import SearchBudget, SearchResult, joint_search


NAMES = ["z1", "z2"]
LIBRARY = Library.paper(NAMES) + Library.polynomial(NAMES, 3)


class Done:
    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self) -> Any:
        return self.value


class Clocked:
    """An executor that does everything at once and keeps the times of every round."""

    def __init__(self) -> None:
        self.rounds: list[tuple[Any, list[float]]] = []
        self.packing = 0.0

    def submit(self, function: Any, number: int, item: Any) -> Done:
        start = time.process_time()
        packed = pickle.dumps((function, item))
        copy, item = pickle.loads(packed)
        begun = time.process_time()
        value = copy(number, item)
        if not self.rounds or self.rounds[-1][0] is not function:
            self.rounds.append((function, []))
        self.rounds[-1][1].append(time.process_time() - begun)
        self.packing += begun - start
        return Done(value)

    def needed(self, workers: int) -> float:
        """Of all rounds: each task goes to the worker that is free first."""
        total = 0.0
        for _, tasks in self.rounds:
            busy = [0.0] * workers
            for seconds in tasks:
                busy[busy.index(min(busy))] += seconds
            total += max(busy)
        return total


def data(seed: int) -> Trajectories:
    states = simulate("pendulum", seed=seed)
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(2, 32))
    return states.map(lambda x: x @ mix + 0.01 * rng.normal(size=(len(x), 32)))


def search(trajectories: Trajectories, **where: Any) -> SearchResult:
    return joint_search(trajectories, LIBRARY, 2, budget=SearchBudget(grow=False, **where))


def bits(result: SearchResult) -> list[bytes]:
    numbers = result.encoder.state_dict().values()
    return [result.law.to_json().encode(), *(t.numpy().tobytes() for t in numbers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wall", action="store_true")
    args = parser.parse_args()
    trajectories, executor = data(args.seed), Clocked()
    torch.set_num_threads(1)
    start = time.process_time()
    result = search(trajectories, executor=executor)
    whole = time.process_time() - start
    print("; ".join(result.law.lines(4)))
    rest = whole - executor.packing - executor.needed(1)
    needed = {n: rest + executor.packing + executor.needed(n) for n in (1, 2, 4)}
    alone = whole - executor.packing
    print(
        f"joint, seed {args.seed}: {alone:.1f} s of CPU time, {rest:.1f} of it outside of tasks,"
        f" packing {executor.packing:.2f}; idle cores would need "
        + ", ".join(f"{n}: {s:.1f} s ({alone / s:.2f} times faster)" for n, s in needed.items())
    )
    if args.wall:
        answers = []
        for workers in (1, 2):
            where = {"executor": "local", "workers": workers}
            joint_search(trajectories, LIBRARY, 2, budget=SearchBudget(
                grow=False, structures=4, effort=0.1, refinement=5, rollout=2, **where,
            ))  # fmt: skip
            start = time.perf_counter()
            answers.append(search(trajectories, **where))
            spent = time.perf_counter() - start
            print(f"{workers} processes: {spent:.1f} s by the clock, load {os.getloadavg()[0]:.1f}")
        print("same bytes:", bits(answers[0]) == bits(answers[1]) == bits(result))


if __name__ == "__main__":
    main()
