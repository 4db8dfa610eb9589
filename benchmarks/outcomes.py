"""What became of one call of `discover`, and the table of many: right laws, and warnings."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from sjepa.errors import NumericalWarning, SjepaError
from sjepa.symbolic import Front, Law


@dataclass(frozen=True)
class Outcome:
    """One law, whether it is right, the verdict on it and the first warning ("" for none).

    ``named`` is whether the right law is among the rivals.
    """

    suite: str
    search: str
    noise: float
    system: str
    seed: int
    form: str
    right: bool
    words: str
    law: str
    seconds: float
    on_front: bool | None = None
    r2: float | None = None
    verdict: str = ""
    named: bool = False

    def __str__(self) -> str:
        word = "right" if self.right else "WRONG"
        r2 = "" if self.r2 is None else f" R2 {self.r2:.4f}"
        name = f"{self.search} {self.noise:g} {self.system} ({self.seed}, {self.form})"
        law = "" if self.right else f"\n      {self.law}"
        law += f" [{self.verdict}{', truth among the rivals' if self.named else ''}]"
        words = f"\n      {self.words}" if self.words else ""
        return f"{name}: {word}{r2} {self.seconds:.1f} s{law}{words}"


def outcome(
    call: Callable[[], Front],
    right: Callable[[Law], bool],
    *,
    score: Callable[[Law], float] | None = None,
    **named: object,
) -> Outcome:
    """Call, judge, and take the processor time of the call alone."""
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            front = call()
        except SjepaError as error:
            spent = time.process_time() - begin
            return Outcome(**named, form="", right=False, words=str(error), law="", seconds=spent)  # type: ignore[arg-type]
    spent = time.process_time() - begin
    words = [str(w.message) for w in caught if issubclass(w.category, NumericalWarning)]
    law = front.best()
    good = right(law)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Outcome(
            **named,  # type: ignore[arg-type]
            form=front.form,
            right=good,
            words=(words or [""])[0],
            law="; ".join(law.lines(3)),
            seconds=spent,
            on_front=good or any(right(c.law) for c in front),
            r2=None if score is None else score(law),
            verdict="none" if front.verdict is None else front.verdict.word,
            named=front.verdict is not None and any(right(r.law) for r in front.verdict.rivals),
        )


class Record:
    """Prints outcomes as they come and, where a file is given, keeps them in it line by line."""

    def __init__(self, file: str) -> None:
        self.file, self.outcomes = file, list[Outcome]()

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        print(outcome, flush=True)
        if self.file:
            with Path(self.file).open("a") as lines:
                lines.write(json.dumps(asdict(outcome)) + "\n")


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="", help="a file to which outcomes are added")


def read(files: Iterable[str]) -> list[Outcome]:
    """Of a call that was made again the last outcome."""
    rows = (Outcome(**json.loads(row)) for f in files for row in Path(f).read_text().splitlines())
    return list({(o.suite, o.search, o.noise, o.system, o.seed): o for o in rows}.values())


def table(outcomes: Iterable[Outcome]) -> str:
    """Right laws and warnings of each suite, search and noise level, as Markdown."""
    groups: dict[tuple[str, str, float], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.suite, outcome.search, outcome.noise), []).append(outcome)
    head = (
        "data", "search", "noise", "right", "on the front", "R² > 0.9", "right, not adequate",
        "wrong, not adequate", "wrong, undecided or truth named", "CPU seconds",
    )  # fmt: skip
    rows = [head, ("---",) * len(head)]
    for (suite, search, noise), group in groups.items():
        good, bad = [o for o in group if o.right], [o for o in group if not o.right]
        scores = [o.r2 for o in group if o.r2 is not None]
        rows.append(
            (
                suite,
                search,
                f"{100 * noise:g} %",
                f"{len(good)} of {len(group)}",
                str(sum(bool(o.on_front) for o in group)),
                str(sum(r2 > 0.9 for r2 in scores)) if scores else "",
                warned(good),
                warned(bad),
                str(sum(o.named or o.verdict in ("undecided", "none") for o in bad)),
                f"{sum(o.seconds for o in group):.0f}",
            )
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def warned(outcomes: list[Outcome]) -> str:
    return f"{sum(bool(o.words) for o in outcomes)} of {len(outcomes)}"
