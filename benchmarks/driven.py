"""Driven systems through sensors: is the law found, with its action?

    python -m benchmarks.driven --seeds 100 101 --sensors linear tanh12

A pendulum with a motor and a cart on a rail with friction, 12 noisy values (0.5 %), forces that are
held or smooth. The law is right if u is in it and if, in the coordinates that an affine map makes
the true ones, least squares on the true terms gives their coefficients to 5 % of the largest of
their equation and leaves less than 5 % of the velocities. CPU seconds on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.sensors_data import sensor
from sjepa import SJEPA
from sjepa.data import Trajectories
from sjepa.metrics import r2
from sjepa.symbolic import Law


# Equations, and the spread of starts and of forces.
SYSTEMS = {
    "pendulum": (("p", "-sin(q) - 0.1*p + u1"), 0.8, 0.3),  # it swings, not over the top
    "cart": (("v", "-0.5*v + 0.8*u1"), 1.0, 1.0),
}
STEP, POINTS, TRAJECTORIES, TEST, VALUES, NOISE = 0.05, 160, 40, 10, 12, 0.005
TOP = 2.8


def forces(kind: str, rng: np.random.Generator, size: float) -> np.ndarray:
    """Actions (T, 1): held for a fifth to a second, or a sum of sines."""
    t = np.arange(POINTS) * STEP
    if kind == "held":
        u = np.repeat(rng.normal(size=POINTS), rng.integers(4, 20, size=POINTS))[:POINTS]
    else:
        waves = rng.uniform(0.5, 3.0, size=4), rng.uniform(0, 6.3, size=4)
        u = np.sin(t[:, None] * waves[0] + waves[1]).sum(1) / np.sqrt(2)
    return size * u[:, None]


def data(name: str, kind: str, sensors: str, seed: int) -> tuple[Trajectories, Trajectories]:
    equations, spread, size = SYSTEMS[name]
    inputs = ["q", "p"] if name == "pendulum" else ["x", "v"]
    field = Law.from_string(list(equations), inputs=[*inputs, "u1"], outputs=inputs).numpy()
    rng = np.random.default_rng([seed, 11])
    count = TRAJECTORIES + TEST
    actions = [forces(kind, rng, size) for _ in range(2 * count)]
    u = np.stack(actions, axis=1)  # (T, N, 1)
    path = [spread * rng.normal(size=(2 * count, 2))]
    for i in range(POINTS - 1):  # step by step: a held action jumps at samples
        end = u[i] if kind == "held" else u[i + 1]
        path.append(_step(field, path[-1], u[i], end))
    stacked = np.stack(path, axis=1)
    # Where one goes over the top, an angle and the same less a turn obey the same law.
    chosen = np.arange(2 * count)
    if name == "pendulum":
        chosen = np.flatnonzero(np.abs(stacked[..., 0]).max(1) < TOP)
    chosen = chosen[:count]
    stacked, actions = stacked[chosen], [actions[i] for i in chosen]
    states = list(stacked)
    scaled = (stacked - stacked.mean((0, 1))) / stacked.std((0, 1))
    if sensors == "linear":
        x = scaled @ rng.normal(size=(2, VALUES))
    else:
        x = sensor(sensors, 2, seed)(0.7 * scaled)
    x = x + NOISE * x.std((0, 1)) * rng.normal(size=x.shape)
    whole = Trajectories(list(x), STEP, actions, state=states)
    return whole[:TRAJECTORIES], whole[TRAJECTORIES:]


def _step(field: Any, z: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """One sample further by ten steps of Runge and Kutta; the action goes from first to last."""
    h = STEP / 10

    def velocity(z: np.ndarray, share: float) -> np.ndarray:
        return np.asarray(field(np.column_stack([z, first + share * (last - first)])))

    for k in np.arange(10) / 10:
        a = velocity(z, k)
        b = velocity(z + h / 2 * a, k + 0.05)
        c = velocity(z + h / 2 * b, k + 0.05)
        d = velocity(z + h * c, k + 0.1)
        z = z + h / 6 * (a + 2 * b + 2 * c + d)
    return z


def judge(model: SJEPA, name: str, train: Trajectories, test: Trajectories) -> dict[str, float]:
    z, s = np.concatenate(model.encode(train)), np.concatenate(train.state)
    matrix = np.linalg.lstsq(np.column_stack([z, np.ones(len(z))]), s, rcond=None)[0]
    z, s, u = (np.concatenate(a) for a in (model.encode(test), test.state, test.u))
    aligned = z @ matrix[:-1] + matrix[-1]
    velocities = np.asarray(model.law_.numpy()(np.column_stack([z, u]))) @ matrix[:-1]
    a, b = aligned.T
    pendulum = name == "pendulum"
    rows = [np.stack([b], 1), np.stack([np.sin(a), b, u[:, 0]] if pendulum else [b, u[:, 0]], 1)]
    truth = [[1.0], [-1.0, -0.1, 1.0] if pendulum else [-0.5, 0.8]]
    off, left = [], []
    for j in range(2):
        numbers = np.linalg.lstsq(rows[j], velocities[:, j], rcond=None)[0]
        off.append(np.abs(numbers - truth[j]).max() / np.abs(truth[j]).max())
        miss = velocities[:, j] - rows[j] @ numbers
        left.append(np.sqrt(np.square(miss).mean() / np.square(rows[j] @ truth[j]).mean()))
    return {
        "r2": min(float(r2(aligned[:, [i]], s[:, [i]])) for i in range(2)),
        "off": float(max(off)),
        "left": float(max(left)),
    }


def run(name: str, kind: str, sensors: str, seed: int) -> bool:
    train, test = data(name, kind, sensors, seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SJEPA(random_state=seed).fit(train)
    seconds = time.process_time() - start
    judged = judge(model, name, train, test)
    has = any("u1" in line for line in model.law_.lines(3))
    right = has and judged["off"] <= 0.05 and judged["left"] <= 0.05
    print(
        f"{name:9} {kind:6} {sensors:10} {seed:4d} {'right' if right else 'WRONG'} "
        f"{'adequate' if model.figures_['adequate'] else 'flagged '} R2 {judged['r2']:.4f} "
        f"coefficients {judged['off']:.3f} left {judged['left']:.3f} {seconds:5.0f} s  "
        f"{'; '.join(model.law_.lines(3))}",
        flush=True,
    )
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[100])
    parser.add_argument("--sensors", nargs="+", default=["linear"])
    parser.add_argument("--forces", nargs="+", default=["held", "smooth"])
    args = parser.parse_args()
    for sensors in args.sensors:
        for name in args.systems:
            for kind in args.forces:
                results = [run(name, kind, sensors, seed) for seed in args.seeds]
                print(f"{name}, {kind}, {sensors}: {sum(results)} of {len(results)}", flush=True)


if __name__ == "__main__":
    main()
