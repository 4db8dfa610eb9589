"""Plots, and the report: one self-contained page about a law and how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sjepa.errors import DataError
from sjepa.report.collect import collect
from sjepa.report.content import ReportData, ReportEntry, Trail
from sjepa.report.page import render
from sjepa.settings import path_of
from sjepa.storage import write_whole


def write_report(
    source: Any,
    path: str | Path,
    data: Any = None,
    t: Any = None,
    u: Any = None,
    *,
    held_out: Any = None,
    title: str = "",
    recipe: Sequence[str] = (),
    video: Any = None,
) -> Path:
    """Write a page about a fitted model, a front, a law, or a ReportData.

    The other arguments are those of :func:`collect`. The file appears when it is complete.

    Examples
    --------
    >>> import tempfile, sjepa, numpy as np
    >>> t = np.arange(0, 10, 0.01)
    >>> x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    >>> front = sjepa.discover(x, t, feature_names=["q", "p"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(front, folder + "/report.html", x, t).read_text()
    >>> "<math>" in page
    True
    """
    path = path_of(path, "path")
    if not path.parent.is_dir():
        raise DataError(f"{path}: the folder {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file such as {path / 'report.html'}.")
    content = source if isinstance(source, ReportData) else None
    if content is None:
        content = collect(
            source, data, t, u, held_out=held_out, title=title, recipe=recipe, video=video
        )
    page = render(content)
    write_whole(path, page.encode())
    return path


__all__ = ["ReportData", "ReportEntry", "Trail", "collect", "render", "write_report"]
