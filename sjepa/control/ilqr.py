"""Iterative LQR: Newton-like steps on whole plans, with linearized dynamics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import grad, hessian, jacrev, vmap

from sjepa.control.planner import Plan, Planner
from sjepa.control.task import Task
from sjepa.errors import ConfigError
from sjepa.settings import number_of, whole_of


@dataclass(frozen=True)
class ILQR(Planner):
    """Backward passes of LQR along the present plan, forward passes with a line search.

    Actions at the edge of the box are fixed in the backward pass, so that the feedback does not
    move them. Needs a cost that can be differentiated twice. Laws are linearized
    analytically.

    Parameters
    ----------
    iterations : int
    damping : float
        Initial weight of the damping term; adapts to each start.
    """

    iterations: int = 25
    damping: float = 1e-3

    def __post_init__(self) -> None:
        whole_of(self.iterations, "iterations", 1)
        if number_of(self.damping, "damping") <= 0:
            raise ConfigError(f"ILQR needs damping > 0, got {self.damping}.")

    def _improve(
        self, task: Task, z: Tensor, plan: Tensor, generator: torch.Generator | None
    ) -> Plan:
        del generator  # deterministic
        if task.hold != 1 or task.draws is not None:
            raise ConfigError("ILQR plans single steps of one predictor; use hold=1, draws=None.")
        actions, states, cost = plan, task.states(z, plan), task.cost(z, plan)
        damping = torch.full_like(cost, self.damping)
        for _ in range(self.iterations):
            gains = _backward(task, states, actions, damping)
            proposed, value = _forward(task, z, states, actions, gains, cost)
            better = value < cost
            gain = (
                float(((cost - value) / cost.abs().clamp(min=1e-9))[better].max())
                if bool(better.any())
                else 0.0
            )
            actions = torch.where(better[:, None, None], proposed, actions)
            cost = torch.where(better, value, cost)
            damping = torch.where(better, damping / 5, damping * 10).clamp(1e-8, 1e8)
            if gain < 1e-6 and bool((better | (damping > 1e6)).all()):
                break
            states = task.states(z, actions)
        return Plan(actions, cost)


def _backward(
    task: Task, states: Tensor, actions: Tensor, damping: Tensor
) -> tuple[Tensor, Tensor]:
    """Feedforward (E, K, m) and feedback (E, K, m, d) that improve the plan to second order."""
    d, m = states.shape[-1], actions.shape[-1]
    before = states[:, :-1]
    a, b = _matrices(task)(before, actions)
    lz, lu, lzz, luu, luz = _stage(task, before, actions)
    vz, vzz = _terminal(task, states[:, -1])
    feedforward = torch.zeros_like(actions)
    feedback = actions.new_zeros((*actions.shape, d))
    eye = torch.eye(m, dtype=actions.dtype)
    for k in range(actions.shape[1] - 1, -1, -1):
        ak, bk = a[:, k], b[:, k]
        at, bt = ak.mT, bk.mT
        qz = lz[:, k] + (at @ vz[..., None]).squeeze(-1)
        qu = lu[:, k] + (bt @ vz[..., None]).squeeze(-1)
        qzz = lzz[:, k] + at @ vzz @ ak
        quz = luz[:, k] + bt @ vzz @ ak
        quu = _positive(luu[:, k] + bt @ vzz @ bk) + damping[:, None, None] * eye
        low, high = task.low - actions[:, k], task.high - actions[:, k]
        step, free = minimize_in_box(quu, qu, low, high)
        gain = -torch.linalg.solve(_restricted(quu, free), quz * free[..., None])
        gain = gain * free[..., None]
        feedforward[:, k], feedback[:, k] = step, gain
        kt = gain.mT
        vz = qz + (
            kt @ quu @ step[..., None] + kt @ qu[..., None] + quz.mT @ step[..., None]
        ).squeeze(-1)
        vzz = qzz + kt @ quu @ gain + kt @ quz + quz.mT @ gain
        vzz = (vzz + vzz.mT) / 2
    return feedforward, feedback


def _forward(
    task: Task,
    z: Tensor,
    states: Tensor,
    actions: Tensor,
    gains: tuple[Tensor, Tensor],
    cost: Tensor,
) -> tuple[Tensor, Tensor]:
    """The best of several step lengths, all rolled out side by side."""
    feedforward, feedback = gains
    lengths = actions.new_tensor([1.0, 0.5, 0.25, 0.1, 0.03, 0.01])
    state = z[:, None].expand(-1, len(lengths), -1)  # (E, S, d)
    inputs = []
    for k in range(actions.shape[1]):
        away = (state - states[:, None, k])[..., None]
        change = lengths[:, None] * feedforward[:, None, k] + (feedback[:, None, k] @ away)[..., 0]
        u = task.clamp(actions[:, None, k] + change.nan_to_num(0.0, 0.0, 0.0))
        inputs.append(u)
        state = task.step(state, u)
    plans = torch.stack(inputs, dim=2)  # (E, S, K, m)
    values = task.cost(z[:, None], plans)
    at = values.argmin(1)
    rows = torch.arange(len(z))
    return plans[rows, at], values[rows, at]


def _matrices(task: Task) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    if task.matrices is not None:
        return task.matrices
    both = vmap(vmap(jacrev(task.step, argnums=(0, 1))))
    return lambda z, u: both(z, u)


def _stage(task: Task, z: Tensor, u: Tensor) -> tuple[Tensor, ...]:
    """First and second derivatives of the stage cost at (E, K) points."""
    d = z.shape[-1]
    inputs = torch.cat([z, u], dim=-1).flatten(0, 1)

    def cost(row: Tensor) -> Tensor:
        return task.stage(row[:d], row[d:])

    slope = vmap(grad(cost))(inputs).unflatten(0, z.shape[:2])
    curvature = vmap(hessian(cost))(inputs).unflatten(0, z.shape[:2])
    # The state's part must not be negative, or the backward pass aims at infinity.
    whole = _positive(curvature)
    return (
        slope[..., :d],
        slope[..., d:],
        whole[..., :d, :d],
        whole[..., d:, d:],
        whole[..., d:, :d],
    )


def _terminal(task: Task, z: Tensor) -> tuple[Tensor, Tensor]:
    if task.terminal is None:
        return torch.zeros_like(z), z.new_zeros((*z.shape, z.shape[-1]))
    return vmap(grad(task.terminal))(z), _positive(vmap(hessian(task.terminal))(z))


def _positive(matrix: Tensor) -> Tensor:
    """The nearest symmetric matrix without negative eigenvalues."""
    matrix = ((matrix + matrix.mT) / 2).nan_to_num(0.0, 0.0, 0.0)
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp(min=0.0).unsqueeze(-2)) @ vectors.mT


def _restricted(quu: Tensor, free: Tensor) -> Tensor:
    """quu on the free actions, and the identity on the others."""
    both = free[..., :, None] * free[..., None, :]
    return quu * both + torch.diag_embed(1.0 - free)


def minimize_in_box(quu: Tensor, qu: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Minimize qu·x + x·quu·x/2 inside a box by fixing actions at edges they press against.

    Returns the step (E, m) and 1.0 for free actions, 0.0 for those at an edge.
    """
    free = torch.ones_like(qu)
    step = torch.zeros_like(qu)
    for _ in range(qu.shape[-1] + 1):
        at_edge = step * (1.0 - free)
        right = (qu + (quu @ at_edge[..., None]).squeeze(-1)) * free
        step = at_edge - torch.linalg.solve(_restricted(quu, free), right[..., None]).squeeze(-1)
        outside = (step < low) | (step > high)
        step = torch.minimum(torch.maximum(step, low), high)
        slope = qu + (quu @ step[..., None]).squeeze(-1)
        pressing = ((step <= low) & (slope > 0)) | ((step >= high) & (slope < 0))
        free = free * (1.0 - pressing.to(free))
        if not bool(outside.any()):
            break
    return step, free
