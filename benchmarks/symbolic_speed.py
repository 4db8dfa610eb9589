"""Speed of the symbolic core against its peers, all in one run.

Prints: canonical form against ``sympy.simplify`` on a front of 200 expressions; forward plus
backward of emitted laws against hand-written torch and against sympytorch at batch 4096.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import sympy
import sympytorch
import torch
from torch import Tensor, nn

from sjepa.symbolic import Law, canonicalize, parse


sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.symbolic import rewrites


NAMES = ["x", "y", "z"]
BATCH = 4096


def front(count: int = 200) -> list[sympy.Expr]:
    rng = random.Random(3)
    expressions = []
    while len(expressions) < count:
        expr = parse(rewrites.text(rewrites.random_tree(rng, 3)), NAMES)
        if 6 <= sum(1 for _ in sympy.preorder_traversal(expr)) <= 40:
            expressions.append(expr.evalf(15))
    return expressions


def canonical_speed(simplified: int = 40) -> None:
    """simplify is timed on every fifth expression: the whole front would take minutes."""
    expressions = front()
    sample = expressions[:: len(expressions) // simplified]
    sympy.core.cache.clear_cache()
    start = time.perf_counter()
    for expr in expressions:
        canonicalize(expr)
    ours = (time.perf_counter() - start) / len(expressions)
    sympy.core.cache.clear_cache()
    start = time.perf_counter()
    for expr in sample:
        sympy.simplify(expr)
    theirs = (time.perf_counter() - start) / len(sample)
    print(f"canonical form: {1e3 * ours:.2f} ms an expression over {len(expressions)}")
    print(f"sympy.simplify: {1e3 * theirs:.1f} ms an expression over {len(sample)}")
    print(f"ratio: {theirs / ours:.0f} times faster")


class Hand(nn.Module):
    """A law as one would write it by hand, its coefficients as separate parameters."""

    def __init__(self, forward: Callable[..., list[Tensor]], values: list[float]) -> None:
        super().__init__()
        self.values = nn.ParameterList([nn.Parameter(torch.tensor(v)) for v in values])
        self.formula = forward

    def forward(self, z: Tensor) -> Tensor:
        return torch.stack(self.formula(*z.unbind(-1), *self.values), dim=-1)


LAWS: dict[str, tuple[Law, Hand]] = {
    "pendulum with drag": (
        Law.from_string(["1.01*p", "-0.99*sin(q) - 0.4*p*abs(p)"], ["q", "p"]),
        Hand(
            lambda q, p, a, b, c: [a * p, b * torch.sin(q) + c * p * p.abs()], [1.01, -0.99, -0.4]
        ),
    ),
    "lorenz": (
        Law.from_string(["9.9*y - 9.9*x", "27.9*x - x*z - 1.1*y", "x*y - 2.67*z"], NAMES),
        Hand(
            lambda x, y, z, a, b, c, d, e: [a * y + b * x, c * x - x * z + d * y, x * y + e * z],
            [9.9, -9.9, 27.9, -1.1, -2.67],
        ),
    ),
    "van der pol": (
        Law.from_string(["y", "1.5*y - 1.5*x**2*y - 1.01*x"], ["x", "y"]),
        Hand(lambda x, y, a, b, c: [y, a * y + b * x**2 * y + c * x], [1.5, -1.5, -1.01]),
    ),
    "rational": (
        Law.from_string("-0.7*x/(x**2 + 0.3) + 0.2*tanh(1.5*y)", ["x", "y"]),
        Hand(
            lambda x, y, a, b, c, d: [a * x / (x**2 + b) + c * torch.tanh(d * y)],
            [-0.7, 0.3, 0.2, 1.5],
        ),
    ),
    "forced double well": (
        Law.from_string(["v", "x - x**3 - 0.2*v + 0.5*cos(1.3*t)"], ["x", "v", "t"]),
        Hand(
            lambda x, v, t, a, b, c: [v, x - x**3 + a * v + b * torch.cos(c * t)], [-0.2, 0.5, 1.3]
        ),
    ),
}


def one_pass(module: nn.Module, z: Tensor) -> None:
    module.zero_grad()
    z.grad = None
    out = module(z)
    (out if isinstance(out, Tensor) else torch.stack(out)).square().mean().backward()


def timed(runs: list[Callable[[], None]], repeats: int = 400) -> list[float]:
    """Median time of each, taken in turns so that a busy machine slows all of them alike."""
    samples: list[list[float]] = [[] for _ in runs]
    for run in runs:
        for _ in range(20):
            run()
    for _ in range(repeats):
        for run, sample in zip(runs, samples, strict=True):
            start = time.perf_counter()
            run()
            sample.append(time.perf_counter() - start)
    return [sorted(s)[len(s) // 2] for s in samples]


def emission_speed() -> None:
    torch.set_num_threads(1)
    print(f"\nforward + backward at batch {BATCH}, time relative to hand-written torch")
    print(f"{'law':22s} {'ours':>6s} {'sympytorch':>11s}")
    for name, (law, hand) in LAWS.items():
        ours = law.torch(dtype=torch.float32)
        z = torch.randn(BATCH, len(law.inputs), requires_grad=True)
        torch.testing.assert_close(ours(z), hand(z), rtol=1e-4, atol=1e-4)
        peer = sympytorch.SymPyModule(expressions=list(law.expressions))

        def run_peer(peer: nn.Module = peer, law: Law = law, z: Tensor = z) -> None:
            peer.zero_grad()
            z.grad = None
            columns = dict(zip(law.inputs, z.unbind(-1), strict=True))
            peer(**columns).square().mean().backward()

        by_hand, mine, other = timed(
            [lambda h=hand, z=z: one_pass(h, z), lambda o=ours, z=z: one_pass(o, z), run_peer]
        )
        print(f"{name:22s} {mine / by_hand:6.2f} {other / by_hand:11.2f}")


if __name__ == "__main__":
    canonical_speed()
    emission_speed()
