"""What PySR has found so far, while it searches: the table it prints, the file it keeps."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from sjepa.backend import Problem
from sjepa.symbolic.text import to_text
from sjepa_backends.pysr.request import SCALE, PySRTask


# A row of the hall of fame as it is printed: complexity, loss, score, equation.
_ROW = re.compile(r"^(\d+)\s+(\S+)\s+\S+\s+y([₀-₉]*) = (.*)$")
_HEAD = re.compile(r"^Complexity\s+Loss")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
# Rows of the table that are shown for each output.
MAX_SHOWN = 8
# A file of the worker is not read beyond this size.
MAX_BYTES = 10_000_000


class PrintedTable:
    """The rows that PySR prints again and again, in our names and complexities."""

    def __init__(self, task: PySRTask, problem: Problem) -> None:
        self.task, self.problem = task, problem
        self.rows: dict[str, dict[float, tuple[str, str]]] = {}
        self.begins = False

    def with_table(self, line: str) -> str:
        """The line in our names, with the laws so far below it."""
        if _HEAD.match(line.strip()):
            self.begins = True
            return line
        found = _read(line, self.task, self.problem)
        if found is None:
            return line
        output, complexity, loss, equation = found
        rows = self.rows.setdefault(output, {})
        if self.begins:
            rows.clear()
        self.begins = False
        rows[complexity / SCALE] = (loss, equation)
        return f"{in_our_names(line, self.task, self.problem)}\n{self.table}"

    @property
    def table(self) -> str:
        lines = ["complexity      loss  equation"]
        for output, rows in self.rows.items():
            lines += [
                f"{complexity:10g}  {loss:>8}  {output} = {equation:.80}"
                for complexity, (loss, equation) in sorted(rows.items())[-MAX_SHOWN:]
            ]
        return "\n".join(lines)


def in_our_names(line: str, task: PySRTask, problem: Problem) -> str:
    """A printed row of the hall of fame with the problem's names; other lines as they are."""
    found = _read(line, task, problem)
    if found is None:
        return line
    output, complexity, loss, equation = found
    return f"{output} = {equation}  (loss {loss}, size {complexity})"


def _read(line: str, task: PySRTask, problem: Problem) -> tuple[str, int, str, str] | None:
    row = _ROW.match(line.strip())
    if row is None:
        return None
    complexity, loss, which, equation = row.groups()
    place = int(which.translate(_SUBSCRIPTS) or 1) - 1
    if place >= len(task.outputs):
        return None

    def column(match: re.Match[str]) -> str:
        i = int(match[1].translate(_SUBSCRIPTS))
        return to_text(task.columns[i]) if i < len(task.columns) else match[0]

    names = re.sub(r"\bx([₀-₉]+)", column, equation)
    return problem.outputs[task.outputs[place]], int(complexity), loss, names


def kept_equations(folder: Path, since: float, outputs: int) -> list[list[str]]:
    """The equations in the newest hall of fame below a folder, for each output.

    PySR writes it after every iteration, and a copy of it that is whole while it does.
    """
    if outputs == 1:
        return [_newest(folder, "hall_of_fame.csv", since)]
    names = [f"hall_of_fame_output{i + 1}.csv" for i in range(outputs)]
    return [_newest(folder, name, since) for name in names]


def _newest(folder: Path, name: str, since: float) -> list[str]:
    found = [(p.stat().st_mtime, p) for p in folder.rglob(f"{name}*") if p.is_file()]
    best: list[str] = []
    for when, path in sorted(found, reverse=True)[:2]:  # the file and its copy
        if when >= since and path.stat().st_size <= MAX_BYTES:
            texts = _equations(path)
            best = texts if len(texts) > len(best) else best
    return best


def _equations(path: Path) -> list[str]:
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        rows = list(csv.reader(file))
    if not rows or "Equation" not in rows[0]:
        return []
    at = rows[0].index("Equation")
    return [row[at] for row in rows[1:] if len(row) == len(rows[0]) and row[at]]
