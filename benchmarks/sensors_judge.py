"""Is it the true law? Up to names, signs, scales and shifts of the coordinates."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import sympy
import torch

from sjepa.data import Trajectories
from sjepa.data.synthetic.systems import SYSTEMS
from sjepa.metrics import AffineMap, r2
from sjepa.symbolic import Law


# Other ways of writing a system. An affine map turns predator and prey into the second form: the
# origin is moved to where both rest; Duffing's friction may stand in either equation, and Lorenz's
# y may be the velocity of x. Van der Pol's oscillator in Lienard's coordinates is a cubic
# map away, not an affine one, but as short: it is counted as right, and its R2 is what it is.
OTHERS = {
    "van_der_pol": ("x - x**3 + y", "x"),
    "duffing": ("v - x", "x + x**3"),
    "lorenz": ("y", "x + y + x*z", "z + x**2 + x*y"),
    "lotka_volterra": ("y + x*y", "x + x*y"),
}
# Along a trajectory the flow may be shifted by this share of its length, in this many steps.
REACH, STEPS = 0.25, 41


def same_structure(law: Law, system: str) -> bool:
    """Whether a law has exactly the terms of the system, whatever its coordinates are called.

    A constant that a shift of the coordinates makes, and sin written as cos, count as the same.
    """
    row = SYSTEMS[system]
    terms = [_terms(e, law.inputs) for e in law.sympy()]
    for equations in (row.equations, OTHERS.get(system)):
        if equations is None:
            continue
        wanted = Law.from_string(list(equations), inputs=list(row.inputs)).sympy()
        for order in permutations(range(len(row.inputs))):
            names = [law.inputs[i] for i in order]
            swap = dict(
                zip(
                    sympy.symbols(row.inputs, real=True), sympy.symbols(names, real=True),
                    strict=True,
                )
            )  # fmt: skip
            candidate = [_terms(e.subs(swap, simultaneous=True), names) for e in wanted]
            if all(terms[order[j]] == candidate[j] for j in range(len(candidate))):
                return True
    return False


def not_longer(law: Law, system: str) -> bool:
    """Whether a law costs no more than the true one."""
    row = SYSTEMS[system]
    true = Law.from_string(list(row.equations), inputs=list(row.inputs))
    return law.complexity("terms") <= true.complexity("terms") + 1e-9


def _terms(expression: sympy.Expr, names: Any) -> set[sympy.Expr]:
    """The terms without coefficients and constants, cos as sin."""
    parts = sympy.Add.make_args(sympy.expand(expression))
    bare = {p.as_coeff_Mul()[1].replace(sympy.cos, sympy.sin) for p in parts if p.free_symbols}
    return {_outside(term) for term in bare}


def _outside(term: sympy.Expr) -> sympy.Expr:
    """A sine without the number that its argument is multiplied by."""
    return term.replace(
        lambda e: isinstance(e, sympy.sin), lambda e: sympy.sin(e.args[0].as_coeff_Mul()[1])
    )


def state_r2(model: Any, train: Trajectories, test: Trajectories) -> float:
    """R2 on test trajectories of the affine map from coordinates to states, worst state."""
    z, s = (np.concatenate(a) for a in (model.encode(train), train.state))
    align = AffineMap.fit(torch.as_tensor(z), torch.as_tensor(s))
    z, s = (np.concatenate(a) for a in (model.encode(test), test.state))
    aligned = np.asarray(align(torch.as_tensor(z)))
    return min(float(r2(aligned[:, [i]], s[:, [i]])) for i in range(s.shape[1]))


def shifted_r2(model: Any, test: Trajectories) -> float:
    """The same where every trajectory may be shifted in time: R2 of z(t) and states at t + shift.

    What moves along the flow by a time of its own on each trajectory obeys the same law: of a
    system that conserves something, coordinates are determined up to such shifts and no better.
    Ends that are shifted out of the trajectory are left out.
    """
    z = [np.asarray(path) for path in model.encode(test)]
    length = len(z[0])
    reach = REACH * length
    inner = np.arange(int(np.ceil(reach)), length - int(np.ceil(reach)))
    shifts = np.linspace(-reach, reach, STEPS)
    moved = np.stack([  # (trajectory, shift, time, state)
        [np.stack([np.interp(inner + s, np.arange(length), c) for c in path.T], 1) for s in shifts]
        for path in test.state
    ])  # fmt: skip
    rows = np.stack([np.column_stack([path[inner], np.ones(len(inner))]) for path in z])
    best = np.full(len(z), STEPS // 2)
    for _ in range(20):
        states = moved[np.arange(len(z)), best]
        matrix = np.linalg.lstsq(
            rows.reshape(-1, rows.shape[-1]), states.reshape(-1, states.shape[-1]), rcond=None
        )[0]
        missed = np.square((rows @ matrix)[:, None] - moved).mean(2) / states.var((0, 1))
        best_shift = missed.sum(-1).argmin(1)
        if (best_shift == best).all():
            break
        best = best_shift
    states = moved[np.arange(len(z)), best]
    left = np.square(rows @ matrix - states).mean((0, 1)) / states.var((0, 1))
    return float(1 - left.max())
