"""The command line, called from tests."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

from sjepa.cli import main


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Call the command in this process: starting Python and torch takes seconds."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd or Path.cwd()),
        mock.patch.object(sys, "argv", ["sjepa", *map(str, arguments)]),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    return subprocess.CompletedProcess([], int(code or 0), out.getvalue(), err.getvalue())  # type: ignore[call-overload]
