"""The two Gymnasium tasks of control.py: data, libraries, costs and planners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import sjepa
from sjepa.control import CEM, Controller, Task, collect, evaluate
from sjepa.data import Trajectories


@dataclass(frozen=True)
class Pendulum:
    """Swing up and balance, from the raw observation (cos θ, sin θ, velocity)."""

    env: str = "Pendulum-v1"
    dt: float = 0.05
    source: str = (
        "newthdot = thdot + (3*g/(2*l)*sin(th) + 3/(m*l**2)*u)*dt   with g=10, m=1, l=1: 15, 3\n"
        "newth    = th + newthdot*dt                                 observed: cos, sin, thdot"
    )

    def data(self, transitions: int, seed: int) -> Trajectories:
        return collect(self.env, transitions, dt=self.dt, seed=seed, names=["c", "s", "w"])

    def library(self) -> sjepa.Library:
        return sjepa.Library.polynomial(["c", "s", "w", "u1"], 2)

    def model(self, data: Trajectories, seed: int = 0, **options: Any) -> sjepa.SJEPA:
        terms = options.pop("library", None)
        library = self.library()
        if terms is not None:
            library = sjepa.Library.from_terms(terms, library.inputs)
        made = sjepa.SJEPA(encoder="identity", library=library, random_state=seed, **options)
        return made.fit(data)

    def cost(self, z: Tensor, u: Tensor) -> Tensor:
        """The environment's own reward, which a user of it knows."""
        angle = torch.atan2(z[..., 1], z[..., 0])
        return angle**2 + 0.1 * z[..., 2] ** 2 + 0.001 * u[..., 0] ** 2

    def task(self, model: Any, horizon: int = 30, **options: Any) -> Task:
        limits = ([-1.1, -1.1, -8.0], [1.1, 1.1, 8.0])  # the observation space, a little wider
        return Task.of(
            model, self.cost, low=[-2], high=[2], horizon=horizon, state_limits=limits, **options
        )

    def play(self, model: Any, seeds: range, planner: Any = None, **options: Any) -> pd.DataFrame:
        replan = options.pop("replan", 1)
        planner = planner or CEM(samples=256, iterations=3)
        task = self.task(model, **options)
        return evaluate(self.env, Controller(task, planner, replan=replan), seeds)


@dataclass(frozen=True)
class Car:
    """An underpowered car in a valley; the reward is 100 at the goal minus 0.1 u² a step."""

    env: str = "MountainCarContinuous-v0"
    goal: float = 0.45
    source: str = "velocity += force*0.0015 - 0.0025*cos(3*position)\nposition += velocity"

    def data(self, transitions: int, seed: int) -> Trajectories:
        # Actions held for 20 steps: independent ones average out and the car hardly moves.
        return collect(self.env, transitions, seed=seed, hold=20, names=["p", "v"])

    def library(self) -> sjepa.Library:
        waves = [f"{f}({k}*p)" for f in ("sin", "cos") for k in (1, 2, 3)]
        terms = ["1", "p", "v", "u1", "p**2", "p*v", "v**2", "p*u1", "v*u1", *waves]
        return sjepa.Library.from_terms(terms, ["p", "v", "u1"])

    def model(self, data: Trajectories, seed: int = 0, **options: Any) -> sjepa.SJEPA:
        made = sjepa.SJEPA(
            search=sjepa.LawOnly(derivatives="discrete"), encoder="identity",
            library=self.library(), backend="subset", random_state=seed, **options,
        )  # fmt: skip
        return made.fit(data)

    def reached(self, p: Tensor) -> Tensor:
        return torch.sigmoid((p - self.goal) / 0.01)

    def task(self, model: Any) -> Task:
        """Plans of 160 steps in blocks of 8; past the goal nothing costs any more."""

        def stage(z: Tensor, u: Tensor) -> Tensor:
            # Time is an axis here: a step counts only while the goal is still ahead.
            ahead = 1.0 - self.reached(torch.cummax(z[..., 0], dim=-1).values)
            done = 100.0 / 160 * (1.0 - ahead)
            nearer = 0.02 * (self.goal - torch.cummax(z[..., 0], dim=-1).values).clamp(min=0.0)
            return 0.1 * u[..., 0] ** 2 * ahead - done + nearer

        limits = ([-1.2, -0.07], [0.6, 0.07])  # the observation space
        return Task.of(model, stage, low=[-1], high=[1], horizon=160, hold=8, state_limits=limits)

    def play(self, model: Any, seeds: range) -> pd.DataFrame:
        planner = CEM(samples=256, iterations=5, smoothness=0.3)
        return evaluate(self.env, Controller(self.task(model), planner, replan=8), seeds)
