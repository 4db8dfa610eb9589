"""Between models and Gymnasium: data from environments, policies in them, models as them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from sjepa.control.task import Task
from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError, MissingDependency


Policy = Callable[[np.ndarray], Any]


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError:
        raise MissingDependency("Environments need Gymnasium: pip install gymnasium") from None
    return gymnasium


def _make(env: str | Callable[[], Any], **options: Any) -> Any:
    return _gymnasium().make(env, **options) if isinstance(env, str) else env(**options)


def collect(
    env: str | Callable[[], Any],
    transitions: int,
    *,
    policy: Policy | None = None,
    hold: int = 1,
    dt: float = 1.0,
    seed: int = 0,
    names: Iterable[str] | None = None,
    saturated: bool = False,
) -> Trajectories:
    """Transitions of an environment under random actions, or under a policy.

    Parameters
    ----------
    env : id of an environment, or a function that makes one
    transitions : int
        Total number of steps, over as many episodes as needed.
    hold : int
        Steps for which a random action is kept constant; longer holds excite slow systems more.
    dt : float
        Time between observations, which environments do not provide.
    saturated : bool
        Keep steps that end with a value at a limit of the observation space. Environments clip
        there, and no smooth law holds across a clip; by default trajectories are cut.
    """
    made = _make(env)
    space = made.action_space
    if not hasattr(space, "low"):
        raise DataError(f"Needs actions in a box, this environment has {space}.")
    rng = np.random.default_rng(seed)
    limits = (made.observation_space.low, made.observation_space.high)
    x: list[np.ndarray] = []
    u: list[np.ndarray] = []
    steps = episode = 0
    while steps < transitions:
        observation, _ = made.reset(seed=seed * 100_003 + episode)
        observations, done = [observation], False
        actions: list[np.ndarray] = []
        while not done and steps < transitions:
            if policy is not None:
                action = np.asarray(policy(np.asarray(observation)))
            elif len(actions) % hold == 0:
                action = rng.uniform(space.low, space.high)
            observation, _, terminated, truncated, _ = made.step(action.astype(space.dtype))
            observations.append(observation)
            actions.append(action)
            done, steps = terminated or truncated, steps + 1
        episode += 1
        for segment in _segments(np.array(observations, dtype=float), limits, saturated):
            x.append(np.array(observations, dtype=float)[segment])
            row = np.array(actions + actions[-1:], dtype=float)  # one for each observation
            u.append(row[segment])
    made.close()
    if not x:
        raise DataError("Every step ended at a limit of the observation space; set saturated=True.")
    return Trajectories(x, dt, u, names=None if names is None else list(names))


def _segments(x: np.ndarray, limits: tuple[np.ndarray, np.ndarray], saturated: bool) -> list[slice]:
    """Parts of at least one step without a step that ends at a limit."""
    clipped = 1 + np.flatnonzero(((x[1:] <= limits[0]) | (x[1:] >= limits[1])).any(axis=1))
    if saturated or not len(clipped):
        return [slice(0, len(x))]
    # A step into a clipped observation is lost; the next one may start from it.
    edges = [0, *clipped.tolist(), len(x)]
    parts = [slice(a, b) for a, b in pairwise(edges)]
    return [s for s in parts if s.stop - s.start >= 2]


def evaluate(
    env: str | Callable[[], Any], policy: Policy, seeds: Iterable[int], *, max_steps: int = 10_000
) -> pd.DataFrame:
    """Run one episode for each seed, all side by side: columns seed, return, steps.

    The policy gets the observations of all episodes (E, obs) and returns actions (E, m); those of
    episodes that have ended are ignored. A policy with a `reset` is reset first.
    """
    seeds = list(seeds)
    made = [_make(env) for _ in seeds]
    space = made[0].action_space
    observations = np.stack([e.reset(seed=s)[0] for e, s in zip(made, seeds, strict=True)])
    if hasattr(policy, "reset"):
        policy.reset()
    returns, steps = np.zeros(len(seeds)), np.zeros(len(seeds), dtype=int)
    running = np.ones(len(seeds), dtype=bool)
    for _ in range(max_steps):
        actions = np.asarray(policy(observations), dtype=float)
        if actions.shape != (len(seeds), *space.shape):
            raise DataError(f"The policy gave {actions.shape}, not {(len(seeds), *space.shape)}.")
        actions = np.clip(actions, space.low, space.high).astype(space.dtype)
        for i in np.flatnonzero(running):
            observations[i], reward, terminated, truncated, _ = made[i].step(actions[i])
            returns[i] += float(reward)
            steps[i] += 1
            running[i] = not (terminated or truncated)
        if not running.any():
            break
    for e in made:
        e.close()
    return pd.DataFrame({"seed": seeds, "return": returns, "steps": steps})


def make_env(
    task: Task,
    starts: Any,
    *,
    max_steps: int = 200,
    state_limits: tuple[Any, Any] | None = None,
) -> Any:
    """A Gymnasium environment with a task's predictor as dynamics and its negative cost as reward.

    `starts` (n, d) are states an episode may begin in; one is drawn at every reset. An episode is
    cut off after `max_steps`, and ends early if the predicted state is no longer finite or leaves
    `state_limits`.
    """
    gymnasium = _gymnasium()
    states = np.atleast_2d(np.asarray(starts, dtype=np.float64))
    if not np.isfinite(states).all():
        raise DataError("starts contain NaN or infinity.")
    if task.draws is not None:
        raise ConfigError("An environment has one transition; give a task without draws.")
    if task.memory:
        raise ConfigError("An environment has no dead time; give a task of a law without delays.")
    size = states.shape[1]
    low, high = (-np.inf, np.inf) if state_limits is None else state_limits
    box = (
        np.broadcast_to(np.asarray(low, float), size),
        np.broadcast_to(np.asarray(high, float), size),
    )

    class ModelEnv(gymnasium.Env):  # type: ignore[misc, name-defined]
        metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
        observation_space = gymnasium.spaces.Box(box[0], box[1], (size,), np.float64)
        action_space = gymnasium.spaces.Box(
            task.low.numpy().astype(np.float32), task.high.numpy().astype(np.float32)
        )

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[np.ndarray, dict[str, Any]]:
            super().reset(seed=seed)
            start = (options or {}).get("state")
            drawn = states[self.np_random.integers(len(states))]
            self.state = np.array(drawn if start is None else start, dtype=np.float64)
            self.count = 0
            return self.state.copy(), {}

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            z = torch.as_tensor(self.state, dtype=task.dtype)
            u = task.clamp(torch.as_tensor(np.asarray(action), dtype=task.dtype))
            with torch.no_grad():
                cost = float(task.stage(z, u))
                following = task.step(z, u).double().numpy()
            self.count += 1
            lost = not np.isfinite(following).all() or not self.observation_space.contains(
                following
            )
            if not lost:
                self.state = following
            return self.state.copy(), -cost, lost, self.count >= max_steps, {}

    return ModelEnv()
