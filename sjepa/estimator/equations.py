"""The front of a fitted model as a table that a terminal can show."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sjepa.symbolic import Front, Law


# What is printed; the other columns are there for those who ask.
SHOWN = ("chosen", "complexity", "loss", "score", "equation")
WIDTH = 80


class Equations(pd.DataFrame):
    """A table whose text always has the equations: long ones are wrapped, none is hidden."""

    @property
    def _constructor(self) -> Any:
        return Equations

    @classmethod
    def of(cls, front: Front, law: Law) -> Equations:
        """The front's table; `chosen` marks the row that `law` is, or was before refinement."""
        table = cls(front.to_frame())
        place = front.position(law)
        table["chosen"] = [i == place for i in range(len(table))]
        return table

    def __repr__(self) -> str:
        if not set(SHOWN) <= set(self.columns):
            return super().__repr__()
        lines = [f"{'':2}{'complexity':>10} {'loss':>9} {'score':>7}  equation"]
        for row in self[list(SHOWN)].itertuples(index=False):
            mark = "> " if row.chosen else "  "
            start = f"{mark}{row.complexity:>10g} {row.loss:>9.3g} {row.score:>7.3g}  "
            for equation in str(row.equation).split("; "):
                room = WIDTH - len(start)
                while equation:
                    cut = equation if len(equation) <= room else equation[:room].rpartition(" ")[0]
                    cut = cut or equation[:room]
                    lines.append(start + cut)
                    equation, start = equation[len(cut) :].strip(), " " * len(start)
        return "\n".join(lines)
