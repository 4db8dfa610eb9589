"""The problems of ``elegant.py``: data, search, and the figures that say how close it came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from sjepa.backend import Progress
from sjepa.data import Trajectories, paper_data
from sjepa.metrics import AffineMap, probe_r2, rollout_score
from sjepa.search import SearchResult, elegant_search
from sjepa.symbolic import Library


@dataclass(frozen=True)
class Problem:
    """How to run one seed, and which seeds to run by default."""

    run: Callable[[int, Progress | None], dict[str, Any]]
    seeds: tuple[int, ...] = tuple(range(10))


def structure_of(result: SearchResult) -> str:
    """The law without its numbers."""
    return "; ".join(" + ".join(sorted(str(t) for _, t in row)) for row in result.law.terms)


# Experiment 1 ------------------------------------------------------------------------------------


@cache
def exp1_data() -> dict[str, Trajectories]:
    return paper_data("exp1")


def exp1(seed: int, progress: Progress | None) -> dict[str, Any]:
    data = exp1_data()
    result = elegant_search(
        data["train"], Library.paper(["z1", "z2"]), 2, seed=seed, validation=data["val"],
        progress=progress,
    )  # fmt: skip
    structure = structure_of(result)
    row: dict[str, Any] = {
        "right": structure in ("z2; sin(z1)", "sin(z2); z1"),
        "law": "; ".join(result.law.lines(digits=4)),
        "omega_terms": result.best.candidate.terms,
    }
    return row | exp1_figures(result, data)


@torch.no_grad()
def exp1_figures(result: SearchResult, data: dict[str, Trajectories]) -> dict[str, float]:
    """The paper's figures: 80-step rollouts in physical units, and the probe."""

    def latents(name: str) -> torch.Tensor:
        return result.encode(torch.tensor(np.stack(data[name].x)))

    def true(name: str) -> np.ndarray:
        states = data[name].state
        assert states is not None
        return np.stack(states)

    z = latents("train")
    align = AffineMap.fit(z, true("train"))
    figures = {"probe_r2": probe_r2(z, true("train"), latents("test"), true("test")).test}
    for name in ("test", "ood"):
        steps = torch.tensor(np.stack(data[name].steps))[:, :80]
        path = result.transition().rollout(latents(name)[:, 0], steps)[:, 1:]
        score = rollout_score(path, true(name)[:, 1:81], align)
        figures |= {f"{name}_rollout": score.mse, f"{name}_divergence": score.divergence_rate}
    return figures


PROBLEMS: dict[str, Problem] = {"exp1": Problem(exp1, (7, 19, 37, 1, 2))}
