"""Put the tables of kept outcomes into docs/results/known-laws.md, between its marks.

    python benchmarks/known.py --seeds 1,2 --out FILE
    python benchmarks/known_page.py FILE [FILE ...]

A table stands between `<!-- table NAME -->` and `<!-- end -->`; NAME is that of the data, or
`warnings` for those of all runs of the default call.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from outcomes import Outcome, read, table, warned

from sjepa.storage import write_whole


PAGE = Path(__file__).parents[1] / "docs" / "results" / "known-laws.md"


def warnings_of(outcomes: list[Outcome]) -> str:
    own = [o for o in outcomes if o.search == "default"]
    rows = ["| law | warned of |", "| --- | --- |"]
    for word, right in (("right", True), ("wrong", False)):
        some = [o for o in own if o.right is right]
        share = sum(bool(o.words) for o in some) / max(len(some), 1)
        rows.append(f"| {word} | {warned(some)} ({share:.1%}) |")
    return "\n".join(rows)


def main() -> None:
    outcomes = read(sys.argv[1:])
    blocks = {"warnings": warnings_of(outcomes)}
    for suite in dict.fromkeys(o.suite for o in outcomes):
        some = [o for o in outcomes if o.suite == suite]
        seeds = ", ".join(map(str, sorted({o.seed for o in some})))
        blocks[suite] = table(some) + f"\n\nSeeds: {seeds}."
    text = PAGE.read_text(encoding="utf-8")
    for name, block in blocks.items():
        mark = f"<!-- table {name} -->\n"
        found = re.compile(re.escape(mark) + ".*?<!-- end -->", re.DOTALL)
        if not found.search(text):
            sys.exit(f"{PAGE.name} has no place for {name!r}: write the marks first.")
        text = found.sub(lambda _, new=mark + block: f"{new}\n<!-- end -->", text)
    write_whole(PAGE, text.encode())
    print(text)


if __name__ == "__main__":
    main()
