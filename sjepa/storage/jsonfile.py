"""JSON files that say what they are and in which version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sjepa.errors import FormatError
from sjepa.storage.files import read_bounded, write_whole


MAX_BYTES = 64 * 2**20


def write_json(path: Path, kind: str, version: int, data: Mapping[str, Any]) -> bytes:
    """Write plain data under its format and version; returns the bytes."""
    whole = {"format": kind, "version": version, **data}
    content = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False).encode()
    write_whole(path, content)
    return content


def read_json(path: Path, kind: str, version: int) -> dict[str, Any]:
    """Read what :func:`write_json` wrote; anything else is refused in one line."""
    content = read_bounded(path, MAX_BYTES)
    try:
        data = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100]
        raise FormatError(f"{path} is damaged: it is not JSON ({reason}).") from None
    if not isinstance(data, dict) or data.get("format") != kind:
        raise FormatError(f"{path} is not a {kind} file; nothing was read from it.")
    check_version(path, data.get("version"), version)
    return data


def check_version(path: Path, found: Any, version: int) -> None:
    """Refuse what a later release wrote, and what no release ever wrote."""
    known = isinstance(found, int) and not isinstance(found, bool)
    if known and found > version:
        raise FormatError(
            f"{path} has format version {found}, this release reads up to {version}: "
            "install a newer sjepa."
        )
    if not known or found < 1:
        raise FormatError(f"{path} is damaged: its format version is {found!r:.40}.")
