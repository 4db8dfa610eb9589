"""What every way of learning returns, and the encoders that stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from sjepa.symbolic import Front, Law
from sjepa.symbolic.verdict import Rival, Verdict


@dataclass(frozen=True, eq=False)
class FitResult:
    """A law, the front it stands on, the encoder of its coordinates, and diagnostics.

    `warnings` are sentences that call the result into question, `figures` the numbers behind them,
    `rivals` other adequate laws with their encoders, `correction` what was learnt together with
    the law and belongs to it. `judged` is the verdict of a search that comes to one by itself.
    """

    law: Law
    front: Front
    encoder: Callable[[Any], Any]
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    rivals: Sequence[Any] = ()
    correction: nn.Module | None = None
    judged: Verdict | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the law is adequate and what else it could be, with the reasons."""
        if self.judged is not None:
            return self.judged
        verdict = self.front.verdict
        rivals = tuple(Rival(r.law, 1.0) for r in self.rivals)
        if verdict is not None and self.law == self.front.best():
            adequate = False if self.warnings else verdict.adequate
            reasons = (*(d for d in self.warnings if d not in verdict.reasons), *verdict.reasons)
            return replace(
                verdict, law=self.law, adequate=adequate, rivals=(*verdict.rivals, *rivals),
                reasons=reasons,
            )  # fmt: skip
        reasons = tuple(self.warnings or self.notes)
        return Verdict(self.law, not self.warnings, rivals, reasons, dict(self.figures))

    @classmethod
    def trained(
        cls,
        law: Law,
        front: Front,
        encoder: Callable[[Any], Any],
        verdict: Verdict | None,
        notes: Sequence[str],
        correction: nn.Module | None = None,
    ) -> FitResult:
        """A law that was trained, with its verdict: a warning where that is "not adequate".

        A law that was learned beside a correction is not what predicts, and has none.
        """
        if verdict is None:
            reason = "The law was learned beside a correction: it alone is not what predicts."
            verdict = Verdict(law, None, (), (reason,))
        said = list(verdict.reasons)
        if adequate := verdict.adequate is not False:
            notes = [*notes, *said]
        figures = dict(verdict.figures) | {"adequate": float(verdict.adequate is True)}
        return cls(
            law, front, encoder, notes, () if adequate else said, figures,
            correction=correction, judged=verdict,
        )  # fmt: skip

    @classmethod
    def of_front(
        cls,
        front: Front,
        encoder: Callable[[Any], Any],
        law: Law | None = None,
        notes: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> FitResult:
        """The law of a front over given coordinates, by default its best, with its verdict.

        Figures are of the data that were searched: the share of their variance left unexplained
        unexplained.
        """
        law = front.best() if law is None else law
        place = front.position(law)
        row = front.best_candidate() if place is None else front[place]
        figures = {"residual_training": row.loss}
        verdict = front.verdict
        if verdict is not None and law == front.best():
            figures |= verdict.figures
            if verdict.adequate is False:
                warnings = [*warnings, *verdict.reasons]
            else:
                notes = [*notes, *verdict.reasons]
        return cls(law, front, encoder, [*notes, *front.notes], warnings, figures)


def fixed(module: nn.Module | None) -> nn.Module | None:
    """A trained part as it is used from now on: in double precision, on the CPU, unchanging."""
    return None if module is None else module.cpu().double().eval().requires_grad_(False)


def identity(x: Any) -> Any:
    """Observations as they are, each as one row."""
    return x.reshape(len(x), -1)


class Frozen(nn.Module):
    """A module that is only ever evaluated, in the precision of its own parameters.

    A bounded number of observations at a time: a network needs far more memory than its input.
    """

    def __init__(self, module: nn.Module, rows: int = 1024) -> None:
        super().__init__()
        self.module = module.eval().requires_grad_(False)
        self.rows = rows

    def forward(self, x: Tensor) -> Tensor:
        like = next(self.module.parameters(), None)
        with torch.no_grad():
            return torch.cat([
                self.module(part if like is None else part.to(like)).double().cpu()
                for part in x.split(self.rows)
            ])  # fmt: skip
