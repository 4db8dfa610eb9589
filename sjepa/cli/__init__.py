"""The command line: parses, calls the library, prints."""

from sjepa.cli.app import main


__all__ = ["main"]
