"""Dead time of control inputs: one delay for each, found by the evidence beside the law.

A regression on many terms says about how late inputs act, the search finds a law for that, and
simulations of this law find the delay, between the samples too. No delay is the simpler hypothesis:
a delay is a parameter more, and is taken where the score that decides between laws asks for it.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar

from sjepa.backend import Budget
from sjepa.backend.budget import cpu_time
from sjepa.data import Trajectories
from sjepa.data._check import median_step
from sjepa.data.clock import TIME, with_time
from sjepa.data.derivatives import Derivatives, differentiate, second_derivatives
from sjepa.data.forms import Form, is_noisy
from sjepa.data.rows import weak_rows
from sjepa.data.weak import window_points
from sjepa.errors import ConfigError, NumericalWarning
from sjepa.inference.constants import ODDS
from sjepa.inference.noise import INFORMATION
from sjepa.inference.score import Fit, Scores, TermValues
from sjepa.inference.segments import Segments
from sjepa.inference.shooting import ShootingFit, shoot
from sjepa.symbolic import Front, Law, Library


# Searches for a law and its delays in turns, and the change, as a share of a sample, that ends
# them; delays that are compared at first. None of this changes what is believed of a delay.
ROUNDS, SETTLED, GRID = 3, 0.1, 100
# 90 % of a normal distribution.
WITHIN = 1.645

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_DELAY = re.compile(rf"\s*delay\(\s*([^()]+?)\s*\)\s*(<=|=)\s*({_NUMBER})\s*")
# From data, the form of a regression and whether the front is the one that is returned.
Find = Callable[[Trajectories, Form, bool], Front]


@dataclass(frozen=True)
class DeadTime:
    """What is known of delays: upper bounds of some, and others as they are."""

    bounds: Mapping[str, float]
    given: Mapping[str, float]

    @classmethod
    def read(cls, constraints: Sequence[str]) -> tuple[DeadTime | None, tuple[str, ...]]:
        """From texts as ``"delay(u1) <= 0.5"`` or ``"delay(u1) = 0.3"``, and the other texts."""
        found: dict[str, dict[str, float]] = {"<=": {}, "=": {}}
        rest = []
        for text in constraints:
            match = _DELAY.fullmatch(text)
            if match is None and "delay(" in text.replace(" ", ""):
                raise ConfigError(
                    f"Constraint {text!r:.60}: a delay has a bound or a value, as in "
                    '"delay(u1) <= 0.5" or "delay(u1) = 0.3".', "constraints"
                )  # fmt: skip
            if match is None:
                rest.append(text)
                continue
            name, relation, value = match[1], match[2], float(match[3])
            if not 0 <= value < np.inf or any(name in known for known in found.values()):
                raise ConfigError(
                    f"Constraint {text!r:.60}: give one time of at least 0 for each input.",
                    "constraints",
                )
            found[relation][name] = value
        return (cls(found["<="], found["="]) if len(rest) < len(constraints) else None), tuple(rest)

    @property
    def longest(self) -> float:
        return max([*self.bounds.values(), *self.given.values()])


def in_turns(budget: Budget) -> Callable[[bool], Budget]:
    """What each search may take: the last one all that is left, others a quarter of it."""
    clock = cpu_time if budget.cpu else time.monotonic
    begun = clock()

    def share(last: bool) -> Budget:
        if budget.seconds is None:
            return budget
        left = max(budget.seconds - (clock() - begun), 0.01 * budget.seconds)
        return replace(budget, seconds=left if last else left / 4)

    return share


def front_with_dead_time(
    find: Find, data: Trajectories, asked: DeadTime, order: int, form: Form
) -> Front:
    """The front that `find` gives for data with the inputs as they act."""
    inputs = [n for n in data.input_names or () if n != TIME]
    for name in (*asked.bounds, *asked.given):
        if name not in inputs:
            raise ConfigError(
                f"Constraint on the delay of {name!r:.40}: the control inputs are "
                f"{', '.join(inputs) or 'none'}.", "constraints"
            )  # fmt: skip
    delays, limits, told_apart = dict(asked.given), dict[str, float](), True
    if asked.bounds:
        search = _Search(find, data, asked, order, form)
        delays, limits = search.run()
        form, told_apart = search.form if any(delays.values()) else form, search.told_apart
    delays = {name: delay for name, delay in delays.items() if delay}
    front = _with_delays(find(data.delayed(delays), form, True), delays, limits, asked)
    if told_apart or front.verdict is None:
        return front
    text = (
        "The data do not tell inputs that are held between samples from smooth ones, which act "
        "half a step later: choose derivatives='zoh' or 'weak'."
    )
    verdict = replace(front.verdict, reasons=(*front.verdict.reasons, text))
    return replace(front, verdict=verdict)


def _with_delays(
    front: Front, delays: Mapping[str, float], limits: Mapping[str, float], asked: DeadTime
) -> Front:
    """The front of laws that have the delays, which its verdict reports."""
    reasons, figures = [], {}
    for name in asked.bounds:
        delay, by = delays.get(name, 0.0), limits.get(name, 0.0)
        figures[f"delay({name})"] = delay
        if not delay:
            reasons.append(f"The data ask for no dead time of {name}.")
            continue
        low, high = max(delay - by, 0.0), delay + by
        figures |= {f"delay({name}) lower": low, f"delay({name}) upper": high}
        text = f"{name} acts {delay:.4g} late (90 % interval: {low:.4g} to {high:.4g})."
        if high >= asked.bounds[name]:
            text += f" The bound is {asked.bounds[name]:g}: it may be more, allow more."
        reasons.append(text)
    rows = tuple(replace(c, law=c.law.with_delays(delays)) for c in front) if delays else None
    verdict = front.verdict
    if verdict is not None:
        rivals = tuple(replace(r, law=r.law.with_delays(delays)) for r in verdict.rivals)
        verdict = replace(
            verdict, law=verdict.law.with_delays(delays), rivals=rivals,
            reasons=(*verdict.reasons, *reasons), figures={**verdict.figures, **figures},
        )  # fmt: skip
    if rows is None:
        return replace(front, verdict=verdict)
    return replace(front, candidates=rows, verdict=verdict, kept=None)  # sums have no delays


@dataclass(eq=False)
class _Search:
    find: Find
    data: Trajectories
    asked: DeadTime
    order: int
    form: Form
    shots: dict[Law, ShootingFit] = field(default_factory=dict)  # the last of each structure
    told_apart: bool = True  # inputs that are held from smooth ones

    def run(self) -> tuple[dict[str, float], dict[str, float]]:
        """The delays, and half the widths of their intervals."""
        delays = self.roughly()
        for turn in range(ROUNDS):
            front = self.front(delays)
            if not len(front):
                return dict(self.asked.given), {}
            before = delays
            forms = self.forms if turn == 0 else (self.form,)
            delays, self.form = self.likeliest(front, before, forms)
            moved = max(abs(delays[n] - before[n]) for n in delays)
            if moved <= SETTLED * self.step:
                break
        limits = {}
        for name in self.asked.bounds:
            if delays[name] and not self.is_late(name, front, delays):
                delays[name] = 0.0
        for name in self.asked.bounds:
            if delays[name]:
                limits[name] = self.limit(name, front, delays)
        return delays, limits

    @cached_property
    def step(self) -> float:
        return median_step(self.data.t)

    @cached_property
    def derivatives(self) -> Derivatives:
        """Of the part of the data that all delays leave."""
        found = self.data.delayed({}, cut=self.asked.longest)
        return (second_derivatives if self.order == 2 else differentiate)(found)

    def late(self, delays: Mapping[str, float]) -> Trajectories:
        """The same observations for any delays."""
        return self.data.delayed(delays, cut=self.asked.longest)

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """Smooth inputs, and those that are held between samples, as far as the user leaves it."""
        if self.form != "auto":
            return (self.form,)
        return ("weak" if is_noisy(self.data) else "derivative", "zoh")

    def front(self, delays: Mapping[str, float]) -> Front:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            return self.find(self.late(delays), self.form, False)

    # About how late -------------------------------------------------------------------------------

    def roughly(self) -> dict[str, float]:
        """The delays that leave least of the integrals of many terms, one input after the other."""
        delays = {**self.asked.given, **dict.fromkeys(self.asked.bounds, 0.0)}
        forms, several = self.forms, len(self.asked.bounds) > 1
        for _ in range(2 if several else 1):
            for name, bound in self.asked.bounds.items():
                count = int(min(np.ceil(bound / self.step), GRID)) + 1
                grid = np.linspace(0.0, bound, max(count, 2))
                left = [
                    (self.unexplained({**delays, name: float(d)}, form), float(d), form)
                    for d in grid for form in forms
                ]  # fmt: skip
                _, delays[name], self.form = min(left)
        return delays

    def unexplained(self, delays: Mapping[str, float], form: Form) -> float:
        """Logarithms of what least squares leave of the integrals."""
        smooth = self.derivatives.trajectories
        moved = smooth._like(smooth.x, smooth.t, self.late(delays).u, None)
        names = [*(moved.names or ()), *(moved.input_names or ())]
        library, d = Library.polynomial(names, 2), self.data.obs_shape[0]
        features, targets = weak_rows(
            moved, library, window_points(self.derivatives), hold=form == "zoh"
        )
        scale = np.maximum(np.sqrt((features**2).mean(axis=0)), 1e-300)
        targets = targets[:, -d:]
        solved = np.linalg.lstsq(features / scale, targets, rcond=1e-8)[0]
        rest = ((targets - features / scale @ solved) ** 2).mean(axis=0)
        return float(np.log(np.maximum(rest, 1e-300)).sum())

    # Beside a law ---------------------------------------------------------------------------------

    def profiled(self, front: Front, delays: Mapping[str, float], form: Form) -> dict[str, float]:
        """The delays of the highest likelihood, within some samples of others."""
        delays, law = dict(delays), front.best()
        used = {str(s) for e in law.expressions for s in e.free_symbols}
        for name, bound in self.asked.bounds.items():
            if name not in used:  # what does not act is not late
                delays[name] = 0.0
                continue
            while True:
                at, reach = delays[name], 1.5 * self.step
                low, high = max(at - reach, 0.0), min(at + reach, bound)
                found = minimize_scalar(
                    lambda d, name=name: -self.shot(
                        front, {**delays, name: d}, form
                    ).log_likelihood,
                    bounds=(low, high), method="bounded",
                    options={"xatol": 0.01 * self.step, "maxiter": 20},
                )  # fmt: skip
                delays[name] = float(found.x)
                ends = [end for end in (low, high) if abs(found.x - end) <= 0.05 * self.step]
                if not ends or ends[0] in (0.0, bound):
                    break
        return delays

    def likeliest(
        self, front: Front, delays: Mapping[str, float], forms: Sequence[Form]
    ) -> tuple[dict[str, float], Form]:
        """Delays and form of the highest likelihood.

        A smooth input looks much like one that is held and acts half a step less late: where the
        data do not decide, the values are those at their times.
        """
        best, form = self.profiled(front, delays, forms[0]), forms[0]
        for other in forms[1:]:
            found = self.profiled(front, delays, other)
            one, two = self.fit(front, best, form), self.fit(front, found, other)
            memory = max(one, two, key=lambda fit: fit.total).correlation_time
            self.told_apart = abs(two.total - one.total) / memory > ODDS
            if two.total > one.total and self.told_apart:
                best, form = found, other
        return best, form

    def shot(self, front: Front, delays: Mapping[str, float], form: Form) -> ShootingFit:
        law = front.best()
        data = self.late(delays)
        if TIME in law.inputs:
            data = with_time(data)
        segments = Segments.of(
            data, order=self.order, zoh=form == "zoh",
            derivatives=self.derivatives if self.order == 1 else None,
        )  # fmt: skip
        last = self.shots.get(law)
        shot = shoot(
            law if last is None else last.law,
            segments,
            start=None if last is None else last.path[0],
        )
        self.shots[law] = shot
        return shot

    def fit(self, front: Front, delays: Mapping[str, float], form: Form) -> Fit:
        """The score of the chosen law of a front, each delay being one parameter and one term."""
        shot, count = self.shot(front, delays, form), sum(bool(d) for d in delays.values())
        law = shot.law.canonical()
        digits = TermValues(shot.segments.inputs_of(law)).cancelling_digits(law)
        return Fit(
            law, shot.noise.log_likelihood, front.complexity(front.best_candidate()) + count,
            len(shot.law.coefficients) + count, digits, lambda: shot.residual, shot.values,
            shot.segments.memory, shot.path[0].size + shot.noise.scale.size, INFORMATION,
        )  # fmt: skip

    def is_late(self, name: str, front: Front, delays: Mapping[str, float]) -> bool:
        """Whether a delay explains more than any law does without it, held inputs or smooth."""
        now, late = {**delays, name: 0.0}, self.fit(front, delays, self.form)

        def stands(other: Front) -> bool:
            fits = [self.fit(other, now, form) for form in self.forms]
            return Scores((late, *fits)).best is late

        return stands(front) and (not len(other := self.front(now)) or stands(other))

    def limit(self, name: str, front: Front, delays: Mapping[str, float]) -> float:
        """Half the width of an interval, by the curvature of the likelihood."""
        best, reach = self.fit(front, delays, self.form), 0.1 * self.step
        while True:
            around = [max(delays[name] + way * reach, 0.0) for way in (-1, 1)]
            sides = [self.fit(front, {**delays, name: d}, self.form).total for d in around]
            drop = (best.total - sum(sides) / 2) / best.correlation_time
            if drop > 0.5 or reach > self.asked.bounds[name]:
                break
            reach *= 2
        return WITHIN * reach / float(np.sqrt(2 * max(drop, 1e-3)))
