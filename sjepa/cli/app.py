"""One place for what all commands share: the application, error reporting, exit codes.

Exit codes: 0 done, 1 an unexpected failure, 2 wrong input or usage, 3 a package is missing,
130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys

import typer

from sjepa.errors import BackendUnavailable, MissingDependency, SjepaError


app = typer.Typer(
    name="sjepa",
    help="Find coordinates and the shortest adequate equation that moves them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Each module adds its commands to `app` when imported.
_COMMANDS = ("export", "engines", "benchmark", "discover", "diagnose", "experiment", "demo")


def main() -> None:
    """Entry point of the ``sjepa`` command."""
    for name in _COMMANDS:
        importlib.import_module(f"sjepa.cli.{name}")
    try:
        app()
    except SjepaError as error:
        missing = isinstance(error, BackendUnavailable | MissingDependency)
        _fail(error, 3 if missing else 2)
    except OSError as error:
        name = f": {error.filename}" if error.filename else ""
        _fail(f"{error.strerror or error}{name}", 2)
    except KeyboardInterrupt:
        _fail("stopped", 130)


def _fail(message: object, code: int) -> None:
    print(f"sjepa: {' '.join(str(message).split())}", file=sys.stderr)
    if os.environ.get("SJEPA_TRACEBACK"):
        raise
    sys.exit(code)
