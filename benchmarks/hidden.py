"""One measured number of a state of two or three: is the law found, and how far does it predict?

    python -m benchmarks.hidden --seeds 100 101 102 --noise 0.005

Lorenz's x, a pendulum's angle and Van der Pol's x are all that `SJEPA(history="auto")` sees. A law
is right if coordinates are an affine map away from the state (R2 at least 0.99), if the velocities
that it gives are, under that map, the true ones there (to 5 %), and if simulations from the first
window of test trajectories stay within 0.4 of the spread for three Lyapunov times or two periods
(median).
Noise is a share of the spread of what is measured. CPU seconds on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from sjepa import SJEPA, Library
from sjepa.data import Trajectories, simulate
from sjepa.data.synthetic.systems import SYSTEMS
from sjepa.metrics import r2
from sjepa.symbolic import Law


# Step, points, training trajectories, how long a simulation must stay valid, and settings. The
# library of Lorenz's system is all quadratic monomials; the others use the default one.
LYAPUNOV = 1 / 0.906
CASES: dict[str, tuple[float, int, int, float, dict[str, Any]]] = {
    "pendulum": (0.05, 300, 20, 2 * 2 * np.pi, {}),
    "van_der_pol": (0.05, 300, 20, 2 * 6.66, {}),
    "lorenz": (
        0.01, 500, 30, 3 * LYAPUNOV,
        {"latent_dim": 3, "library": Library.polynomial(["z1", "z2", "z3"], 2)},
    ),
}  # fmt: skip
TEST = 10


def data(name: str, seed: int, noise: float) -> tuple[Trajectories, Trajectories]:
    """Noisy measurements of the first state, training and test; the states come along."""
    step, points, count, *_ = CASES[name]
    row = replace(SYSTEMS[name], step=step, points=points, trajectories=count + TEST)
    states = simulate(row, seed=seed).x
    rng = np.random.default_rng([seed, 7])
    spread = np.concatenate(states)[:, 0].std()
    x = [s[:, :1] + noise * spread * rng.normal(size=(len(s), 1)) for s in states]
    whole = Trajectories(x, step, state=list(states))
    return whole[:count], whole[count:]


def judge(model: SJEPA, name: str, train: Trajectories, test: Trajectories) -> dict[str, float]:
    """R2 of the state, error of the velocities, and how long simulations stay valid."""
    row = SYSTEMS[name]
    true = Law.from_string(list(row.equations), inputs=list(row.inputs)).numpy()
    z, inside = model.coordinates(train), model.history_length_ // 2
    states = np.concatenate(
        [s[inside : inside + len(a)] for s, a in zip(train.state, z.x, strict=True)]
    )
    rows = np.column_stack([np.concatenate(z.x), np.ones(len(states))])
    matrix = np.linalg.lstsq(rows, states, rcond=None)[0]

    def aligned(z: np.ndarray) -> np.ndarray:
        return z @ matrix[:-1] + matrix[-1]

    fits, valid, velocities, wanted = [], [], [], []
    spread = np.sqrt(states.var(0).sum())
    coordinates = model.coordinates(test)
    for z, s, path in zip(coordinates.x, test.state, model.simulate(test), strict=True):
        s = s[inside : inside + len(z)]
        fits.append((aligned(z), s))
        velocities.append(np.asarray(model.law_.numpy()(z)) @ matrix[:-1])
        wanted.append(np.asarray(true(aligned(z))))
        error = np.linalg.norm(aligned(path.z) - s, axis=1) / spread
        off = np.flatnonzero(~(error < 0.4))
        valid.append((off[0] if len(off) else len(s)) * train.steps[0][0])
    a, b = (np.concatenate(part) for part in zip(*fits, strict=True))
    miss = np.concatenate(velocities) - np.concatenate(wanted)
    size = np.sqrt(np.square(np.concatenate(wanted)).mean(0))
    return {
        "r2": min(float(r2(a[:, [i]], b[:, [i]])) for i in range(b.shape[1])),
        "field": float((np.sqrt(np.square(miss).mean(0)) / size).max()),
        "valid": float(np.median(valid)) / CASES[name][3],
    }


def run(name: str, seed: int, noise: float) -> bool:
    train, test = data(name, seed, noise)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SJEPA(history="auto", random_state=seed, **CASES[name][4]).fit(train)
    seconds = time.process_time() - start
    judged = judge(model, name, train, test)
    right = judged["r2"] >= 0.99 and judged["field"] <= 0.05 and judged["valid"] >= 1.0
    adequate = "adequate" if model.figures_["adequate"] else "flagged "
    print(
        f"{name:12} {seed:4d} {noise:6g} {'right' if right else 'WRONG'} {adequate} "
        f"window {model.history_length_:2d} R2 {judged['r2']:.4f} field {judged['field']:.3f} "
        f"valid {judged['valid']:.2f} {seconds:5.0f} s  {'; '.join(model.law_.lines(3))}",
        flush=True,
    )
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[100])
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0])
    args = parser.parse_args()
    for noise in args.noise:
        for name in args.systems:
            results = [run(name, seed, noise) for seed in args.seeds]
            print(f"{name} at {noise:g}: {sum(results)} of {len(results)}", flush=True)


if __name__ == "__main__":
    main()
