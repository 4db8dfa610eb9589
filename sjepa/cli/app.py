"""One place for what all commands share: the application, error reporting, exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

import sjepa
from sjepa.cli.settings import in_options
from sjepa.errors import (
    BackendUnavailable,
    DataWarning,
    MissingDependency,
    OutputError,
    SjepaError,
    printable,
)


app = typer.Typer(
    name="sjepa",
    help="Find coordinates and the shortest adequate equation that moves them.",
    epilog=(
        "Exit codes: 0 done, 1 an unexpected failure, 2 wrong input or usage, 3 a package is "
        "missing, 4 the result cannot be written, 130 stopped."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Each module adds the command of its name to `app`; what it computes with is imported when it runs.
_COMMANDS = (
    "fit", "discover", "encode", "simulate", "export", "report", "backends", "benchmark",
    "demo", "runs",
)  # fmt: skip

# Typer's own refusals; the class has no public name that all releases share.
_Refused: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM, errno.EFBIG}


# Warnings that were printed, so that no command prints them again.
shown: set[str] = set()


class Stopped(Exception):
    """The user stopped a command; the message says how to resume."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"sjepa {sjepa.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    pass


def run() -> NoReturn:
    """Run the command of this process and end it with an exit code."""
    warnings.showwarning = _show_warning
    shown.clear()
    for name in _COMMANDS:
        importlib.import_module(f"sjepa.cli.{name}")
    try:
        code = app(standalone_mode=False)
        if code == 130:  # what some releases of typer make of Ctrl-C, without a word
            raise KeyboardInterrupt
    except SjepaError as error:
        _fail(in_options(error, _parameters()), _code(error))
    except _Refused as error:
        if text := error.format_message():
            _fail(f"{text} See sjepa --help.", 2)
        sys.exit(2)
    except OSError as error:
        _fail(_of_system(error), 4 if error.errno in _UNWRITABLE else 2)
    except Stopped as stop:
        _fail(stop, 130)
    except (KeyboardInterrupt, typer.Abort):
        _fail("stopped.", 130)
    except MemoryError:
        _fail("not enough memory; give fewer rows, columns or terms.", 2)
    sys.exit(code if isinstance(code, int) else 0)


def _parameters() -> set[str]:
    """Names of the parameters of the command that was called."""
    commands = getattr(typer.main.get_command(app), "commands", {})
    called = next((commands[word] for word in sys.argv[1:] if word in commands), None)
    return set() if called is None else {p.name for p in called.params}


def _code(error: SjepaError) -> int:
    if isinstance(error, BackendUnavailable | MissingDependency):
        return 3
    return 4 if isinstance(error, OutputError) else 2


def _of_system(error: OSError) -> str:
    name = f": {error.filename}" if error.filename else ""
    text = f"{error.strerror or error}{name}."
    if error.errno in _UNWRITABLE:
        text += " Choose a place that you may write to."
    return text


def say(text: object, *, error: bool = False) -> None:
    """Print a text that may hold what a file says: nothing in it moves the cursor."""
    print(printable(str(text)), file=sys.stderr if error else sys.stdout)


def _fail(message: object, code: int) -> NoReturn:
    say(f"sjepa: {' '.join(str(message).split())}", error=True)
    if os.environ.get("SJEPA_TRACEBACK"):
        raise
    sys.exit(code)


def _show_warning(message: Any, category: Any, *place: Any, **more: Any) -> None:
    """One line, without the place in our source that a user has no use for."""
    text = in_options(message, _parameters()) if isinstance(message, DataWarning) else str(message)
    shown.add(text)
    say(f"sjepa: note: {' '.join(text.split())}", error=True)
