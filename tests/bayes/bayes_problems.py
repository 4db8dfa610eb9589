"""Small problems with known answers, shared by the tests of this folder."""

from __future__ import annotations

import numpy as np

from benchmarks.bayes_data import drag_pendulum
from sjepa.bayes.joint import JointDensity
from sjepa.bayes.parametric import ParametricLaw
from sjepa.bayes.prior import Prior, Sizes
from sjepa.bayes.transitions import StepModel, Transitions
from sjepa.data import Trajectories
from sjepa.symbolic import Law


TRUE = Law.from_string(["p", "-sin(q) - 0.4*p*abs(p)"], ["q", "p"])
WITHOUT_DRAG = Law.from_string(["p", "-sin(q)"], ["q", "p"])


def linear_map(
    matrix: list[list[float]], root: list[list[float]], n: int, seed: int = 0
) -> Trajectories:
    rng = np.random.default_rng(seed)
    a, s = np.array(matrix), np.array(root)
    z = [rng.normal(size=len(a))]
    for _ in range(n):
        z.append(a @ z[-1] + s @ rng.normal(size=len(a)))
    return Trajectories([np.array(z)], 1.0, names=["x", "y", "z"][: len(a)])


def make_joint(
    law: Law, data: Trajectories, step: StepModel, covariance: object = "full", **prior: object
) -> JointDensity:
    structure, rows = ParametricLaw(law, 1.0), Transitions.of(data)
    units = Sizes.of([structure], rows, step)
    return JointDensity(structure, rows, step, units, Prior(**prior), covariance)  # type: ignore[arg-type]


ONE = (
    Law.from_string(["0.8*x"], ["x"], dynamics="discrete"),
    linear_map([[0.8]], [[0.3]], 30),
    StepModel("discrete"),
    "diagonal",
)
TWO = (
    Law.from_string(["0.9*x + 0.2*y", "-0.2*x + 0.9*y"], ["x", "y"], dynamics="discrete"),
    linear_map([[0.9, 0.2], [-0.2, 0.9]], [[0.3, 0.0], [0.2, 0.2]], 40, seed=1),
    StepModel("discrete"),
    "full",
)
DRAG = (TRUE, drag_pendulum(0, 3, 20, 0.01), StepModel("continuous", "euler", "time"), "diagonal")
PROBLEMS = {"one coordinate": ONE, "two, full covariance": TWO, "drag pendulum": DRAG}
