"""Finished pieces of an experiment: a killed run loses little, more seeds cost only themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.paper.common import Result
from sjepa.errors import FormatError
from sjepa.storage import make_folder
from sjepa.storage.tensors import read_state, write_state


KIND, VERSION = "sjepa-experiment-part", 1


class Parts:
    """Results in ``OUT/parts``, and warm starts until the run is complete.

    Parameters
    ----------
    folder : Path, optional
        Of the run; without one nothing is kept.
    request : str
        Everything besides condition and seed that decides about a result. What was kept for
        another request is not used.
    """

    def __init__(self, folder: Path | None, request: str) -> None:
        self.folder = None if folder is None else folder / "parts"
        self.request = request

    def keep(self, result: Result) -> None:
        curves = {name: torch.as_tensor(value) for name, value in result.curves.items()}
        self._write(
            f"{result.condition}_{result.seed}",
            {**vars(result), "curves": curves},
        )

    def results(self, conditions: Sequence[str], seeds: Sequence[int]) -> list[Result]:
        """What earlier tries have finished of these."""
        parts = [self._read(f"{c}_{s}") for c in conditions for s in seeds]
        return [
            Result(**{**result, "curves": {k: v.numpy() for k, v in result["curves"].items()}})
            for result in parts
            if result is not None
        ]

    def keep_warm(self, seed: int, snapshot: dict[str, Any]) -> None:
        self._write(f"warm_{seed}", snapshot)

    def warm(self, seed: int) -> dict[str, Any] | None:
        return self._read(f"warm_{seed}")

    def forget_warm(self) -> None:
        if self.folder is not None:
            for path in self.folder.glob("warm_*"):
                path.unlink()

    def _write(self, name: str, data: dict[str, Any]) -> None:
        if self.folder is not None:
            make_folder(self.folder)
            path = self.folder / f"{name}.safetensors"
            write_state(path, KIND, VERSION, {"request": self.request, "data": data})

    def _read(self, name: str) -> dict[str, Any] | None:
        """A piece of the same request; one that is damaged or missing is made again."""
        if self.folder is None or not (path := self.folder / f"{name}.safetensors").exists():
            return None
        try:
            state = read_state(path, KIND, VERSION)
        except FormatError:
            return None
        same = isinstance(state, dict) and state.get("request") == self.request
        return state["data"] if same else None
