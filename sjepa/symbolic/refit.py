"""Find the best coefficients for a given structure."""

from __future__ import annotations

import numpy as np
import sympy

from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.law import Law


# Rows used to move constants inside functions; the multipliers of terms always see all rows.
MAX_ROWS = 4_000
MAX_STEPS = 60
TOLERANCE = 1e-12


def refit(
    law: Law, inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None
) -> Law:
    """The same structure with the coefficients that fit these data best.

    Multipliers of terms are solved for exactly. Nonlinear parameters are moved by trust-region
    least squares from where they are. Every term gets a free coefficient, those of size 1
    included; an output for which nothing better is found keeps its numbers.
    """
    root = np.ones(len(inputs)) if weights is None else np.sqrt(weights)
    expressions = [
        _refit_output(law, j, inputs, targets[:, j], root) for j in range(len(law.outputs))
    ]
    return Law(expressions, law.inputs, law.outputs, law.dynamics, canonical=False)


def _refit_output(
    law: Law, j: int, inputs: np.ndarray, target: np.ndarray, root: np.ndarray
) -> sympy.Expr:
    expr = law.expressions[j]
    if not split_terms(expr):
        return expr
    best = expr
    lowest = _error(law, expr, inputs, target, root)
    for trial in (expr, _move_inner_numbers(law, expr, inputs, target, root)):
        solved = _solve_multipliers(law, trial, inputs, target, root)
        error = _error(law, solved, inputs, target, root)
        if error < lowest or not np.isfinite(lowest):
            best, lowest = solved, error
    return best


def _single(law: Law, expressions: list[sympy.Expr]) -> Law:
    names = [f"y{i}" for i in range(len(expressions))]
    return Law(expressions, law.inputs, names, "discrete", canonical=False)


def _error(
    law: Law, expr: sympy.Expr, inputs: np.ndarray, target: np.ndarray, root: np.ndarray
) -> float:
    residual = (_single(law, [expr]).numpy()(inputs)[:, 0] - target) * root
    return float(np.mean(residual**2))


def _solve_multipliers(
    law: Law, expr: sympy.Expr, inputs: np.ndarray, target: np.ndarray, root: np.ndarray
) -> sympy.Expr:
    """Least squares for the factors of the terms of a sum."""
    terms = [term for _, term in split_terms(expr)]
    theta = _single(law, terms).numpy()(inputs) * root[:, None]
    if not np.isfinite(theta).all():
        return expr
    scale = np.maximum(np.linalg.norm(theta, axis=0), 1e-300)
    solution = np.linalg.lstsq(theta / scale, target * root, rcond=1e-12)[0] / scale
    return sympy.Add(
        *(sympy.Mul(sympy.Float(c), t) for c, t in zip(solution.tolist(), terms, strict=True) if c)
    )


def _move_inner_numbers(
    law: Law, expr: sympy.Expr, inputs: np.ndarray, target: np.ndarray, root: np.ndarray
) -> sympy.Expr:
    """Nonlinear least squares on all coefficients, if some of them stand inside a term."""
    if not any(term.has(sympy.Float) for _, term in split_terms(expr)):
        return expr
    rows = np.linspace(0, len(inputs) - 1, min(len(inputs), MAX_ROWS)).astype(int)
    z, y, r = inputs[rows], target[rows], root[rows]
    single = _single(law, [expr]).with_free_terms()
    run = single.numpy()

    def residuals(coefficients: np.ndarray) -> np.ndarray:
        run.coefficients = tuple(coefficients)
        error = (run(z)[:, 0] - y) * r
        return np.where(np.isfinite(error), error, 1e6)

    start = single.coefficients
    if len(start) > len(rows):
        return expr
    from scipy.optimize import least_squares  # slow to import, and most laws do not need it

    # Not MINPACK's "lm": where two terms are nearly the same, its answer depends on the rounding
    # of the moment, and the same problem and seed must give the same law.
    exactly = {"ftol": TOLERANCE, "xtol": TOLERANCE, "gtol": TOLERANCE}
    found = least_squares(
        residuals, start, jac="3-point", x_scale="jac", max_nfev=MAX_STEPS, **exactly
    )
    if not np.isfinite(found.x).all():
        return expr
    return single.with_coefficients(found.x).expressions[0]
