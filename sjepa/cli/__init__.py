"""The command line: parses, calls the library, prints."""

import os
import sys


def main() -> None:
    """Entry point of the ``sjepa`` command; Ctrl-C ends it in one line, also while it loads."""
    try:
        from sjepa.cli.app import run

        run()
    except BaseException as error:
        if os.environ.get("SJEPA_TRACEBACK"):
            raise
        # Extension modules turn what happens during their import into errors of their own.
        if _caused_by(error, KeyboardInterrupt):
            message, code = "stopped.", 130
        elif _caused_by(error, MemoryError):
            message, code = "not enough memory to start; close other programs.", 2
        else:
            raise
    print(f"sjepa: {message}", file=sys.stderr)
    sys.exit(code)


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None and not isinstance(error, SystemExit):
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


__all__ = ["main"]
