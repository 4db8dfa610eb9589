"""Make laws of the equations that PySR returns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy

from sjepa.backend import Problem
from sjepa.errors import SjepaError
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.front import Front, combine_outputs
from sjepa.symbolic.imports.pysr import parse_pysr
from sjepa.symbolic.law import Law
from sjepa.symbolic.refit import refit
from sjepa_backends.pysr.request import PySRTask


# Terms that contribute less than this share of the target are tried without.
NEGLIGIBLE = (1e-6, 1e-3)
# Numbers this close to a whole one are tried as that: sin(0.9999999*x) was meant as sin(x).
NEARLY_WHOLE = 1e-5


def front(
    problem: Problem,
    tasks: Sequence[PySRTask],
    texts: Sequence[Sequence[str]],
    notes: Sequence[str],
    longest: float,
    least_squares: bool = True,
) -> Front:
    """The front of whole laws, from the equations found for each output."""
    notes = list(notes)
    task_of = {j: task for task in tasks for j in task.outputs}
    fronts = []
    unread = too_long = 0
    for j, rows in enumerate(texts):
        found: dict[sympy.Expr, None] = {sympy.S.Zero: None}
        for law in _earlier(problem, j):
            found |= dict.fromkeys(_variants(law, problem, j))
        for text in rows:
            try:
                law = problem.equation(j, _read(text, task_of[j], problem))
                laws = [e.expressions[0] for e in (law, with_whole_numbers(law))]
                found |= dict.fromkeys(_variants(law, problem, j) if least_squares else laws)
            except SjepaError:
                unread += 1
        scored = _scored(problem, j, list(found))
        earlier = {law.expressions[0] for law in _earlier(problem, j)}
        short = [row for row in scored if row[3] <= longest or row[2] in earlier]
        too_long += len(scored) - len(short)
        fronts.append([row[:3] for row in short])
    if too_long:
        notes.append(f"{too_long} equations are longer than maxsize={longest:g} and were left out")
    if unread:
        notes.append(f"{unread} of PySR's equations could not be read")
    if not any(rows for rows in texts):
        notes.append("PySR returned no equation")
    laws = [
        Law(expressions, problem.names, problem.outputs, problem.dynamics)
        for _, _, expressions in combine_outputs(fronts)
    ]
    return problem.front(laws, "pysr", notes)


def _earlier(problem: Problem, j: int) -> list[Law]:
    """The equations of the previous front: a warm start never ends worse than it began."""
    output, laws = problem.outputs[j], [c.law for c in problem.warm or ()]
    return [
        problem.equation(j, law.expressions[law.outputs.index(output)])
        for law in laws
        if law.inputs == tuple(problem.names) and output in law.outputs
    ]


def _read(text: str, task: PySRTask, problem: Problem) -> sympy.Expr:
    """One equation in the problem's inputs, in canonical form."""
    if task.template is not None:
        return canonicalize(task.template.expression(text, problem.names))
    expr = canonicalize(parse_pysr(text, task.names).xreplace(task.meaning()))
    if not task.linear:
        return expr
    # Whatever else PySR wrote, its choice of terms is the answer; numbers come from the refit.
    terms = [t for _, t in split_terms(expr) if t in task.columns or (t == 1 and task.bias)]
    return sympy.Add(*(sympy.Float(1.0) * t for t in terms))


def _variants(law: Law, problem: Problem, j: int) -> list[sympy.Expr]:
    """The equation as it came, with the best numbers, and without what does not matter."""
    inputs, targets = problem.rows()
    column = targets[:, [j]]
    fitted = refit(law, inputs, column, problem.weights)
    variants = [law, fitted]
    for share in NEGLIGIBLE:
        kept = without_negligible(fitted, inputs, column, share)
        if len(kept) < len(variants[-1].terms[0]):
            smaller = problem.equation(j, sympy.Add(*kept))
            variants.append(refit(smaller, inputs, column, problem.weights))
    variants += [with_whole_numbers(v) for v in variants[1:]]
    return [canonicalize(v.expressions[0]) for v in variants]


def without_negligible(
    law: Law, inputs: np.ndarray, target: np.ndarray, share: float
) -> list[sympy.Expr]:
    pairs = law.terms[0]
    if not pairs:
        return []
    names = [f"f{i}" for i in range(len(pairs))]
    terms = Law([t for _, t in pairs], law.inputs, names, "discrete", canonical=False)
    with np.errstate(all="ignore"):
        sizes = np.sqrt(np.mean(terms.numpy()(inputs) ** 2, axis=0))
    limit = share * float(np.sqrt(np.mean(target**2)))
    return [
        sympy.Float(c) * t
        for (c, t), size in zip(pairs, sizes, strict=True)
        if not abs(c) * size < limit
    ]


def with_whole_numbers(law: Law) -> Law:
    values = law.coefficients
    near = np.abs(values - np.round(values)) < NEARLY_WHOLE
    return law.with_coefficients(np.where(near, np.round(values), values))


def _scored(
    problem: Problem, j: int, expressions: Sequence[sympy.Expr]
) -> list[tuple[float, float, sympy.Expr, float]]:
    """(complexity, loss, expression, length) of those that the output may have."""
    rows = []
    for expr in expressions:
        law = problem.equation(j, expr, canonical=False)
        if problem.admits(law):
            c = problem.candidate(law)
            if np.isfinite(c.loss):
                rows.append((problem.complexity(law), c.loss, expr, c.tree))
    return rows
