"""Static problems: classic formulas, the ranges their data are drawn from, and their scores.

Feynman: equations of the Feynman lectures (Udrescu & Tegmark, 2020), inputs from 1 to 5 unless the
formula needs otherwise. Nguyen: Uy et al. (2011). Keijzer: Keijzer (2003). Vladislavleva:
Vladislavleva et al. (2009). Strogatz: right-hand sides from his book on nonlinear dynamics, each
equation of a system as a problem of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sjepa.symbolic import Law


ROWS = 500
# How far a recovered formula may be from the true one, as a share of its spread: rounding, or the
# noise that its numbers were fitted to.
EXACT, MAX_TOLERANCE = 1e-6, 0.01


@dataclass(frozen=True)
class StaticProblem:
    """A formula, its inputs, and the box that its data are drawn from."""

    name: str
    formula: str
    inputs: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def law(self) -> Law:
        return Law.from_string([self.formula], self.inputs, ["y"], "discrete")

    def sample(self, rows: int, seed: int, beyond: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and exact values; `beyond` draws from a shell outside of the box.

        The shell reaches half a width further to every side on which the formula is defined.
        """
        rng = np.random.default_rng(seed)
        low, high = np.array(self.low), np.array(self.high)
        run, defined, margin = self.law.numpy(), [], 0.5 * (high - low)
        for _ in range(100):
            if beyond:
                x = rng.uniform(low - margin, high + margin, (4 * rows, len(low)))
                x = x[((x < low) | (x > high)).any(axis=1)]
                # Quantities that are positive by nature stay so.
                x = x[((x > 0) | (low <= 0)).all(axis=1)]
            else:
                x = rng.uniform(low, high, (rows, len(low)))
            defined.append(x[np.isfinite(run(x)[:, 0])])
            if sum(map(len, defined)) >= rows:
                break
        x = np.concatenate(defined)[:rows]
        return x, run(x)[:, 0]


def _problems(family: str, table: str) -> dict[str, StaticProblem]:
    """Lines ``number | formula | inputs | low high [, low high ...]``; one range holds for all."""
    problems = {}
    for line in table.strip().splitlines():
        number, formula, inputs, ranges = (part.strip() for part in line.split("|"))
        names = tuple(inputs.split())
        pairs = [tuple(map(float, r.split())) for r in ranges.split(",")]
        low, high = zip(*(pairs * len(names) if len(pairs) == 1 else pairs), strict=True)
        name = f"{family}-{number}"
        problems[name] = StaticProblem(name, formula, names, low, high)
    return problems


PROBLEMS: dict[str, StaticProblem] = {
    **_problems("nguyen", """
        1 | x**3 + x**2 + x | x | -1 1
        2 | x**4 + x**3 + x**2 + x | x | -1 1
        3 | x**5 + x**4 + x**3 + x**2 + x | x | -1 1
        4 | x**6 + x**5 + x**4 + x**3 + x**2 + x | x | -1 1
        5 | sin(x**2)*cos(x) - 1 | x | -1 1
        6 | sin(x) + sin(x + x**2) | x | -1 1
        7 | log(x + 1) + log(x**2 + 1) | x | 0 2
        8 | sqrt(x) | x | 0 4
        9 | sin(x) + sin(y**2) | x y | 0 1
        10 | 2*sin(x)*cos(y) | x y | 0 1
        11 | x**y | x y | 0.01 1
        12 | x**4 - x**3 + 0.5*y**2 - y | x y | 0 1
    """),
    **_problems("keijzer", """
        1 | 0.3*x*sin(6.283185307179586*x) | x | -1 1
        4 | x**3*exp(-x)*cos(x)*sin(x)*(sin(x)**2*cos(x) - 1) | x | 0 10
        5 | 30*x*z/((x - 10)*y**2) | x y z | -1 1, 1 2, -1 1
        7 | log(x) | x | 1 100
        8 | sqrt(x) | x | 0 100
        9 | log(x + sqrt(x**2 + 1)) | x | 0 100
        10 | x**y | x y | 0.01 1
        11 | x*y + sin((x - 1)*(y - 1)) | x y | -3 3
        12 | x**4 - x**3 + 0.5*y**2 - y | x y | -3 3
        13 | 6*sin(x)*cos(y) | x y | -3 3
        14 | 8/(2 + x**2 + y**2) | x y | -3 3
        15 | 0.2*x**3 + 0.5*y**3 - y - x | x y | -3 3
    """),
    **_problems("vladislavleva", """
        1 | exp(-(x - 1)**2)/(1.2 + (y - 2.5)**2) | x y | 0.3 4
        2 | exp(-x)*x**3*cos(x)*sin(x)*(cos(x)*sin(x)**2 - 1) | x | 0.05 10
        3 | exp(-x)*x**3*cos(x)*sin(x)*(cos(x)*sin(x)**2 - 1)*(y - 5) | x y | 0.05 10
        4 | 10/(5 + (a-3)**2 + (b-3)**2 + (c-3)**2 + (d-3)**2 + (e-3)**2) | a b c d e | 0.05 6
        5 | 30*(x - 1)*(z - 1)/(y**2*(x - 10)) | x y z | 0.05 2, 1 2, 0.05 2
        6 | 6*sin(x)*cos(y) | x y | 0.1 5.9
        7 | (x - 3)*(y - 3) + 2*sin((x - 4)*(y - 4)) | x y | 0.05 6
        8 | ((x - 3)**4 + (y - 3)**3 - (y - 3))/((y - 2)**4 + 10) | x y | 0.05 6
    """),
    **_problems("feynman", """
        I.6.20a | exp(-theta**2/2)/sqrt(6.283185307179586) | theta | 1 3
        I.8.14 | sqrt((x2 - x1)**2 + (y2 - y1)**2) | x1 x2 y1 y2 | 1 5
        I.11.19 | x1*y1 + x2*y2 + x3*y3 | x1 x2 x3 y1 y2 y3 | 1 5
        I.12.1 | mu*Nn | mu Nn | 1 5
        I.12.2 | q1*q2/(12.566370614359172*epsilon*r**2) | q1 q2 epsilon r | 1 5
        I.12.5 | q2*Ef | q2 Ef | 1 5
        I.13.4 | 0.5*m*(v**2 + u**2 + w**2) | m v u w | 1 5
        I.14.3 | m*g*z | m g z | 1 5
        I.14.4 | 0.5*k*x**2 | k x | 1 5
        I.18.4 | (m1*r1 + m2*r2)/(m1 + m2) | m1 m2 r1 r2 | 1 5
        I.18.12 | r*F*sin(theta) | r F theta | 1 5
        I.24.6 | 0.25*m*(w**2 + w0**2)*x**2 | m w w0 x | 1 3
        I.25.13 | q/C | q C | 1 5
        I.27.6 | 1/(1/d1 + n/d2) | d1 d2 n | 1 5
        I.29.4 | w/c | w c | 1 10
        I.29.16 | sqrt(x1**2 + x2**2 - 2*x1*x2*cos(t1 - t2)) | x1 x2 t1 t2 | 1 5
        I.34.8 | q*v*B/p | q v B p | 1 5
        I.39.1 | 1.5*pr*V | pr V | 1 5
        I.43.16 | mu*q*Volt/d | mu q Volt d | 1 5
        I.47.23 | sqrt(gamma*pr/rho) | gamma pr rho | 1 5
        I.50.26 | x1*(cos(w*t) + alpha*cos(w*t)**2) | x1 w t alpha | 1 3
        II.3.24 | Pwr/(12.566370614359172*r**2) | Pwr r | 1 5
        II.8.31 | 0.5*epsilon*Ef**2 | epsilon Ef | 1 5
        II.11.27 | n*alpha/(1 - n*alpha/3)*epsilon*Ef | n alpha epsilon Ef | 0 1, 0 1, 1 2, 1 2
        II.15.4 | -mom*B*cos(theta) | mom B theta | 1 5
        II.27.18 | epsilon*Ef**2 | epsilon Ef | 1 5
        II.34.2 | 0.5*q*v*r | q v r | 1 5
        II.38.3 | Y*A*x/d | Y A x d | 1 5
        III.7.38 | 2*mom*B/h | mom B h | 1 5
        III.12.43 | n*h | n h | 1 5
        III.17.37 | beta*(1 + alpha*cos(theta)) | beta alpha theta | 1 5
    """),
    **_problems("strogatz", """
        bacres-x | 20 - x - x*y/(1 + 0.5*x**2) | x y | 0 20
        bacres-y | 10 - x*y/(1 + 0.5*x**2) | x y | 0 20
        barmag-x | 0.5*sin(x - y) - sin(x) | x y | 0 6.283
        barmag-y | 0.5*sin(y - x) - sin(y) | x y | 0 6.283
        glider-v | -0.05*v**2 - sin(theta) | v theta | 1 5, -3 3
        glider-theta | v - cos(theta)/v | v theta | 1 5, -3 3
        lv-x | 3*x - 2*x*y - x**2 | x y | 0 8
        lv-y | 2*y - x*y - y**2 | x y | 0 8
        predprey-x | x*(4 - x - y/(1 + x)) | x y | 0 8
        predprey-y | y*(x/(1 + x) - 0.075*y) | x y | 0 20
        shearflow-phi | (cos(phi)**2 + 0.1*sin(phi)**2)*sin(theta) | theta phi | -3 3
        vdp-x | 10*(y - x**3/3 + x) | x y | -3 3
        vdp-y | -0.1*x | x y | -3 3
    """),
}  # fmt: skip


def noisy_sample(problem: StaticProblem, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows for the search; `noise` is a share of the spread of y."""
    x, y = problem.sample(ROWS, seed)
    return x, y + noise * y.std() * np.random.default_rng([seed, 1]).normal(size=len(y))


def noise_floor(noise: float, rows: int) -> float:
    """The loss that the true formula reaches on so many noisy rows, in 39 of 40 draws."""
    return noise**2 / (1 + noise**2) * (1 + 2 * math.sqrt(2 / rows))


def recovered(law: Law, truth: Law, boxes: list[np.ndarray], tolerance: float = EXACT) -> bool:
    """SRBench's rule: not a constant, and equal to the truth up to a constant sum or factor.

    Compared by canonical form, otherwise by value in every one of the `boxes`, so that what only
    imitates the truth where the data are does not pass.
    """
    if law == truth:
        return True
    if not law.expressions[0].free_symbols:
        return False
    x = np.concatenate(boxes)
    values, true_values = law.numpy()(x)[:, 0], truth.numpy()(x)[:, 0]
    if not np.isfinite(values).all():
        return False
    offset = np.mean(true_values - values)
    factor = float(values @ true_values / max(values @ values, 1e-300))
    limits = []
    for box in boxes:
        f, t = law.numpy()(box)[:, 0], truth.numpy()(box)[:, 0]
        worst = tolerance * max(float(t.std()), 1e-300)
        limits.append([np.sqrt(np.mean(e**2)) <= worst for e in (t - f - offset, t - factor * f)])
    return bool(np.all(limits, axis=0).any())


def static_scores(law: Law, problem: StaticProblem, noise: float, seed: int) -> dict[str, Any]:
    """Recovery, and R² on exact values inside the box and in the shell around it."""
    (x, y), (far, beyond) = problem.sample(ROWS, seed), problem.sample(ROWS, seed + 1, beyond=True)
    tolerance = min(max(noise, EXACT), MAX_TOLERANCE)
    return {
        "recovered": recovered(law, problem.law, [x, far], tolerance),
        "r2": _r2(law, x, y),
        "r2_beyond": _r2(law, far, beyond),
    }


def _r2(law: Law, x: np.ndarray, y: np.ndarray) -> float:
    """Minus infinity where the formula is not defined on every row."""
    error = np.mean((law.numpy()(x)[:, 0] - y) ** 2)
    return float(1.0 - error / y.var()) if np.isfinite(error) else float("-inf")
