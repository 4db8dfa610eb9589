"""``sjepa demo``: from observations to coordinates and an equation, on embedded data."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sjepa.cli.app import app


@app.command()
def demo() -> None:
    """Find the law of a pendulum: from noisy states, then from mixed observations."""
    console = Console(markup=False)
    _from_states(console)
    console.rule()
    _from_observations(console)


def _timed(console: Console, first: str, work: Callable[[Any], Any]) -> Any:
    """Run with a progress bar; `work` gets the function that moves it."""
    start = time.perf_counter()
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task(first, total=1.0)
        result = work(lambda line, share: bar.update(task, description=line[:60], completed=share))
        bar.update(task, completed=1.0)
    console.print(f"\nFound in {time.perf_counter() - start:.1f} s:\n")
    return result


def _from_states(console: Console) -> None:
    from sjepa.data import SYSTEMS, simulate
    from sjepa.discovery import discover
    from sjepa.symbolic.names import left_side

    system = SYSTEMS["drag_pendulum"]
    data = simulate(system, seed=0, noise=0.01)
    console.print(
        f"1. {len(data)} trajectories of the angle q and speed p of a pendulum with air drag, "
        f"{data.lengths.sum()} points, 1 % noise.\n"
    )
    front = _timed(
        console, "smoothing", lambda tell: discover(data, backend="subset", verbose=tell)
    )
    best = front.best_candidate()
    _show(console, best.law.lines(digits=4))
    console.print("\nThe data were made with\n")
    _show(
        console,
        [f"{left_side(n)} = {e}" for n, e in zip(system.inputs, system.equations, strict=True)],
    )
    proof = "; proven: no shorter law of the library fits as well" if best.certified else ""
    console.print(f"\nComplexity {best.terms:g} (terms), {best.tree:g} (tree){proof}.\n")


def _from_observations(console: Console) -> None:
    from sjepa.data import paper_data
    from sjepa.estimator import SJEPA

    data = paper_data("exp1")
    train, test = data["train"][:60], data["test"]
    console.print(
        "\n2. The same without drag, but each observation is a vector of 32 mixed functions of "
        "q and p, with noise. Coordinates and law are both unknown.\n"
    )
    model = _timed(
        console, "searching", lambda tell: SJEPA(random_state=1, verbose=tell).fit(train)
    )
    _show(console, model.law_.lines(digits=4))
    for warning in model.warnings_:
        console.print(f"    ! {warning}", highlight=False)
    console.print(
        "\nThe data were made with q' = p, p' = -sin(q); sign, scale and origin of the coordinates "
        f"are free.\nSimulated from single observations of {len(test)} other trajectories: "
        f"R2 = {model.score(test):.4f}."
    )


def _show(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(f"    {line}", style="bold", highlight=False)
