"""``sjepa runs``: what is in the folder of a run, before anything is done with it."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from sjepa.cli.app import app


runs = typer.Typer(help="Look at the folders of runs.", no_args_is_help=True)
app.add_typer(runs, name="runs")


@runs.command()
def show(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what a run holds and what resuming it would read; nothing is read or written."""
    from sjepa.runs.inspection import inspect

    found = inspect(run)
    if json:
        print(json_module.dumps(found, indent=1))
        return
    data = found["data"]
    print(f"{found['folder']}: {found['state']}, format {found['version']}")
    if found["foreign"]:
        print("written by another user: resuming asks for --trust where it reads elsewhere")
    if data is None:
        print("data: given in Python")
    else:
        where = "in this folder" if data["inside"] else "outside this folder"
        print(f"data: {data['path']} ({data['kind']}, {data['size']} bytes, {where})")
    for name, value in sorted((found["settings"] or {}).items()):
        print(f"setting: {name} = {json_module.dumps(value):.200}")
    for name, entry in found["files"].items():
        print(
            f"{entry['size']:>12}  {name}"
            + ("" if entry["kind"] == "file" else f" ({entry['kind']})")
        )
