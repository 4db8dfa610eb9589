"""What acts beside a law: causes of a residual, compared by the same score in nats.

Beside every law that was simulated, each cause adds something to its velocities: functions of the
state (a term is missing), of the time (a forcing, a drift), jumps at some instants, or white noise
(a random walk). The likeliest is named if it is ahead of all others, and of noise alone, by the
odds that decide between laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from sjepa.inference.constants import ODDS, STRUCTURE
from sjepa.inference.corrections import bumps
from sjepa.inference.noise import Array
from sjepa.inference.residual_rows import Nats, ResidualRows, evaluated
from sjepa.inference.shooting import ShootingFit


# Jumps that are looked for at most, and after how many of them the evidence is taken.
COUNTS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90)
# Laws beside which they are looked for: those beside which something that varies explains most.
SPARSE_BESIDE = 5
# Times in which something smooth varies, as shares of a segment.
SCALES = (0.15, 0.3, 0.6)
# Frequencies that are compared at most.
MAX_WAVES = 200
# Noise with a memory: correlations between neighbors, and its variances beside white noise.
MEMORIES, SHARES = (0.5, 0.8, 0.9, 0.95), (1.0, 10.0, 100.0)


class Cause(NamedTuple):
    """What explains a residual best: its name and a sentence, nats ahead of all else."""

    name: str
    sentence: str
    lead: float


class _Explained(NamedTuple):
    name: str
    evidence: Nats
    cost: float
    detail: tuple[str, ...] = ()

    @property
    def nats(self) -> float:
        return self.evidence.total - self.cost

    def costing(self, more: float) -> _Explained:
        return self._replace(cost=self.cost + more)


Family = Callable[[ShootingFit, ResidualRows], Iterator[_Explained]]


SENTENCES = {
    "jumps": "No differential equation fits: the state jumps at {}. Cut the trajectories there, "
    "and fit what lies between.",
    "sudden": "No differential equation fits: the state, or a force on it, jumps at {}. Cut the "
    "trajectories there, and fit what lies between.",
    "switches": "No differential equation fits: something switches the velocity of {} at {}. Give "
    "the switch as an input, or cut the trajectories there.",
    "walk": "The changes of the state are a random walk: noise moves {} itself, not only its "
    "readings. A law of its mean needs longer or more trajectories.",
    "drift": "A coefficient drifts while the data are recorded: that of {} in the equation of {}. "
    "Give the time, as in the term t*{}, or what the coefficient depends on.",
    "periodic": "A periodic forcing that is not in the law acts on {}, of angular frequency {}. "
    "Give it as an input, or the term sin({}*t + a).",
    "hidden": "Something that varies with time acts on {}: a state is not measured, or an input. "
    "Measure it, or try order=2 or Discrete(lags=1).",
}


def cause_of(
    fits: Iterable[tuple[ShootingFit, float]], time_left: Callable[[], bool] = lambda: True
) -> Cause | None:
    """The cause of what laws leave, given their fits and complexities; None where none is named.

    A cause is compared beside every law: what a wrong law adapts to is simpler beside the
    right one. Where the time is up before all are compared, none is named.
    """
    beside = []
    for shot, complexity in fits:
        rows = ResidualRows.of(shot)
        length = _length(shot, complexity, rows)
        smooth = _in_time(explanations(shot, rows, SMOOTH), time_left)
        if smooth is None:
            return None
        beside.append((max(one.nats for one in smooth) - length, length, shot, rows, smooth))
    beside.sort(key=lambda one: -one[0])
    found: dict[str, _Explained] = {}
    for k, (_, length, shot, rows, explained) in enumerate(beside):
        if k < SPARSE_BESIDE:
            sparse = _in_time(explanations(shot, rows, SPARSE, plain=True), time_left)
            if sparse is None:
                return None
            explained += sparse
        for one in explained:
            one = one.costing(length)
            if one.name not in found or one.nats > found[one.name].nats:
                found[one.name] = one
    best, *others = sorted(found.values(), key=lambda one: -one.nats)
    sudden = {"jumps", "switches"}
    rest = [one for one in others if not {one.name, best.name} <= sudden]
    lead = min(_sure_lead(best, other) for other in rest)
    if best.name not in SENTENCES or not lead > ODDS:
        return None
    name, detail = best.name, best.detail
    if len(rest) < len(others) and not _sure_lead(best, found[(sudden - {name}).pop()]) > ODDS:
        name, detail = "sudden", detail[-1:]
    return Cause(name, SENTENCES[name].format(*detail), lead)


def _in_time(
    explained: Iterator[_Explained], time_left: Callable[[], bool]
) -> list[_Explained] | None:
    found = []
    for one in explained:
        found.append(one)
        if not time_left():
            return None
    return found


def is_moved(shot: ShootingFit, time_left: Callable[[], bool] = lambda: True) -> bool:
    """Whether anything that varies in time explains the residual better than noise with a memory.

    All causes do, so where this is False, or the time is up, none is looked for.
    """
    found: dict[str, _Explained] = {}
    both = _in_time(explanations(shot, ResidualRows.of(shot), (_walk, _hidden)), time_left)
    for one in both or ():
        if one.name not in found or one.nats > found[one.name].nats:
            found[one.name] = one
    if both is None:
        return False
    noise = found.pop("noise")
    return max(_sure_lead(one, noise) for one in found.values()) > ODDS


def _sure_lead(one: _Explained, other: _Explained) -> float:
    """Nats by which one is ahead, as far as outliers or a few segments do not make them.

    What segments share is compared with heavy tails too; of what each has by itself, the standard
    error of the lead is taken off, from how it varies over segments.
    """
    lead, tails = one.nats - other.nats, other.evidence.robust
    if one.evidence.robust is not None:
        if tails is None:
            return lead
        return min(lead, one.evidence.robust - one.cost - tails + other.cost)
    gain = one.evidence.each - other.evidence.each
    error = math.sqrt(len(gain)) * float(gain.std(ddof=1)) if len(gain) > 1 else 0.0
    return lead - error


def _length(shot: ShootingFit, complexity: float, rows: ResidualRows) -> float:
    """Nats for the law's terms, and for the affine ones that are added to them."""
    numbers = rows.added + len(shot.law.coefficients)
    return STRUCTURE * (complexity + rows.added) + rows.each * numbers


def explanations(
    shot: ShootingFit, rows: ResidualRows, families: Sequence[Family], plain: bool = False
) -> Iterator[_Explained]:
    """Noise, and each cause beside one law, with nats; with `plain` for white noise alone."""
    yield _Explained("noise", rows.evidence(), 0.0)
    kinds = [(rows, 0.0)]
    if not plain:
        more, highest = 2 * rows.each, rows.evidence().total
        for rho, share in product(MEMORIES, SHARES):
            colored = rows.white(rho, share)
            nats = colored.evidence()
            yield _Explained("noise", nats, more)
            if nats.total - more > highest:
                kinds, highest = [(rows, 0.0), (colored, more)], nats.total - more
    for some, own in kinds:
        for family in families:
            for one in family(shot, some):
                yield one.costing(own + rows.each + STRUCTURE)


def _missing(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A function of the state, alone or beside what noise in the states makes of it."""
    size, outputs = shot.path.shape[2], rows.force.shape[3]
    z = rows.inputs[..., :size]
    values = bumps(z.reshape(-1, size))(z)
    each = [rows.on_output(j, values) for j in range(outputs)]
    for j, columns in enumerate(each):
        yield _Explained("missing", rows.evidence(columns), math.log(outputs))
        beside = rows.beside(columns)
        smooth = max(
            (beside.evidence_of_each(rows.force[..., j] @ root) for root in _roots(rows)),
            key=lambda one: one.total,
        )  # fmt: skip
        yield _Explained("missing", smooth, math.log(3 * outputs) + rows.each + STRUCTURE)
    if outputs > 1:
        yield _Explained("missing", rows.evidence(np.concatenate(each, axis=2)), 0.0)


def _drift(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A coefficient that is linear in time."""
    law = shot.law
    t = rows.t - rows.t.mean()
    pairs = [(j, term) for j, row in enumerate(law.terms) for _, term in row]
    for j, term in pairs:
        values = evaluated(term, law, rows.inputs) * t
        nats = rows.evidence(rows.on_output(j, values[..., None]))
        text = str(term)
        yield _Explained("drift", nats, math.log(len(pairs)), (text, shot.law.outputs[j], text))


def _periodic(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A sine of the time, its frequency among those that the data tell apart."""
    whole = float(np.ptp(rows.t))
    step = float(np.median(np.diff(rows.t, axis=1)))
    count = int(min(MAX_WAVES, whole / step / 2))
    waves = np.pi * np.arange(2, count + 2) / whole
    outputs = rows.force.shape[3]
    for j in range(outputs):

        def nats(w: float, j: int = j, robust: bool = False) -> Nats:
            phase = w * (rows.t - rows.t.min())
            waves = np.stack([np.sin(phase), np.cos(phase)], axis=2)
            return rows.evidence(rows.on_output(j, waves), robust)

        w = float(max(waves, key=lambda w: nats(w).total))
        for width in np.pi / whole / 3.0 ** np.arange(1, 5):
            w = max((w - width, w, w + width), key=lambda w: nats(w).total)
        cost = math.log(outputs) + 0.5 * math.log(rows.degrees)
        yield _Explained(
            "periodic", nats(w, robust=True), cost, (shot.law.outputs[j], f"{w:.3g}", f"{w:.3g}")
        )


def _walk(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """White noise in the velocities."""
    s, n, b, outputs = rows.force.shape
    yield _Explained(
        "walk", rows.evidence_of_each(rows.force.reshape(s, n, b * outputs)), 0.0,
        (", ".join(shot.law.outputs),),
    )  # fmt: skip


def _hidden(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A smooth function of the time in each segment."""
    outputs = rows.force.shape[3]
    for root in _roots(rows):
        for j in range(outputs):
            nats = rows.evidence_of_each(rows.force[..., j] @ root)
            yield _Explained("hidden", nats, math.log(3 * outputs), (shot.law.outputs[j],))


def _roots(rows: ResidualRows) -> Iterator[Array]:
    """Smooth functions (B, m) of the time within a segment, on three scales."""
    b = rows.force.shape[2]
    gap = np.subtract.outer(np.arange(b), np.arange(b)) / b
    for share in SCALES:
        values, u = np.linalg.eigh(np.exp(-0.5 * (gap / share) ** 2))
        kept = values > 1e-6 * values.max()
        yield u[:, kept] * np.sqrt(values[kept])


def _jumps(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """The state jumps at some instants, each time by an amount of its own."""
    count, n, instants, outputs = rows.force.shape
    groups = np.zeros((count * instants, count * n, outputs))
    for k in range(count):
        part = groups[k * instants : (k + 1) * instants]
        part[:, k * n : (k + 1) * n] = np.moveaxis(rows.force[k], 1, 0)
    yield from _sparse("jumps", rows, _Groups(rows, groups), ())


def _switches(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A force on one output that is constant between some instants, which lie within intervals.

    Few changes leave it as it is until the next; many come in pairs, in each segment by itself.
    """
    count, n, instants, outputs = rows.force.shape
    for j in range(outputs):
        force = rows.force[..., j]
        after = force[..., ::-1].cumsum(axis=2)[..., ::-1]
        groups = np.zeros((count * instants, count * n, 2))
        for k in range(count):
            part = groups[k * instants : (k + 1) * instants].reshape(instants, count, n, 2)
            part[:, k, :, 0] = force[k].T
            part[:-1, k, :, 1] = after[k].T[1:]
            later = (rows.trajectory == rows.trajectory[k]) & (rows.t[:, 0] > rows.t[k, -1])
            part[..., 1][:, later] = after[later][:, :, 0]
        detail = (shot.law.outputs[j],)
        yield from _sparse("switches", rows, _Groups(rows, groups), detail)
        yield from _sparse("switches", rows, _Pulses(rows, force, after), detail)


class _Groups:
    """Groups of columns (K, S N, g), one for each instant of each segment."""

    def __init__(self, rows: ResidualRows, groups: Array) -> None:
        count, _, g = groups.shape
        self.count, self.each, self.instants, self.groups = count, 1, rows.t.shape[1], groups
        flat = rows.free(np.moveaxis(groups, 0, 1).reshape(*rows.y.shape, -1))
        flat = rows.without_law(flat.reshape(rows.y.size, -1)).reshape(-1, count, g)
        self.basis = np.linalg.qr(np.moveaxis(flat, 1, 0))[0]
        self.always = np.zeros((rows.y.size, 0))

    def pick(self, y: Array, q: Array, chosen: list[int]) -> list[int]:
        """The best of each segment, the best of all first."""
        gain = np.square(self.basis.transpose(0, 2, 1) @ y).sum(axis=1)
        gain[chosen] = -1.0
        gain = gain.reshape(-1, self.instants)
        best = np.arange(len(gain)) * self.instants + gain.argmax(axis=1)
        return [int(k) for k in best[np.argsort(-gain.max(axis=1))]]

    def columns(self, k: int) -> Array:
        return np.asarray(self.groups[k])

    def when(self, k: int) -> list[int]:
        return [k]


class _Pulses:
    """A force that is on between two instants of a segment, beside one that is always on."""

    def __init__(self, rows: ResidualRows, force: Array, after: Array) -> None:
        self.segments, self.n, self.instants = force.shape
        self.y = rows.unexplained
        self.force, self.after, self.each = force, after, 2
        self.free = rows.free(after)
        self.count = self.segments * self.instants
        self.always = np.zeros((self.count // self.instants, self.n, self.segments))
        self.always[np.arange(self.segments), :, np.arange(self.segments)] = after[:, :, 0]
        self.always = self.always.reshape(-1, self.segments)

    def pick(self, y: Array, q: Array, chosen: list[int]) -> list[int]:
        rest = self.free
        if q.shape[1]:
            own = q.reshape(self.segments, self.n, -1)
            inner = np.swapaxes(own, 1, 2) @ rest
            rest = rest - own @ inner
        told = (np.swapaxes(rest, 1, 2) @ y.reshape(self.segments, self.n, 1))[..., 0]
        gram = np.swapaxes(rest, 1, 2) @ rest
        size = np.diagonal(gram, axis1=1, axis2=2)
        norm = size[:, :, None] + size[:, None] - 2 * gram
        gain = (told[:, :, None] - told[:, None]) ** 2 / np.maximum(norm, 1e-9 * size.max())
        pairs = self.instants**2
        gain = np.triu(gain, 1).reshape(self.segments, pairs)
        best = np.arange(self.segments) * pairs + gain.argmax(axis=1)
        ordered = best[np.argsort(-gain.max(axis=1))]
        return [int(k) for k in ordered if int(k) not in chosen]

    def columns(self, k: int) -> Array:
        s, pair = divmod(k, self.instants**2)
        found = np.zeros((self.segments, self.n, 4))
        for i, b in enumerate(divmod(pair, self.instants)):
            found[s, :, 2 * i] = self.after[s, :, b]
            found[s, :, 2 * i + 1] = self.force[s, :, max(b - 1, 0)]
        return found.reshape(-1, 4)

    def alike(self, every: Array, free: Callable[[Array], Array]) -> Array:
        """Pulses of one size: a switch has two positions. Each end lies anywhere in an interval."""
        always, ends = every[:, : self.segments], every[:, self.segments :]
        pulses = ends[:, ::4] - ends[:, 2::4]
        whole = free(np.concatenate([always.sum(axis=1, keepdims=True), pulses], axis=1))
        size = np.linalg.lstsq(whole, self.y, rcond=1e-9)[0]
        first, rest = always.sum(axis=1), pulses @ np.sign(size[1:])
        level = np.stack([first, rest], axis=1)
        # Where a segment begins in the other position, that is a level of its own.
        return np.concatenate([level, always, ends[:, 1::2] / math.sqrt(12)], axis=1)

    def when(self, k: int) -> list[int]:
        s, pair = divmod(k, self.instants**2)
        return [s * self.instants + b for b in divmod(pair, self.instants)]


def _sparse(
    name: str, rows: ResidualRows, groups: _Groups | _Pulses, detail: tuple[str, ...]
) -> Iterator[_Explained]:
    """Some groups of columns, added one after the other by what they explain."""

    def free(columns: Array) -> Array:
        one = rows.free(columns.reshape(*rows.y.shape, -1))
        return rows.without_law(one.reshape(rows.y.size, -1))

    y, q = rows.unexplained, np.linalg.qr(free(groups.always))[0]
    parts, chosen, best, falls = [groups.always], [], -math.inf, 0  # type: ignore[var-annotated]
    for number in COUNTS:
        if number > groups.count // (4 * groups.each) or falls > 2:
            break
        y = rows.unexplained - q @ (q.T @ rows.unexplained)
        while len(chosen) < number:
            new = groups.pick(y, q, chosen)[: number - len(chosen)]
            if not new:
                return
            chosen += new
            parts += [groups.columns(k) for k in new]
            columns = free(np.concatenate(parts[-len(new) :], axis=1))
            q = np.concatenate([q, np.linalg.qr(columns - q @ (q.T @ columns))[0]], axis=1)
            y = rows.unexplained - q @ (q.T @ rows.unexplained)
        changes = number * groups.each
        places = gammaln(groups.count + 1) - gammaln(changes + 1)
        places -= gammaln(groups.count - changes + 1)
        every = np.concatenate(parts, axis=1)
        tried = [every] + ([groups.alike(every, free)] if isinstance(groups, _Pulses) else [])
        found = [rows.evidence(one.reshape(*rows.y.shape, -1)) for one in tried]
        nats = max(found, key=lambda one: one.total)
        times = rows.t.reshape(-1)[[i for k in chosen for i in groups.when(k)]]
        at = sorted({f"{t:.3g}" for t in times}, key=float)
        text = "t = " + ", ".join(at[:4]) + (f" and {len(at) - 4} more" if len(at) > 4 else "")
        explained = _Explained(name, nats, float(places), (*detail, text))
        yield explained
        falls = 0 if explained.nats > best else falls + 1
        best = max(best, explained.nats)


SMOOTH = (_missing, _drift, _periodic, _walk, _hidden)
SPARSE = (_jumps, _switches)
