"""Training figures as a table of curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd


def history_table(records: Any) -> pd.DataFrame:
    """Training figures as columns against ``step``.

    Takes a wide table, or a long one with the columns ``metric`` and ``value`` as ``history_``
    has it, in which the other columns (stage, cycle, epoch) say when. Columns that are not
    numbers, constant or empty are left out.
    """
    frame = records if isinstance(records, pd.DataFrame) else pd.DataFrame(list(records))
    if {"metric", "value"} <= set(frame.columns):
        if "stage" in frame.columns:
            frame = frame[frame["stage"] != "final"]
        when = [c for c in ("stage", "cycle", "epoch", "step") if c in frame.columns]
        if not when or not len(frame):
            return pd.DataFrame()
        moments = frame.groupby(when, sort=False).ngroup() + 1
        frame = pd.DataFrame(
            {"step": moments, "metric": frame["metric"].astype(str), "value": frame["value"]}
        )
        frame = frame.pivot_table(index="step", columns="metric", values="value").reset_index()
        frame.columns.name = None
    key = next((c for c in ("step", "epoch", "cycle", "iteration") if c in frame.columns), None)
    numbers = frame.select_dtypes("number").drop(columns=[key] if key else [])
    numbers = numbers.loc[:, numbers.nunique() > 1]
    if len(numbers) < 2 or numbers.empty:
        return pd.DataFrame()
    steps: Sequence[Any] = range(1, len(frame) + 1) if key is None else list(frame[key])
    return pd.concat([pd.Series(steps, name="step", index=numbers.index), numbers], axis=1)
