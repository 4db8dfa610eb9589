"""Which checkpoint to keep: low validation risk, and the simpler law when risks are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sjepa.symbolic import Law
from sjepa.symbolic.verdict import Verdict


@dataclass(frozen=True)
class Record:
    """What validation says about one checkpoint.

    ``risk`` is L_pred + λ_r L_roll on validation data, ``objective`` adds the regularizers,
    ``complexity`` counts the active terms at the reporting threshold (0 without a law), and
    ``eligible`` is false for a collapsed representation.
    """

    epoch: int
    risk: float
    complexity: float
    objective: float
    eligible: bool = True
    min_std: float = float("nan")
    covariance_trace: float = float("nan")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def choose(records: Sequence[Record], tolerance: float = 0.02) -> int:
    """Position of the record to keep.

    Collapsed ones count only when there is nothing else. Then lowest risk; among those within
    the relative tolerance of it the lowest complexity, then the lowest regularized objective,
    then the earliest. Comparing with the lowest risk rather than pairwise keeps the tolerance
    from adding up along a sequence of slightly worse checkpoints.
    """
    if not records:
        raise ValueError("There is no checkpoint to choose from.")
    eligible = [i for i, r in enumerate(records) if r.eligible] or list(range(len(records)))
    # NaN, from a rollout that left the room, compares as the worst.
    risk = {i: r if (r := records[i].risk) == r else float("inf") for i in eligible}
    limit = min(risk.values()) * (1.0 + tolerance)
    near = [i for i in eligible if risk[i] <= limit]
    return min(near, key=lambda i: (records[i].complexity, records[i].objective, records[i].epoch))


class Shortlist:
    """The checkpoints that can still be chosen, with their snapshots."""

    def __init__(self, tolerance: float = 0.02) -> None:
        self.tolerance = tolerance
        self.entries: list[tuple[Record, Any]] = []

    def offer(self, record: Record, snapshot: Any) -> bool:
        """Add a checkpoint; True if it is now the chosen one."""
        self.entries.append((record, snapshot))
        chosen = self.best()[0]
        limit = min(r.risk for r, _ in self.entries if r.eligible == chosen.eligible)
        # The lowest risk can only fall, so what is out of reach now stays out of reach.
        self.entries = [
            (r, s)
            for r, s in self.entries
            if r.eligible == chosen.eligible and not r.risk > limit * (1.0 + self.tolerance)
        ]
        return chosen is record

    def best(self) -> tuple[Record, Any]:
        return self.entries[choose([r for r, _ in self.entries], self.tolerance)]

    def state_dict(self) -> list[tuple[dict[str, Any], Any]]:
        return [(r.as_dict(), s) for r, s in self.entries]

    def load_state_dict(self, state: list[tuple[dict[str, Any], Any]]) -> None:
        self.entries = [(Record(**r), s) for r, s in state]


def constrained(law: Law, risk: float, delta: float) -> Verdict:
    """Whether the chosen checkpoint meets a constraint on held-out trajectories."""
    found = f"L_pred is {risk:.2g} on held-out trajectories, "
    if risk <= 1.1 * delta:
        return Verdict(law, True, (), (f"{found}within delta={delta:g}.",))
    missed = (
        f"{found}above delta={delta:g}: train longer, widen the library, lower lambda_s, or allow "
        "more."
    )
    return Verdict(law, False, (), (missed,))
