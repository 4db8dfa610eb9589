"""What users know about coefficients before any data: fixed, tied, of one sign, conserving.

A constraint is a text. ``coef(p', sin(q))`` stands for the coefficient of a term in an equation,
and ``S'`` for the whole right-hand side of one:

- ``"coef(p', sin(q)) = -1"`` fixes a coefficient (and 0 forbids the term),
- ``"coef(x', y) = -coef(y', x)"`` ties two, in one equation or in two,
- ``"coef(p', p) <= 0"`` says which sign one has,
- ``"S' + I' + R' = 0"`` keeps a sum of states as it is,
- ``"hamiltonian(q, p)"`` has the equations of a coordinate and its momentum, or of several such
  pairs, derived from one energy, which they conserve.

Ties and sums are solved away: coefficients that move together become one column, so that any search
of a library keeps them without knowing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import sympy

from sjepa.backend.base import Backend
from sjepa.backend.problem import Problem
from sjepa.errors import ConfigError, LawError, ParseError
from sjepa.settings import texts_of
from sjepa.symbolic.calculus import jacobian
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.complexity import split_terms
from sjepa.symbolic.front import Front, combine_outputs
from sjepa.symbolic.gram import Gram
from sjepa.symbolic.law import Law
from sjepa.symbolic.library import Library
from sjepa.symbolic.names import RATE, output_of
from sjepa.symbolic.parse import parse, symbol


FORMS = (
    "a constraint fixes a coefficient, ties two, says the sign of one, or sums rates to 0, as in "
    '"coef(p\', sin(q)) = -1", "coef(x\', y) = -coef(y\', x)", "coef(p\', p) <= 0", "x\' + y\' = 0"'
)
CONSTRAINTS = 'texts such as "coef(p\', p) <= 0"'
_RELATION = re.compile(r"<=|>=|=")
_HAMILTONIAN = re.compile(r"\s*hamiltonian\s*\(([^()]*)\)\s*")
# A longer law must lower the loss by this share to be listed.
MIN_GAIN = 0.01
Pair = tuple[int, int]  # a term and an output


@dataclass(frozen=True, eq=False)
class Constraints:
    """Linear equations of coefficients, and signs of some of them, by (term, output)."""

    equations: tuple[tuple[dict[Pair, float], float], ...]
    signs: dict[Pair, int]

    @classmethod
    def read(cls, texts: Sequence[str], problem: Problem) -> Constraints:
        equations: list[tuple[dict[Pair, float], float]] = []
        signs: dict[Pair, int] = {}
        for text in texts_of(texts, "constraints", CONSTRAINTS):
            try:
                _read_one(text, problem, equations, signs)
            except (LawError, ParseError) as error:
                raise ConfigError(f"Constraint {text!r}: {error}", "constraints") from None
        return cls(tuple(equations), signs)


def _read_one(
    text: str,
    problem: Problem,
    equations: list[tuple[dict[Pair, float], float]],
    signs: dict[Pair, int],
) -> None:
    if (pairs_of := _HAMILTONIAN.fullmatch(text)) is not None:
        names = [name.strip() for name in pairs_of[1].split(",")]
        equations += [(row, 0.0) for row in _of_one_energy(names, problem)]
        return
    relation = _RELATION.findall(text)
    if len(relation) != 1:
        raise LawError(FORMS + ".")
    pairs: list[Pair] = []
    rates: list[int] = []
    sides = [_named(s, problem, pairs, rates) for s in text.split(relation[0])]
    names = [*(f"coef_{i}" for i in range(len(pairs))), *(f"rate_{i}" for i in range(len(rates)))]
    if not names:
        raise LawError("it names no coefficient and no rate; " + FORMS + ".")
    left, right = (parse(side, names) for side in sides)
    expr, symbols = sympy.expand(left - right), [symbol(n) for n in names]
    slopes = [expr.coeff(s) for s in symbols]
    rest = expr - sum(c * s for c, s in zip(slopes, symbols, strict=True))
    if not all(c.is_number for c in slopes) or not sympy.expand(rest).is_number:
        raise LawError("it is not linear in coefficients or rates.")
    value = -float(rest)
    if rates:
        if pairs or value or relation[0] != "=":
            raise LawError("rates only add up to 0, without coefficients beside them.")
        for i in range(len(problem.candidate_library)):
            row: dict[Pair, float] = {}
            for j, c in zip(rates, slopes, strict=True):
                row[i, j] = row.get((i, j), 0.0) + float(c)
            equations.append((row, 0.0))
        return
    row = {}
    for pair, c in zip(pairs, slopes, strict=True):
        row[pair] = row.get(pair, 0.0) + float(c)
    if relation[0] == "=":
        equations.append((row, value))
    elif len(row) == 1 and value == 0:
        ((pair, c),) = row.items()
        sign = int(np.sign(c)) * (1 if relation[0] == ">=" else -1)
        if signs.setdefault(pair, sign) != sign:
            raise LawError("another constraint gives the opposite sign.")
    else:
        raise LawError("only the sign of one coefficient can be bounded.")


def _of_one_energy(names: Sequence[str], problem: Problem) -> list[dict[Pair, float]]:
    """What coefficients keep if q' = dH/dp and p' = -dH/dq, for names q, p, and further pairs.

    Such an H exists where the second derivatives that the equations give agree: q' by q and -p' by
    p, and so on. They are sums of terms, whose coefficients then agree one by one.
    """
    outputs = list(problem.outputs)
    if len(names) % 2 or len(set(names)) < len(names) or {*names} - {*outputs}:
        raise LawError(
            "hamiltonian takes coordinates with their momenta, as in hamiltonian(q, p) or "
            f"hamiltonian(x, px, y, py); the states are {', '.join(outputs)}."
        )
    if set(outputs) - set(problem.names):
        raise LawError("an energy is for rates of first order: give momenta as states.")
    places = [outputs.index(name) for name in names]
    # The equation of each state is a sign times the derivative of H by its partner.
    partner = [name for pair in zip(names[1::2], names[::2], strict=True) for name in pair]
    signs = [1, -1] * (len(names) // 2)
    rows: list[dict[Pair, float]] = []
    for a, b in combinations(range(len(names)), 2):
        equal: dict[sympy.Expr, dict[Pair, float]] = {}
        for place, by, sign in ((a, partner[b], signs[a]), (b, partner[a], -signs[b])):
            j = places[place]
            for i in np.flatnonzero(problem.usable[:, j]).tolist():
                slope = jacobian([problem.candidate_library.terms[i]], [symbol(by)])[0]
                for c, term in split_terms(canonicalize(sympy.expand(slope))):
                    row = equal.setdefault(term, {})
                    row[i, j] = row.get((i, j), 0.0) + sign * c
        rows += equal.values()
    return rows


def _named(text: str, problem: Problem, pairs: list[Pair], rates: list[int]) -> str:
    """The text with a name for each coefficient and rate."""
    library, outputs = problem.candidate_library, list(problem.outputs)

    def output(name: str) -> int:
        if name not in outputs:
            raise LawError(f"no equation for {name!r}; there are {', '.join(outputs)}.")
        return outputs.index(name)

    def rate(match: re.Match[str]) -> str:
        rates.append(output(output_of(*match.groups())))
        return f"rate_{len(rates) - 1}"

    result = ""
    while "coef(" in text:
        before, _, after = text.partition("coef(")
        depth, end = 1, 0
        while depth and end < len(after):
            depth += {"(": 1, ")": -1}.get(after[end], 0)
            end += 1
        name, comma, term = after[: end - 1].partition(",")
        if depth or not comma:
            raise LawError("coef takes an equation and a term, as in coef(p', sin(q)).")
        bare = canonicalize(parse(term.strip(), library.inputs)).as_coeff_Mul()[1]
        if bare not in library.terms:
            raise LawError(f"{term.strip()} is not a term of the library.")
        rate_of = RATE.fullmatch(name.strip())
        equation = output_of(*rate_of.groups()) if rate_of else name.strip()
        pairs.append((library.terms.index(bare), output(equation)))
        result += RATE.sub(rate, before) + f"coef_{len(pairs) - 1}"
        text = after[end:]
    return result + RATE.sub(rate, text)


def solve_constrained(problem: Problem, backend: Backend) -> Front:
    """The front of laws that keep all constraints of a problem."""
    if not backend.constrains:
        raise ConfigError(
            f"{backend.name} cannot keep constraints; 'stlsq', 'subset' and 'pysindy' can.",
            "backend",
        )
    asked = Constraints.read(problem.constraints, problem)
    parts = [_Part(problem, asked, outputs) for outputs in _components(problem, asked)]
    rows, notes = [], []
    for part in parts:
        front = part.problem.solve(backend)
        notes += [n for n in front.notes if "column_" not in n]
        rows.append([part.row(c.law, c.certified) for c in front])
    candidates = []
    for _, _, found in combine_outputs(rows, MIN_GAIN):
        coefficients = sum(f[0] for f in found)
        law = problem.candidate_library.law(coefficients, problem.outputs, problem.dynamics)
        candidates.append(problem.candidate(law.canonical(), all(f[1] for f in found)))
    kept = f"kept: {'; '.join(problem.constraints)}"
    return Front.of(candidates, problem.measure, backend.name, [*notes, kept])


def _components(problem: Problem, asked: Constraints) -> list[list[int]]:
    """Outputs that constraints tie to each other have to be searched together."""
    label = list(range(len(problem.outputs)))
    for row, _ in asked.equations:
        tied = {label[j] for _, j in row}
        label = [min(tied) if group in tied else group for group in label]
    return [[j for j, group in enumerate(label) if group == k] for k in sorted(set(label))]


class _Part:
    """Some outputs as one regression whose columns are what the constraints leave free.

    A column is a set of coefficients that move together: one alone, a tie, or a flow from one state
    of a conserved sum to another. Residuals of the outputs are in units of their variances.
    """

    def __init__(self, problem: Problem, asked: Constraints, outputs: Sequence[int]) -> None:
        self.whole, self.outputs = problem, list(outputs)
        library, sums = problem.candidate_library, problem.sums
        pairs = [(i, j) for j in outputs for i in np.flatnonzero(problem.usable[:, j]).tolist()]
        rows = [
            ({p: c for p, c in row.items() if p in set(pairs) and c}, value)
            for row, value in asked.equations
            if {j for _, j in row} <= set(outputs)
        ]
        self.fixed = np.zeros((len(library), len(problem.outputs)))
        self.exact = True
        columns: list[tuple[dict[Pair, float], int]] = []
        for cluster in _clusters(pairs, rows):
            columns += self._free(cluster, [r for r in rows if set(r[0]) & set(cluster)], asked)
        if any(not row and value for row, value in rows):
            raise ConfigError("A constraint fixes a term that its equation may not use.")
        self.moves = np.zeros((len(columns), *self.fixed.shape))
        for k, (move, _) in enumerate(columns):
            for (i, j), c in move.items():
                self.moves[k, i, j] = c
        unit = np.array([1 / sums.variance[j] for j in self.outputs])
        v, base = self.moves[:, :, self.outputs], self.fixed[:, self.outputs]
        xy, yy = sums.xy[:, self.outputs], sums.yy[self.outputs]
        left = xy - sums.xx @ base
        gram = Gram(
            np.einsum("apj,pq,bqj,j->ab", v, sums.xx, v, unit, optimize=True),
            np.einsum("apj,pj,j->a", v, left, unit)[:, None],
            np.array([unit @ (yy - np.einsum("pj,pj->j", base, xy + left))]),
            np.zeros(1), len(columns) + 1, sums.weight,
        )  # fmt: skip
        names = [f"column_{k}" for k in range(len(columns))]
        weights = [float(sum(library.weights[i] for i, _ in move)) for move, _ in columns]
        self.library = Library([symbol(n) for n in names], names, weights, canonical=False)
        features, targets = _rows(gram)
        name = "_".join(problem.outputs[j] for j in self.outputs)
        self.problem = Problem(
            gram=gram, features=features, targets=targets, library=self.library, outputs=[name],
            signs=np.array([[sign] for _, sign in columns]), seed=problem.seed,
            budget=problem.budget, progress=problem.progress, clock=problem.clock,
        )  # fmt: skip

    def _free(
        self, cluster: list[Pair], rows: list[tuple[dict[Pair, float], float]], asked: Constraints
    ) -> list[tuple[dict[Pair, float], int]]:
        """The columns of some coefficients that equations tie, each with its sign."""
        if not rows:
            return [({cluster[0]: 1.0}, asked.signs.get(cluster[0], 0))]
        a = np.array([[row.get(p, 0.0) for p in cluster] for row, _ in rows])
        b = np.array([value for _, value in rows])
        start = np.linalg.lstsq(a, b)[0]
        if not np.allclose(a @ start, b, atol=1e-9 * (1 + np.abs(b).max())):
            raise ConfigError("Constraints contradict each other.", "constraints")
        rank = int(np.linalg.matrix_rank(a))
        if b.any():
            if rank < len(cluster):
                raise ConfigError(
                    "A coefficient is fixed that others of a sum depend on: fix those as well.",
                    "constraints",
                )
            for (i, j), value in zip(cluster, start.tolist(), strict=True):
                if value * asked.signs.get((i, j), 0) < 0:
                    raise ConfigError("Constraints contradict each other.", "constraints")
                self.fixed[i, j] = value
            return []
        found = [dict(zip(cluster, move, strict=True)) for move in _circuits(a, rank)]
        columns = []
        for circuit in found:
            move = {p: c for p, c in circuit.items() if c}
            signs = {int(np.sign(c)) * asked.signs.get(p, 0) for p, c in move.items()} - {0}
            if len(signs) == 2:  # of opposite signs and tied: nothing but 0 is left
                continue
            columns.append((move, max(signs, default=0)))
        if len(found) > 1:
            # Two flows that share a state cost less together than the search believes.
            self.exact = False
            if any(sign for _, sign in columns):
                raise ConfigError(
                    "The sign of a coefficient inside a sum of rates cannot be kept.", "constraints"
                )
        return columns

    def row(self, law: Law, certified: bool) -> tuple[float, float, tuple[np.ndarray, bool]]:
        """Cost, loss and coefficients (terms, outputs) of a law of the columns."""
        moved = np.einsum("k,kpj->pj", self.library.coefficients(law)[:, 0], self.moves)
        coefficients = self.fixed + moved
        loss = float(self.whole.sums.loss(coefficients)[self.outputs].sum())
        cost = float(self.whole.candidate_library.weights @ (coefficients != 0).sum(axis=1))
        return cost, loss, (coefficients, certified and self.exact)


def _clusters(
    pairs: Sequence[Pair], rows: Sequence[tuple[dict[Pair, float], float]]
) -> list[list[Pair]]:
    """Coefficients that equations connect, and each of the others alone."""
    label = {p: k for k, p in enumerate(pairs)}
    for row, _ in rows:
        tied = {label[p] for p in row}
        label = {p: min(tied) if k in tied else k for p, k in label.items()}
    found: dict[int, list[Pair]] = {}
    for p, k in label.items():
        found.setdefault(k, []).append(p)
    return list(found.values())


def _circuits(a: np.ndarray, rank: int) -> list[np.ndarray]:
    """The moves that keep a x = 0 and have no smaller such move in them."""
    width, found = a.shape[1], []
    seen: list[set[int]] = []
    for size in range(1, rank + 2):
        for chosen in combinations(range(width), size):
            if any(smaller <= set(chosen) for smaller in seen):
                continue
            _, values, vectors = np.linalg.svd(a[:, chosen])
            if len(values) == size and values[-1] > 1e-9 * values[0]:
                continue
            move = np.zeros(width)
            move[list(chosen)] = np.round(vectors[-1] / np.abs(vectors[-1]).max(), 12)
            found.append(move)
            seen.append(set(chosen))
    return found


def _rows(gram: Gram) -> tuple[np.ndarray, np.ndarray]:
    """Rows with these sums, for searches that need some."""
    whole = np.block([[gram.xx, gram.xy], [gram.xy.T, gram.yy[None, :]]])
    values, vectors = np.linalg.eigh(whole)
    rows = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return rows[:, :-1], rows[:, -1:]
