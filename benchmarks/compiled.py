"""Whether torch.compile pays: rollouts of a law, forwards and backwards, and what compiling costs.

    OMP_NUM_THREADS=1 python benchmarks/compiled.py

A pendulum with drag, four Runge-Kutta steps. The small batch is that of a restart in the joint
search, the large one that of training. CPU time, programs that compile included. The last figure
says how many updates of one structure it takes to win the compilation back; a search tries hundreds
of structures, for some hundred updates each.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from sjepa import Law
from sjepa.models import Transition


STEPS, BATCHES = 4, (64, 4096)


def cpu() -> float:
    """Of this process and of those that it has started and that are done."""
    both = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def update(rollout: Callable[[Tensor], Tensor], z: Tensor, parameters: list[Tensor]) -> None:
    torch.autograd.grad((rollout(z) ** 2).mean(), parameters)


def seconds(run: Callable[[], None], min_seconds: float = 0.5) -> float:
    """Of one run, as the mean of as many as fill half a second; the least of three such means."""
    times = []
    for _ in range(3):
        count, start = 0, time.process_time()
        while time.process_time() - start < min_seconds:
            run()
            count += 1
        times.append((time.process_time() - start) / count)
    return min(times)


def main() -> None:
    torch.manual_seed(0)
    law = Law.from_string(["p", "-1.1*sin(q) - 0.3*p*abs(p)"], ["q", "p"])
    for batch in BATCHES:
        transition = Transition(law.torch(trainable=True), integrator="rk4")
        parameters = list(transition.parameters())
        z = torch.randn(batch, 2)

        def plain(z: Tensor, transition: Transition = transition) -> Tensor:
            return transition.rollout(z, 0.05, steps=STEPS)

        before = cpu()
        fast = torch.compile(plain)
        update(fast, z, parameters)
        cost = cpu() - before
        same = torch.allclose(plain(z), fast(z), rtol=1e-5, atol=1e-6)
        slow, quick = (seconds(partial(update, run, z, parameters)) for run in (plain, fast))
        won = (
            f"won back after {cost / (slow - quick):,.0f} updates" if quick < slow else "never won"
        )
        print(
            f"batch {batch}: {1e3 * slow:.2f} ms an update, compiled {1e3 * quick:.2f} ms "
            f"({slow / quick:.1f} times), same values {same}; compiling {cost:.0f} s, {won}",
            flush=True,
        )


if __name__ == "__main__":
    main()
