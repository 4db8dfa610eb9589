"""From pixels to control: Gymnasium's pendulum, seen as frames of 64 x 64 pixels and nothing else.

    python benchmarks/pixels.py --seeds 0 1 2 --episodes 10 [--video FILE.gif] [--report FILE.html]

For each seed: at most 3,000 transitions under random actions as frames, a coordinate and a law
with the torque from them, and the mean return of the receding-horizon controller that swings up
from frames (ten episodes of other seeds). The goal is one frame of the pendulum upright. A random
policy has about -1,200, a law of the true states about -140. Needs pygame for the frames.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from time import process_time
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor

import sjepa
from sjepa import SJEPA
from sjepa.control import CEM, Controller, Observer, Task, collect, evaluate


SIDE, DT, TORQUE = 64, 0.05, 2.0


class Frames(gymnasium.ObservationWrapper):
    """Gray frames between 0 (nothing) and 1, in place of angle and speed."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-9.0, 9.0, (SIDE, SIDE), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        frame = Image.fromarray(self.env.render()).convert("L")
        return 1.0 - np.asarray(frame.resize((SIDE, SIDE), Image.Resampling.BOX), np.float32) / 255


def pendulum() -> Any:
    return Frames(gymnasium.make("Pendulum-v1", render_mode="rgb_array"))


def upright() -> np.ndarray:
    """The frame that a user would show: this is what I want."""
    env = pendulum()
    env.reset(seed=0)
    env.unwrapped.state = np.zeros(2)
    return env.observation(np.zeros(0))


class Filmed(Observer):
    """Keeps the frames of the first episode."""

    frames: list[np.ndarray]

    def __call__(self, observation: Any) -> np.ndarray:
        self.frames = [*getattr(self, "frames", []), np.asarray(observation)[0]]
        return super().__call__(observation)


def run(
    seed: int, transitions: int, episodes: int, video: Path | None, report: Path | None
) -> dict[str, Any]:
    data = collect(pendulum, transitions, dt=DT, seed=seed)
    start = process_time()
    model = SJEPA(1, order=2, random_state=seed, verbose=False).fit(data)
    cpu = process_time() - start
    goal = float(model.encode(upright()[None])[0, 0])

    def cost(z: Tensor, u: Tensor) -> Tensor:
        away = torch.atan2(torch.sin(z[..., 0] - goal), torch.cos(z[..., 0] - goal))
        return away**2 + 0.1 * z[..., 1] ** 2 + 0.001 * u[..., 0] ** 2

    task = Task.of(model, cost, low=[-TORQUE], high=[TORQUE], horizon=30)
    policy = Filmed(model, Controller(task, CEM(samples=256, iterations=3), seed=seed))
    start = process_time()
    table = evaluate(pendulum, policy, range(1000 * (seed + 1), 1000 * (seed + 1) + episodes))
    if video is not None:
        shown = [
            Image.fromarray((255 * (1 - f)).clip(0, 255).astype("uint8")) for f in policy.frames
        ]
        shown[0].save(video, save_all=True, append_images=shown[1:], duration=50, loop=0)
    if report is not None:
        episode = sjepa.Trajectories(
            [np.stack(policy.frames)], DT, ids=["an episode under control"]
        )
        model.report(report, data[:4], title="From pixels to control", video=episode)
    return {
        "seed": seed, "law": "; ".join(model.law_.lines(digits=4)), "fit_cpu": cpu,
        "mean_return": table["return"].mean(), "worst": table["return"].min(),
        "best": table["return"].max(), "play_cpu": process_time() - start,
        "warnings": len(model.warnings_),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--transitions", type=int, default=3000)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--video", type=Path)
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = []
    for seed in args.seeds:
        rows.append(run(seed, args.transitions, args.episodes, args.video, args.report))
        print(pd.Series(rows[-1]).to_string(), "\n", flush=True)
    print(f"mean return over {len(rows)} seeds: {np.mean([r['mean_return'] for r in rows]):.0f}")


if __name__ == "__main__":
    main()
