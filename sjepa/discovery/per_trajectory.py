"""One structure for several experiments, whose coefficients are shared or differ.

A sparse regression on block columns proposes: a term comes in with one coefficient for all
trajectories, or with one for each. Multiple shooting and its evidence decide, as in `discover`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
import pandas as pd

from sjepa.backend import Budget
from sjepa.backend.budget import cpu_time
from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.data.forms import continuous_rows
from sjepa.discovery.search_space import space_of, varying_terms, without_factors
from sjepa.errors import ConfigError, DataError, NumericalWarning, warn_caller
from sjepa.inference.constants import STRUCTURE
from sjepa.inference.evidence import adequacy_of
from sjepa.inference.noise import INFORMATION
from sjepa.inference.score import Fit, Scores, TermValues
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import ShootingFit, shoot, solve_scaled
from sjepa.search.verdicts import verdict_of
from sjepa.symbolic import Front, Law, Library
from sjepa.symbolic.front import Candidate
from sjepa.symbolic.names import left_side
from sjepa.symbolic.text import to_text


# What is kept of each step of the regression, how many terms an equation gets at most, and how many
# proposals are simulated. None of this changes what is believed of a law.
BEAM, TERMS, PROPOSALS, ROUNDS = 12, 6, 6, 8
# 90 % of a normal distribution.
WITHIN = 1.645

# For each output: its terms, by their numbers in the library, and whether each has one coefficient
# for all trajectories or one for each of them.
Terms = tuple[tuple[int, bool], ...]
Structure = tuple[Terms, ...]


@dataclass(frozen=True, eq=False)
class PerTrajectory:
    """Which coefficients of a front's chosen law are those of all trajectories, and which differ.

    Attributes
    ----------
    laws : list of Law
        That of each trajectory; ``front.best()`` has the mean of coefficients that differ.
    shared, differing : DataFrame
        Coefficients of all trajectories, and those of each, by the term they stand before; with
        the limits of intervals that contain the true value in 90 of 100 cases.
    table : DataFrame
        The structures that were simulated, by their evidence.

    Examples
    --------
    Springs of two stiffnesses, one friction:

    >>> from sjepa import discover
    >>> t = np.arange(0, 10, 0.05)
    >>> springs = [Law.from_string(["v", f"-{k}*q - 0.1*v"], ["q", "v"]) for k in (1, 4)]
    >>> x = [law.simulate([1.0, 0.0], t).z for law in springs]
    >>> terms = ["1", "q", "v"]
    >>> front = discover(x, t, feature_names=["q", "v"], library=terms, per_trajectory="auto")
    >>> front.per_trajectory.differing["value"].round(2).tolist()
    [-1.0, -4.0]
    """

    laws: list[Law]
    shared: pd.DataFrame
    differing: pd.DataFrame
    table: pd.DataFrame

    def __repr__(self) -> str:
        tables = [self.shared.T, self.differing["value"].unstack("term")]
        names = ["shared coefficients", "coefficients that differ"]
        return "\n".join(
            f"{name}:\n{table.to_string(float_format='%.4g')}"
            for name, table in zip(names, tables, strict=True) if table.size
        )  # fmt: skip


def front_per_trajectory(
    data: Trajectories,
    terms: Sequence[str] | str,
    library: Library | Sequence[str] | str | None,
    order: int,
    budget: Budget,
) -> Front:
    """The front of `discover` for one structure whose coefficients may differ in some terms."""
    if len(data) < 2:
        raise DataError("There is one trajectory: coefficients that differ need two or more.")
    if isinstance(library, str):
        raise ConfigError("per_trajectory needs a list of terms, or the default.", "library")
    backend = make_backend("subset")
    library, factors = without_factors(library, data, order)
    space, names, outputs = space_of(data, order, library, None, backend)
    assert isinstance(space, Library)
    return _Search(
        data, space, names, outputs, order, varying_terms(terms, space, factors), budget
    ).run()


class _Search:
    def __init__(
        self,
        data: Trajectories,
        library: Library,
        names: tuple[str, ...],
        outputs: tuple[str, ...],
        order: int,
        vary: frozenset[int] | None,
        budget: Budget,
    ) -> None:
        self.library, self.names, self.outputs, self.vary = library, names, outputs, vary
        self.count, self.end = len(data), cpu_time() + (budget.seconds or math.inf)
        self.segments = Segments.of(data, order=order)
        if len(np.unique(self.segments.trajectory)) < self.count:
            raise DataError(
                f"Of {self.count} trajectories some are too short or too many to be simulated: "
                "leave out those of a few observations, and take at most 48 at a time."
            )
        places = [names.index(n) for n in library.inputs] if order == 2 else None
        rows = continuous_rows(data, library, order=order, columns=places)
        self.form = rows.form
        self.blocks = [
            _rows(data._cut([(i, slice(None))]), library, dict(rows.again))
            for i in range(self.count)
        ]
        self.terms = TermValues(self.segments.inputs_of(self._law(((),) * len(outputs))))
        self.fits: dict[Structure, tuple[Fit, ShootingFit]] = {}

    def run(self) -> Front:
        for structure in self.proposals():
            self.fit(structure)
        for _ in range(ROUNDS):
            best = self.best()
            for other in self.neighbors(best):
                if cpu_time() > self.end:
                    break
                self.fit(other)
            if self.best() == best:
                break
        best = self.best()
        fit, shot = self.fits[best]
        scores = Scores(tuple(f for f, _ in self.fits.values()), fit)
        verdict = verdict_of(fit.law, scores, adequacy_of(shot, lambda length: None))
        if verdict.adequate is False:
            warn_caller(NumericalWarning(verdict.reasons[0]))
        shared, differing = self.coefficients(best, shot, scores)
        own = PerTrajectory(
            [law.canonical() for law in shot.laws], shared, differing, self.table(scores)
        )
        rows = self.candidates(best, scores)
        return Front(
            tuple(rows.values()), backend="subset", form=self.form, verdict=verdict,
            chosen=list(rows).index(best), per_trajectory=own,
        )  # fmt: skip

    # Proposals -----------------------------------------------------------------------------------

    def proposals(self) -> Iterator[Structure]:
        """The best equations of each output, combined, the most likely first."""
        each = [self._equations(j) for j in range(len(self.outputs))]
        both = sorted(product(*each), key=lambda parts: -sum(score for score, _ in parts))
        return (tuple(terms for _, terms in parts) for parts in islice(both, PROPOSALS))

    def _equations(self, j: int) -> list[tuple[float, Terms]]:
        """Sums of terms that explain a derivative, with scores, by a beam search."""
        target = self.targets(j)
        unit = float((target**2).sum()) or 1.0
        kinds: list[tuple[bool, ...]] = [(False, True)] * len(self.library)
        if self.vary is not None:
            kinds = [(k in self.vary,) for k in range(len(self.library))]
        choices = [(k, own) for k in range(len(self.library)) for own in kinds[k]]
        rows = len(target)
        each = 0.5 * math.log(rows)
        usable = self.library.mask(self.outputs)[:, j]
        found: dict[Terms, float] = {(): 0.0}
        beam: list[Terms] = [()]
        for _ in range(TERMS):
            new: dict[Terms, float] = {}
            for terms in beam:
                for choice in choices:
                    if not usable[choice[0]] or any(choice[0] == k for k, _ in terms):
                        continue
                    longer = tuple(sorted((*terms, choice)))
                    if longer not in new:
                        left = len(target) * self._loss(j, longer) / unit
                        own = sum(self.count if differs else 1 for _, differs in longer)
                        weight = sum(self.library.weights[k] for k, _ in longer)
                        new[longer] = (
                            -0.5 * rows * math.log(left + 1e-14)
                            - STRUCTURE * weight - each * own
                        )  # fmt: skip
                if cpu_time() > self.end:
                    break
            beam = sorted(new, key=lambda terms: -new[terms])[:BEAM]
            found |= {terms: new[terms] for terms in beam}
            if not beam or max(new.values()) < max(found.values()) - BEAM:
                break
        best = sorted(found, key=lambda terms: -found[terms])[:PROPOSALS]
        return [(found[terms], terms) for terms in best]

    def targets(self, j: int) -> np.ndarray:
        return np.concatenate([b[:, j] for _, b in self.blocks])

    def _loss(self, j: int, terms: Terms) -> float:
        """Mean square that least squares leave of a derivative."""
        target = self.targets(j)
        if not terms:
            return float((target**2).mean())
        return _left(_columns([a for a, _ in self.blocks], terms), target) / len(target)

    def neighbors(self, structure: Structure) -> Iterator[Structure]:
        """One coefficient shared or not, one term left out."""
        for j, terms in enumerate(structure):
            for i, (k, own) in enumerate(terms):
                changes: list[Terms] = [()] if self.vary is not None else [(), ((k, not own),)]
                for change in changes:
                    row = (*terms[:i], *change, *terms[i + 1 :])
                    yield (*structure[:j], row, *structure[j + 1 :])

    # Evidence ------------------------------------------------------------------------------------

    def fit(self, structure: Structure) -> None:
        if structure in self.fits:
            return
        law = self._law(structure)
        # States that a law went through are nearer to the truth than measured ones.
        best = max((s for _, s in self.fits.values()), key=lambda s: s.log_likelihood, default=None)
        start = None if best is None or best.unexplained.max() > 1 else best.path[0]
        shot = shoot(law, self.segments, start=start, numbers=self.numbers(structure))
        fitted = shot.law.canonical()
        weight = sum(float(self.library.weights[k]) for terms in structure for k, _ in terms)
        self.fits[structure] = (
            Fit(
                fitted, shot.noise.log_likelihood, weight, _count(structure, self.count),
                self.terms.cancelling_digits(fitted), lambda: shot.residual, shot.values,
                self.segments.memory, shot.path[0].size + shot.noise.scale.size, INFORMATION,
            ),
            shot,
        )  # fmt: skip

    def best(self) -> Structure:
        fits = {structure: fit for structure, (fit, _) in self.fits.items()}
        best = Scores(tuple(fits.values())).best
        return next(structure for structure, fit in fits.items() if fit is best)

    def numbers(self, structure: Structure) -> np.ndarray:
        """Which parameter (trajectories, coefficients) each coefficient is."""
        numbers, following = [], 0
        for _, own in (term for terms in structure for term in terms):
            size = self.count if own else 1
            numbers.append(following + np.arange(self.count) % size)
            following += size
        return np.array(numbers, dtype=int).reshape(-1, self.count).T

    def _law(self, structure: Structure) -> Law:
        """With coefficients from the regression on all trajectories."""
        coefficients = np.zeros((len(self.library), len(self.outputs)))
        for j, terms in enumerate(structure):
            if terms:
                chosen = [k for k, _ in terms]
                a = np.concatenate([f[:, chosen] for f, _ in self.blocks])
                b = np.concatenate([y[:, j] for _, y in self.blocks])
                solved = solve_scaled(a.T @ a, a.T @ b)
                coefficients[chosen, j] = np.where(solved == 0, 1e-12, solved)
        law = self.library.law(coefficients, self.outputs)
        return Law(law.expressions, self.names, self.outputs, canonical=False)

    # What is returned ----------------------------------------------------------------------------

    def coefficients(
        self, structure: Structure, shot: ShootingFit, scores: Scores
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        assert shot.parameters is not None and shot.numbers is not None
        free = shot.law.with_free_terms()
        labels = [
            f"{left_side(name)}: {to_text(term)}"
            for name, equation in zip(free.outputs, free.equations, strict=True)
            for _, term in equation.pairs
        ]
        information = shot.normal[0].sum(axis=0) * INFORMATION / scores.correlation_time
        errors = np.sqrt(np.maximum(np.diag(np.linalg.pinv(information, hermitian=True)), 0.0))
        shared: list[dict[str, Any]] = []
        differing: list[dict[str, Any]] = []
        for label, numbers in zip(labels, shot.numbers.T, strict=True):
            alike = bool((numbers == numbers[0]).all())
            for i, number in enumerate(numbers[:1] if alike else numbers):
                value, by = shot.parameters[number], WITHIN * errors[number]
                row = {"value": value, "lower": value - by, "upper": value + by}
                (shared if alike else differing).append(
                    {"term": label} | ({} if alike else {"trajectory": i}) | row
                )
        columns = ["value", "lower", "upper"]
        table = pd.DataFrame(differing, columns=["trajectory", "term", *columns])
        return (
            pd.DataFrame(shared, columns=["term", *columns]).set_index("term"),
            table.set_index(["trajectory", "term"]),
        )

    def candidates(self, best: Structure, scores: Scores) -> dict[Structure, Candidate]:
        """The chosen structure, and of other laws what no shorter one fits as well."""
        rows: dict[Structure, Candidate] = {}
        for structure, (fit, _) in self.fits.items():
            losses = [
                self._loss(j, terms) / (float(self.targets(j).var()) or 1.0)
                for j, terms in enumerate(structure)
            ]
            rows[structure] = replace(
                Candidate.score(fit.law, losses, self.library), terms=fit.complexity,
                backend="subset", evidence=-scores.lead(fit),
                standard_error=scores.standard_error(fit),
            )  # fmt: skip
        kept: dict[Structure, Candidate] = {}
        laws = {rows[best].law.skeleton[0]}
        for structure, row in sorted(rows.items(), key=lambda item: (item[1].terms, item[1].loss)):
            if structure != best:
                if row.law.skeleton[0] in laws or any(c.loss <= row.loss for c in kept.values()):
                    continue
                laws.add(row.law.skeleton[0])
            kept[structure] = row
        return kept

    def table(self, scores: Scores) -> pd.DataFrame:
        rows = []
        for structure, (fit, _) in self.fits.items():
            own = [
                f"{left_side(name)}: {self.library.names[k]}"
                for name, terms in zip(self.outputs, structure, strict=True)
                for k, differs in terms if differs
            ]  # fmt: skip
            rows.append({
                "complexity": fit.complexity, "parameters": fit.parameters,
                "evidence": -scores.lead(fit), "differing": ", ".join(own),
                "equation": "; ".join(fit.law.lines(digits=4)),
            })  # fmt: skip
        return pd.DataFrame(rows).sort_values("evidence", ascending=False, ignore_index=True)


def _rows(
    data: Trajectories, library: Library, again: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Features and targets of one trajectory."""
    rows = continuous_rows(data, library, **again)
    if rows.features is not None:
        return rows.features, rows.targets
    assert rows.inputs is not None
    return library.numpy()(rows.inputs), rows.targets


def _columns(features: Sequence[np.ndarray], terms: Terms) -> np.ndarray:
    """Columns of a regression for all trajectories, those of terms that differ in blocks."""
    sizes = [len(f) for f in features]
    parts = []
    for k, own in terms:
        column = np.concatenate([f[:, k] for f in features])
        if own:
            block = np.zeros((len(column), len(features)))
            block[np.arange(len(column)), np.repeat(np.arange(len(sizes)), sizes)] = column
            parts.append(block)
        else:
            parts.append(column[:, None])
    return np.concatenate(parts, axis=1)


def _left(columns: np.ndarray, target: np.ndarray) -> float:
    """Sum of squares that least squares leave."""
    solved = solve_scaled(columns.T @ columns, columns.T @ target)
    return float(((target - columns @ solved) ** 2).sum())


def _count(structure: Structure, trajectories: int) -> int:
    return sum(trajectories if own else 1 for terms in structure for _, own in terms)
