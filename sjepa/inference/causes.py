"""What acts beside a law: causes of a residual, compared by the same score in nats.

Beside every law that was simulated, each cause adds something to its velocities: functions of the
state (a term is missing), of the time (a forcing, a drift), jumps at some instants, or white noise
(a random walk). The likeliest is named if it is ahead of all others, and of noise alone, by the
odds that decide between laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from sjepa.inference.constants import ODDS, STRUCTURE
from sjepa.inference.noise import Array
from sjepa.inference.probes import bumps
from sjepa.inference.residual_rows import ResidualRows, evaluated
from sjepa.inference.shooting import ShootingFit


# Jumps that are looked for at most, and after how many of them the evidence is taken.
COUNTS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90)
# Laws beside which they are looked for: those beside which something that varies explains most.
SPARSE_BESIDE = 3
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
    nats: float
    detail: tuple[str, ...] = ()


Family = Callable[[ShootingFit, ResidualRows], Iterator[_Explained]]


SENTENCES = {
    "jumps": "No differential equation fits: the state jumps at {}. Cut the trajectories there, "
    "and fit what lies between.",
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


def cause_of(fits: Iterable[tuple[ShootingFit, float]]) -> Cause | None:
    """The cause of what laws leave, given their fits and complexities; None where none is named.

    A cause is compared beside every law: what a wrong law bends itself to is simpler beside the
    right one.
    """
    beside = []
    for shot, complexity in fits:
        rows = ResidualRows.of(shot)
        length = _length(shot, complexity, rows)
        smooth = list(explanations(shot, rows, SMOOTH))
        beside.append((max(one.nats for one in smooth) - length, length, shot, rows, smooth))
    beside.sort(key=lambda one: -one[0])
    found: dict[str, _Explained] = {}
    for k, (_, length, shot, rows, explained) in enumerate(beside):
        if k < SPARSE_BESIDE:
            explained += explanations(shot, rows, SPARSE, plain=True)
        for one in explained:
            one = one._replace(nats=one.nats - length)
            if one.name not in found or one.nats > found[one.name].nats:
                found[one.name] = one
    best, *others = sorted(found.values(), key=lambda one: -one.nats)
    lead = best.nats - others[0].nats
    if best.name not in SENTENCES or not lead > ODDS:
        return None
    return Cause(best.name, SENTENCES[best.name].format(*best.detail), lead)


def is_moved(shot: ShootingFit) -> bool:
    """Whether anything that varies in time explains the residual better than noise with a memory.

    All causes do, so where this is False none is looked for.
    """
    nats: dict[str, float] = {}
    for one in explanations(shot, ResidualRows.of(shot), (_walk, _hidden)):
        nats[one.name] = max(nats.get(one.name, -math.inf), one.nats)
    return max(nats.values()) - nats["noise"] > ODDS


def _length(shot: ShootingFit, complexity: float, rows: ResidualRows) -> float:
    """Nats for the law's terms, and for the affine ones that are added to them."""
    numbers = rows.added + len(shot.law.coefficients)
    return STRUCTURE * (complexity + rows.added) + rows.each * numbers


def explanations(
    shot: ShootingFit, rows: ResidualRows, families: Sequence[Family], plain: bool = False
) -> Iterator[_Explained]:
    """Noise, and each cause beside one law, with nats; with `plain` for white noise alone."""
    yield _Explained("noise", rows.evidence())
    kinds = [(rows, 0.0)]
    if not plain:
        memory = [rows.white(rho, share) for rho in MEMORIES for share in SHARES]
        colored, more = max(memory, key=ResidualRows.evidence), 2 * rows.each
        yield _Explained("noise", colored.evidence() - more)
        if colored.evidence() - more > rows.evidence():
            kinds.append((colored, more))
    for some, own in kinds:
        for family in families:
            for one in family(shot, some):
                yield one._replace(nats=one.nats - own - rows.each - STRUCTURE)


def _names(shot: ShootingFit) -> tuple[str, ...]:
    return tuple(shot.law.outputs)


def _missing(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A function of the state."""
    size, outputs = shot.path.shape[2], rows.force.shape[3]
    z = rows.inputs[..., :size]
    values = bumps(z.reshape(-1, size))(z)
    each = [rows.on_output(j, values) for j in range(outputs)]
    for columns in each:
        yield _Explained("missing", rows.evidence(columns) - math.log(outputs))
    if outputs > 1:
        yield _Explained("missing", rows.evidence(np.concatenate(each, axis=2)))


def _drift(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A coefficient that is linear in time."""
    law = shot.law
    t = rows.t - rows.t.mean()
    pairs = [(j, term) for j, row in enumerate(law.terms) for _, term in row]
    for j, term in pairs:
        values = evaluated(term, law, rows.inputs) * t
        nats = rows.evidence(rows.on_output(j, values[..., None])) - math.log(len(pairs))
        text = str(term)
        yield _Explained("drift", nats, (text, _names(shot)[j], text))


def _periodic(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A sine of the time, its frequency among those that the data tell apart."""
    whole = float(np.ptp(rows.t))
    step = float(np.median(np.diff(rows.t, axis=1)))
    count = int(min(MAX_WAVES, whole / step / 2))
    waves = np.pi * np.arange(2, count + 2) / whole
    outputs = rows.force.shape[3]
    for j in range(outputs):

        def nats(w: float, j: int = j) -> float:
            phase = w * (rows.t - rows.t.min())
            waves = np.stack([np.sin(phase), np.cos(phase)], axis=2)
            return rows.evidence(rows.on_output(j, waves))

        w = float(max(waves, key=nats))
        for width in np.pi / whole / 3.0 ** np.arange(1, 5):
            w = max((w - width, w, w + width), key=nats)
        cost = math.log(outputs) + 0.5 * math.log(rows.degrees)
        yield _Explained("periodic", nats(w) - cost, (_names(shot)[j], f"{w:.3g}", f"{w:.3g}"))


def _walk(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """White noise in the velocities."""
    s, n, b, outputs = rows.force.shape
    yield _Explained(
        "walk", rows.evidence_of_each(rows.force.reshape(s, n, b * outputs)),
        (", ".join(_names(shot)),),
    )  # fmt: skip


def _hidden(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A smooth function of the time in each segment."""
    outputs, b = rows.force.shape[3], rows.force.shape[2]
    gap = np.subtract.outer(np.arange(b), np.arange(b)) / b
    for share in (0.15, 0.3, 0.6):
        values, u = np.linalg.eigh(np.exp(-0.5 * (gap / share) ** 2))
        kept = values > 1e-6 * values.max()
        root = u[:, kept] * np.sqrt(values[kept])
        for j in range(outputs):
            columns = rows.force[..., j] @ root
            nats = rows.evidence_of_each(columns) - math.log(3 * outputs)
            yield _Explained("hidden", nats, (_names(shot)[j],))


def _jumps(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """The state jumps at some instants, each time by an amount of its own."""
    s, n, b, outputs = rows.force.shape
    whole = np.zeros((s * b, s * n, outputs))
    for k in range(s):
        whole[k * b : (k + 1) * b, k * n : (k + 1) * n] = np.moveaxis(rows.force[k], 1, 0)
    yield from _sparse("jumps", rows, whole, ())


def _switches(shot: ShootingFit, rows: ResidualRows) -> Iterator[_Explained]:
    """A force on one output that is constant between some instants, which lie within intervals."""
    s, n, b, outputs = rows.force.shape
    for j in range(outputs):
        force = rows.force[..., j]
        after = force[..., ::-1].cumsum(axis=2)[..., ::-1]
        whole = np.zeros((s * b, s * n, 2))
        for k in range(s):
            part = whole[k * b : (k + 1) * b].reshape(b, s, n, 2)
            part[:, k, :, 0] = force[k].T
            part[:-1, k, :, 1] = after[k].T[1:]
            later = (rows.trajectory == rows.trajectory[k]) & (rows.t[:, 0] > rows.t[k, -1])
            part[..., 1][:, later] = after[later][:, :, 0]
        yield from _sparse("switches", rows, whole, (_names(shot)[j],))


def _sparse(
    name: str, rows: ResidualRows, groups: Array, detail: tuple[str, ...]
) -> Iterator[_Explained]:
    """Some groups of columns (K, S N, g), added one after the other by what they explain."""
    count, _, g = groups.shape
    shape = (*rows.y.shape, -1)
    flat = rows.free(np.moveaxis(groups, 0, 1).reshape(shape)).reshape(len(rows.unexplained), -1)
    flat = rows.without_law(flat)
    basis = np.linalg.qr(np.moveaxis(flat.reshape(-1, count, g), 1, 0))[0]
    y, q = rows.unexplained, np.zeros((len(flat), 0))
    chosen: list[int] = []
    best, falls, instants = -math.inf, 0, rows.t.shape[1]
    for number in COUNTS:
        if number > count // 4 or falls > 1:
            break
        while len(chosen) < number:  # at most one of each segment at a time
            gain = np.square(basis.transpose(0, 2, 1) @ y).sum(axis=1)
            gain[chosen] = -1.0
            each = gain.reshape(-1, instants)
            first = np.arange(len(each)) * instants + each.argmax(axis=1)
            new = first[np.argsort(-gain[first])][: number - len(chosen)].tolist()
            chosen += new
            columns = np.concatenate([flat[:, g * k : g * k + g] for k in new], axis=1)
            q = np.concatenate([q, np.linalg.qr(columns - q @ (q.T @ columns))[0]], axis=1)
            y = rows.unexplained - q @ (q.T @ rows.unexplained)
        columns = np.concatenate([groups[k] for k in chosen], axis=1)
        places = gammaln(count + 1) - gammaln(number + 1) - gammaln(count - number + 1)
        nats = rows.evidence(columns.reshape(shape)) - float(places)
        at = sorted({f"{t:.3g}" for t in rows.t.reshape(-1)[chosen]}, key=float)
        text = "t = " + ", ".join(at[:4]) + (f" and {len(at) - 4} more" if len(at) > 4 else "")
        yield _Explained(name, nats, (*detail, text))
        best, falls = max(best, nats), 0 if nats > best else falls + 1


SMOOTH = (_missing, _drift, _periodic, _walk, _hidden)
SPARSE = (_jumps, _switches)
