"""Structures and coordinates together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from sjepa.backend.registry import make_backend
from sjepa.data import Trajectories
from sjepa.discovery import discover
from sjepa.models import Blur, choose_blur
from sjepa.models.pretrained.embedder import encode_all
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Library
from sjepa.training.elegant import SearchResult, Structure, elegant_search, structures_of
from sjepa.training.options import search_budget
from sjepa.training.result import Learned


def learn_elegant(
    trajectories: Trajectories,
    library: Library,
    latent_dim: int,
    order: int,
    delta: float | str,
    backend: Any,
    seed: int,
    journal: RunRecorder,
    options: Mapping[str, Any] | None = None,
    *,
    delta_roll: float | None = None,
    select: str | None = None,
) -> Learned:
    """Search structures and coordinates together; see :mod:`sjepa.training.elegant`.

    With a backend that owns the structure of its law, the search is run again with the structures
    that it proposes in the coordinates found first. Films of sharp things are blurred first.
    Polished encoders are checkpoints.
    """
    journal.restore()
    budget = search_budget(options)
    blur = choose_blur(trajectories.x)
    if blur is not None:
        trajectories = _blurred(trajectories, blur)

    def search(structures: Sequence[Structure], stage: str) -> SearchResult:
        return elegant_search(
            trajectories, library, latent_dim, order=order, delta=delta, seed=seed, budget=budget,
            structures=structures, progress=journal, memory=journal.stage(stage),
            delta_roll=delta_roll, select=select,
        )  # fmt: skip

    solver = make_backend(backend)
    again = solver.owns_structure and order == 1
    if again:
        solver.prepare()
    result = search((), "first")
    if again:
        proposed = _proposed(result, trajectories, library, backend, seed)
        result = search(proposed, "second") if proposed else result
    encoder = result.encoder.double().eval()
    doubts = [*(finding.sentence for finding in result.findings), *result.caveats]
    notes = [*result.notes]
    if blur is not None:
        encoder = _after(blur, encoder)
        notes.insert(0, f"frames were blurred over {blur.width:.1f} pixels: what moves is sharp.")
    rivals = [
        r if blur is None else replace(r, encoder=_after(blur, r.encoder)) for r in result.rivals
    ]
    return Learned(result.law, result.front, encoder, notes, doubts, result.figures, rivals)


def _after(blur: Blur, encoder: nn.Module) -> nn.Module:
    assert isinstance(encoder, nn.Sequential)
    return nn.Sequential(blur, *encoder)


def _blurred(trajectories: Trajectories, blur: Blur) -> Trajectories:
    with torch.no_grad():
        return trajectories.map(lambda x: blur(torch.as_tensor(x)).numpy())


def _proposed(
    result: SearchResult, trajectories: Trajectories, library: Library, backend: Any, seed: int
) -> list[Structure]:
    """What a backend finds in the coordinates of a search, as far as the library has it."""
    latents = encode_all(result.encoder.double().eval(), trajectories.x)
    names = list(library.inputs[: latents[0].shape[1]])
    encoded = Trajectories(latents, trajectories.t, names=names)
    front = discover(encoded, backend=backend, library=library, seed=seed)
    return structures_of(front, library)
