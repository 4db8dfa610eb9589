"""``sjepa backends``: which backends there are."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sjepa.cli.app import app


@app.command()
def backends(json: Annotated[bool, typer.Option(help="Print JSON.")] = False) -> None:
    """List the backends, what is installed, and how to install the rest."""
    from sjepa.backend.registry import sources

    rows = [
        {
            "name": name,
            "description": source.description,
            "version": source.version(),
            "installed": not source.missing(),
            "install": source.fix,
        }
        for name, source in sorted(sources().items())
    ]
    if json:
        print(json_module.dumps(rows, indent=1))
        return
    table = Table("name", "description", "version", "installed", "how to install", box=None)
    for row in rows:
        table.add_row(
            str(row["name"]),
            str(row["description"]),
            str(row["version"]),
            "yes" if row["installed"] else "no",
            "" if row["installed"] else escape(str(row["install"])),
        )
    Console().print(table)
