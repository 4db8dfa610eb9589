"""Run one of the paper's experiments and set our figures beside its own.

    python -m benchmarks.paper exp1 --profile fast --seeds 7 19 37 --out DIR

DIR gets metrics.parquet (long form), laws.json, tables.md, cycles.json and the figures. The same
command after an interruption resumes; with more seeds or conditions it runs only those.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks.paper.profiles import PROFILES
from benchmarks.paper.runner import EXPERIMENTS, SEEDS, run
from sjepa.errors import SjepaError


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.paper", description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--backend", default="stlsq", help="see 'sjepa backends'")
    parser.add_argument("--profile", choices=PROFILES, default="default")
    parser.add_argument("--conditions", nargs="+", help="only these")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    args = parser.parse_args()
    console = Console()
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=20),
        TextColumn("{task.fields[line]}"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bars:
        known: dict[str, TaskID] = {}

        def progress(task: str, line: str, share: float) -> None:
            if task not in known:
                known[task] = bars.add_task(task, total=1.0, line="")
            bars.update(known[task], completed=share, line=line)

        try:
            run(
                args.experiment, list(dict.fromkeys(args.seeds)), args.backend, args.profile,
                args.out, conditions=args.conditions, device=args.device, n_jobs=args.jobs,
                progress=progress,
            )  # fmt: skip
        except SjepaError as error:
            bars.stop()
            parser.exit(2, f"{error}\n")
    console.print(Markdown((args.out / "tables.md").read_text(encoding="utf-8")))
    console.print(f"Written to {args.out}")


if __name__ == "__main__":
    main()
