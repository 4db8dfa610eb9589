"""Dates and times of day as people and loggers write them."""

from __future__ import annotations

import re
import warnings
from datetime import datetime

import numpy as np
import pandas as pd

from sjepa.errors import DataError, warn_about_data


_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?([.,]\d+)?")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?!\d)")
_DOTS = re.compile(r"\d{1,2}\.\d{1,2}\.\d{2,4}")


def is_date(cell: object) -> bool:
    """Whether something is a date, or text that begins like one."""
    return isinstance(cell, datetime) or (
        isinstance(cell, str) and _DATE.match(cell.strip()) is not None
    )


def dates_of(column: pd.Series) -> pd.Series:
    """Text as dates, or as times of day; the first cell that is neither is named.

    Days come before months where dots separate them. Where slashes leave it open, the order that
    makes the steps in time more even is taken, and reported.
    """
    texts = column.astype("string").str.strip().str.replace(r"(:\d{2}),(\d)", r"\1.\2", regex=True)
    first = texts.dropna().iloc[0] if texts.notna().any() else ""
    if _CLOCK.fullmatch(first):
        short = texts.str.fullmatch(r"\d{1,2}:\d{2}").fillna(False)
        parsed = pd.to_timedelta(texts.where(~short, texts + ":00"), errors="coerce")
        return _whole(column, parsed)
    if _ISO.match(first):
        return _whole(column, _parse(texts, format="ISO8601"))
    if _DOTS.match(first):
        return _whole(column, _parse(texts, dayfirst=True))
    month, day = (_parse(texts, dayfirst=later) for later in (False, True))
    if month.isna().sum() != day.isna().sum():
        return _whole(column, min(month, day, key=lambda dates: int(dates.isna().sum())))
    if (month - month.min()).equals(day - day.min()):
        return _whole(column, month)
    chosen = min(month, day, key=_unevenness)
    order = "month/day" if chosen is month else "day/month"
    warn_about_data(f"Dates such as {first!r} are read as {order}/year.")
    return _whole(column, chosen)


def _parse(texts: pd.Series, **how: object) -> pd.Series:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # on the order of days and months: see above
        return pd.to_datetime(texts, errors="coerce", utc=True, **how)


def _whole(column: pd.Series, parsed: pd.Series) -> pd.Series:
    bad = np.flatnonzero((parsed.isna() & column.notna()).to_numpy())
    if len(bad):
        raise DataError(
            f"the time column {str(column.name)!r} holds {str(column.iloc[bad[0]])!r:.40} in row "
            f"{bad[0]}, neither a number nor a date; correct it, or give a step: time=0.01.",
            "time",
        )
    return parsed


def _unevenness(dates: pd.Series) -> float:
    steps = dates.diff().dt.total_seconds().to_numpy()[1:]
    return float(np.std(steps) / np.mean(steps)) if np.nanmin(steps) > 0 else np.inf
