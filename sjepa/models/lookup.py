"""Finding something by name in a table, with a helpful refusal."""

from collections.abc import Mapping
from typing import TypeVar

from sjepa.errors import ConfigError, did_you_mean


T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, what: str) -> T:
    """``table[name]``, or an error that names the nearest match and everything known."""
    if name in table:
        return table[name]
    hint = did_you_mean(name, table)
    raise ConfigError(f"No {what} is called {name!r}.{hint} Known: {', '.join(sorted(table))}.")
