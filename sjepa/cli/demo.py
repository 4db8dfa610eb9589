"""``sjepa demo``: from noisy measurements to an equation, on embedded data."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sjepa.cli.app import app


@app.command()
def demo() -> None:
    """Find the law of a pendulum with air drag from noisy measurements of its state."""
    from sjepa.data import SYSTEMS, simulate
    from sjepa.discover import discover

    console = Console()
    system = SYSTEMS["drag_pendulum"]
    data = simulate(system, seed=0, noise=0.01)
    console.print(
        f"{len(data)} measured trajectories of angle q and speed p, {data.lengths.sum()} points, "
        "1 % noise. No derivatives, no hints about the law."
    )
    start = time.perf_counter()
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console
    )
    with bar:
        task = bar.add_task("smoothing and differentiating", total=1.0)
        front = discover(
            data,
            backend="subset",
            progress=lambda line, share: bar.update(task, description=line, completed=share),
        )
    best = front.best_candidate()
    console.print(f"\nFound in {time.perf_counter() - start:.1f} s:\n")
    for line in best.law.lines(digits=4):
        console.print(f"    {line}", style="bold")
    console.print("\nThe data were made with\n")
    for name, equation in zip(system.inputs, system.equations, strict=True):
        console.print(f"    {name}' = {equation}")
    console.print(
        f"\nComplexity {best.terms:g} (terms), {best.tree:g} (tree). "
        + ("Proven: no shorter law of the library fits as well." if best.certified else "")
    )
    console.print("\nThe front it was chosen from:\n")
    for candidate in front:
        console.print(
            f"    {candidate.terms:5.1f}   {candidate.loss:9.2e}   "
            f"{'; '.join(candidate.law.lines(digits=3))}",
            overflow="ellipsis",
            no_wrap=True,
        )
