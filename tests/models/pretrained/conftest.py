"""Tests must not write into the cache of whoever runs them."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SJEPA_CACHE", str(tmp_path / "default-cache"))
