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
    default = [o for o in outcomes if o.search == "default"]
    rows = ["| law | warned of |", "| --- | --- |"]
    for word, right in (("right", True), ("wrong", False)):
        selected = [o for o in default if o.right is right]
        share = sum(bool(o.words) for o in selected) / max(len(selected), 1)
        rows.append(f"| {word} | {warned(selected)} ({share:.1%}) |")
    return "\n".join(rows)


def main() -> None:
    outcomes = read(sys.argv[1:])
    blocks = {"warnings": warnings_of(outcomes)}
    for suite in dict.fromkeys(o.suite for o in outcomes):
        selected = [o for o in outcomes if o.suite == suite]
        seeds = ", ".join(map(str, sorted({o.seed for o in selected})))
        blocks[suite] = table(selected) + f"\n\nSeeds: {seeds}."
    text = PAGE.read_text(encoding="utf-8")
    for name, block in blocks.items():
        mark = f"<!-- table {name} -->\n"
        place = re.compile(re.escape(mark) + ".*?<!-- end -->", re.DOTALL)
        if not place.search(text):
            sys.exit(f"{PAGE.name} has no place for {name!r}: write the marks first.")
        text = place.sub(lambda _, new=mark + block: f"{new}\n<!-- end -->", text)
    write_whole(PAGE, text.encode())
    print(text)


if __name__ == "__main__":
    main()
