"""Tables as CSV text that a spreadsheet shows and does not run.

A cell that begins with =, +, - or @ is a formula to a spreadsheet, and some formulas start
programs. Such texts are written after an apostrophe; numbers are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    import pandas as pd


# With any number of apostrophes before it, so that what is read is what was written.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def write_csv(frame: pd.DataFrame, file: Any = None) -> str | None:
    """Write a table without its index; returned as text where no file is given."""
    text: str | None = _mapped(frame, _guarded).to_csv(file, index=False)
    return text


def without_guards(frame: pd.DataFrame) -> pd.DataFrame:
    """A table as it was before :func:`write_csv` put apostrophes into it."""
    return _mapped(frame, _bare)


def _mapped(frame: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """A table with its names and texts changed."""
    from pandas.api.types import is_numeric_dtype

    texts = {n: frame[n].map(change) for n in frame.columns if not is_numeric_dtype(frame[n])}
    return frame.assign(**texts).rename(columns=change)


def _guarded(value: Any) -> Any:
    if not isinstance(value, str) or not _FORMULA.match(value) or _is_number(value):
        return value
    return f"'{value}"


def _bare(value: Any) -> Any:
    guarded = isinstance(value, str) and value.startswith("'") and _FORMULA.match(value)
    return value[1:] if guarded else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
