"""Every exception and warning the library raises on purpose.

Each class has two parents: ours, so that ``except SjepaError`` catches everything the library
says about its input, and the built-in that a stranger would expect in that situation.

>>> from sjepa import Law
>>> try:
...     Law.from_string("__import__('os')", inputs=["x"])
... except SjepaError as error:
...     print(type(error).__name__)
ParseError
"""

import sys
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import TypeVar


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ " Did you mean 'x'?" for the nearest of the known names, or nothing if none is near."""
    # Comparing takes time: neither a long text nor one of thousands of names is looked for.
    names = [str(k) for k in islice(known, 2000)]
    close = get_close_matches(str(name), names, n=1) if len(str(name)) < 100 else []
    return f" Did you mean {close[0]!r}?" if close else ""


def printable(text: str) -> str:
    """Text with its control characters written out: a terminal shows them and obeys none."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


# Names and values in a message come from files; the beginning says what, the end what to do.
MAX_MESSAGE = 1000


class SjepaError(Exception):
    """Base class: ``except SjepaError`` catches all of ours and nothing else."""

    argument: str | None = None

    def __init__(self, *args: object) -> None:
        super().__init__(*(_bounded(printable(a)) if isinstance(a, str) else a for a in args))


def _bounded(text: str) -> str:
    text = " ".join(line.strip() for line in text.strip().split("\n"))  # arrays print several
    if len(text) <= MAX_MESSAGE:
        return text
    return f"{text[: MAX_MESSAGE - 300]} [...] {text[-290:]}"


class _AboutArgument(SjepaError, ValueError):
    """`argument` is the name of the parameter to change, where one is to blame."""

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class ParseError(SjepaError, ValueError):
    """Text that is not an expression of the grammar; says what and at which column."""


class EmissionError(SjepaError, TypeError):
    """An expression contains something that cannot be turned into the requested form."""


class LawError(SjepaError, ValueError):
    """A law, a library or a grammar that contradicts itself."""


class DataError(_AboutArgument):
    """Observations that cannot be used as they are; says which trajectory and what is wrong."""


class ConfigError(_AboutArgument):
    """A setting that does not exist or is out of range."""


class BackendError(SjepaError, RuntimeError):
    """A backend failed; the message starts with the backend's name."""


class BackendTimeout(BackendError, TimeoutError):
    """A backend overstayed its budget and was stopped."""


class BackendUnavailable(SjepaError, ImportError):
    """A backend exists but something it needs is not installed."""


class UnknownBackend(ConfigError, LookupError):
    """No backend carries that name."""


class FormatError(SjepaError, ValueError):
    """A saved file that is damaged, foreign or of a version this release cannot read."""


class OutputError(SjepaError, OSError):
    """A result cannot be written where it should go."""


class MissingDependency(SjepaError, ImportError):
    """An optional package is needed for what was asked; the message is the install command."""


class TrainingDiverged(SjepaError, ArithmeticError):
    """Training left the range of numbers before anything usable was learnt."""


class NumericalWarning(UserWarning):
    """A result was obtained, but something on the way deserves a look."""


class DataWarning(UserWarning):
    """What was read into the data, or changed in them; `argument` names the parameter for it."""

    argument: str | None = None


def warn_about_data(text: str, argument: str | None = None) -> None:
    """Give a :class:`DataWarning` for the line outside of the package that passed the data."""
    warning = DataWarning(text)
    warning.argument = argument
    warn_caller(warning)


def warn_caller(warning: Warning) -> None:
    """Give a warning for the line outside of the package that led to it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "sjepa":
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, what: str) -> T:
    """``table[name]``, or an error that names the nearest match and everything known."""
    if isinstance(name, str) and name in table:
        return table[name]
    hint = did_you_mean(name, table)
    raise ConfigError(f"No {what} is called {name!r:.60}.{hint} Known: {', '.join(sorted(table))}.")
