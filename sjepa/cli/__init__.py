"""The command line: parses, calls the library, prints."""

import os
import sys


def main() -> None:
    """Entry point of the ``sjepa`` command; Ctrl-C ends it in one line, also while it loads."""
    try:
        from sjepa.cli.app import run

        run()
    except BaseException as error:
        # Extension modules turn a Ctrl-C during their import into errors of their own.
        if not _stopped(error) or os.environ.get("SJEPA_TRACEBACK"):
            raise
    print("sjepa: stopped.", file=sys.stderr)
    sys.exit(130)


def _stopped(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, SystemExit):
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


__all__ = ["main"]
