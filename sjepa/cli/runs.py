"""``sjepa runs``: what is in the folder of a run, before anything is done with it."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from sjepa.cli.app import app, say


runs = typer.Typer(help="Look at the folders of runs.", no_args_is_help=True)
app.add_typer(runs, name="runs")


@runs.command()
def show(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what a run holds, its best law so far and what resuming it reads; nothing is written."""
    from sjepa.runs.inspection import inspect

    found = inspect(run)
    if json:
        print(json_module.dumps(found, indent=1))
        return
    data = found["data"]
    say(f"{found['folder']}: {found['state']}, format {found['version']}")
    if found["foreign"]:
        say("written by another user: resuming asks for --trust where it reads elsewhere")
    if data is None:
        say("data: given in Python")
    else:
        where = "in this folder" if data["inside"] else "outside this folder"
        say(f"data: {data['path']} ({data['kind']}, {data['size']} bytes, {where})")
    for name, value in sorted((found["settings"] or {}).items()):
        say(f"setting: {name} = {json_module.dumps(value)}")
    for line in _best_law(found["best"], found["state"]):
        say(line)
    for name, entry in found["files"].items():
        say(
            f"{entry['size']:>12}  {name}"
            + ("" if entry["kind"] == "file" else f" ({entry['kind']})")
        )


def _best_law(best: Any, state: str) -> list[str]:
    """The law of a run, finished or in progress, and its residual."""
    if best is None or isinstance(best, str):
        return [] if best is None else [f"best law: {best}"]
    facts = [] if state == "finished" else [f"{100 * best['share']:.0f} % done"]
    if best["residual"] is not None:
        facts.append(f"residual {best['residual']:.2g} on held-out data")
    if best["noise_floor"] is not None:
        facts.append(f"noise floor {best['noise_floor']:.2g}")
    what = "law" if state == "finished" else "best law so far"
    return [f"{what}: " + ", ".join(facts), *(f"  {equation}" for equation in best["law"])]
