"""Finding something by name in a table, with a helpful refusal."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from sjepa.errors import ConfigError


T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, what: str) -> T:
    """``table[name]``, or an error that names the nearest match and everything known."""
    if name in table:
        return table[name]
    close = get_close_matches(name, table, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ConfigError(f"No {what} is called {name!r}.{hint} Known: {', '.join(sorted(table))}.")
