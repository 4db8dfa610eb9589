"""Fixed coordinates: those of a pretrained encoder, or the observations themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from sjepa.data import Trajectories, TrajectoryBatch
from sjepa.data.names import numbered
from sjepa.discovery import discover
from sjepa.metrics import segment_errors
from sjepa.models.pretrained.embedder import encode_all
from sjepa.models.pretrained.heads import HeadedEncoder, choose_head
from sjepa.models.transition import Transition
from sjepa.runs.recorder import RunRecorder
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.training.alternating.frozen_encoder import fit_fixed
from sjepa.training.correction import Neural
from sjepa.training.joint import joint_search
from sjepa.training.libraries import as_library, check_width, coordinate_names, library_for
from sjepa.training.result import FitResult, Frozen, identity
from sjepa.training.rollout_fit import refine
from sjepa.training.searches import Alternating, Joint, LawOnly


Space = Library | Grammar | None

# Observed columns that are all taken as coordinates; for more no default library can be written.
MAX_COLUMNS = 16


def fit_frozen(
    trajectories: Trajectories,
    encoder: str | Callable[[Any], Any],
    space: Space | Sequence[str],
    backend: Any,
    seed: int,
    latent_dim: int,
    progress: RunRecorder | None,
    *,
    search: LawOnly | Alternating | Joint | None = None,
    head: str = "auto",
    order: int = 1,
    delta: float | str = "auto",
    correction: Neural | None = None,
) -> FitResult:
    """Keep the coordinates, or a few read off an embedding by a head, and search only the law.

    With actions that are held between observations the coefficients of a vector field are
    refined on rollouts, since the search sees single steps only. With an alternating `search` the
    paper's objective for frozen encoders is minimized instead; the joint one is that of the
    learned head.
    """
    search = search or (Joint() if head == "learned" else LawOnly())
    function: Any = identity if isinstance(encoder, str) and encoder == "identity" else encoder
    if isinstance(function, nn.Module):
        function = Frozen(function)
    embeddings = encode_all(function, trajectories.x)
    if isinstance(search, Joint):
        terms = as_library(space, numbered("z", latent_dim))
        return _learned_head(
            trajectories,
            function,
            embeddings,
            terms,
            latent_dim,
            order,
            delta,
            seed,
            progress,
            search,
        )
    named = space if isinstance(space, Library | Grammar) else None
    inputs = None if named is None else named.inputs
    most = MAX_COLUMNS if function is identity else max(latent_dim, len(inputs or ()))
    reader = choose_head(head, embeddings, trajectories.t, latent_dim, most)
    latents, notes = embeddings, []
    if reader is not None:
        function, notes = HeadedEncoder(function, reader), [reader.note]
        latents = [reader(torch.as_tensor(z)).numpy() for z in embeddings]
    size = latents[0].shape[1]
    names = coordinate_names(encoder, trajectories, named, size)
    terms = as_library(space, names, trajectories.input_names or ())
    check_width(terms, size, order, trajectories)
    encoded = Trajectories(
        latents, trajectories.t, trajectories.u, names=names,
        input_names=trajectories.input_names, gaps="keep",
    )  # fmt: skip
    if isinstance(search, Alternating):
        held = None if isinstance(delta, str) else float(delta)
        found = fit_fixed(
            encoded, terms, backend, search, seed, progress or RunRecorder(), correction, held
        )
        return replace(found, encoder=function, notes=[*notes, *found.notes])
    front = discover(
        encoded,
        backend=backend,
        order=order,
        derivatives=search.derivatives,
        library=terms if isinstance(terms, Library) else None,
        grammar=terms if isinstance(terms, Grammar) else None,
        random_state=seed,
        verbose=progress or False,
    )
    law, warnings = front.best(), list[str]()
    if search.select == "mdl":
        law = front.shortest(int(trajectories.lengths.sum()))
    if search.delta_roll is not None:
        law, said, reached = with_adequate_rollouts(
            front, law, encoded, search.integrator, search.delta_roll
        )
        (notes if reached else warnings).append(said)
    if order == 1 and front.form == "zoh":
        law = _refined(law, encoded, search.integrator)
    return FitResult.of_front(front, function, law, notes, warnings)


def with_adequate_rollouts(
    front: Front, law: Law, encoded: Trajectories, integrator: str, delta_roll: float
) -> tuple[Law, str, bool]:
    """The law, or the simplest one of a front beyond it, whose rollouts are adequate.

    Also a sentence about it, and whether there is one.
    """
    spread = np.concatenate(encoded.x).var(axis=0)
    simpler = front.position(law) or 0
    for one in [law, *(c.law for c in front.candidates[simpler + 1 :])]:
        errors = segment_errors(Transition.of(one, integrator), encoded)
        missed = float((errors / spread).mean())
        if missed <= delta_roll:
            said = f"rollouts of {errors.shape[1]} steps miss {missed:.2g} of the variance"
            return one, said, True
    return law, f"No law of the front reaches a rollout loss of {delta_roll:g}.", False


def _refined(law: Law, encoded: Trajectories, integrator: str) -> Law:
    """Coefficients that fit rollouts under actions with zero-order hold."""
    data = TrajectoryBatch.make(encoded, dtype=torch.float64)
    return refine(law, data.x, data.dt, integrator=integrator, horizon=5, mask=data.mask, u=data.u)


def _learned_head(
    trajectories: Trajectories,
    function: Callable[[Any], Any],
    embeddings: Sequence[np.ndarray],
    space: Space,
    latent_dim: int,
    order: int,
    delta: float | str,
    seed: int,
    progress: RunRecorder | None,
    search: Joint,
) -> FitResult:
    """A linear head trained together with the law, by the search that learns coordinates."""
    embedded = Trajectories(list(embeddings), trajectories.t, gaps="keep")
    result = joint_search(
        embedded, library_for(space, latent_dim), latent_dim, order=order, delta=delta, seed=seed,
        budget=replace(search, grow=False), delta_roll=search.delta_roll, select=search.select,
        report=None if progress is None else progress.report,
    )  # fmt: skip
    read = result.encoder.double().eval()
    rank = read[0].rank  # type: ignore[index, union-attr]
    size = embedded.obs_shape[0]
    note = (
        f"head learned: {latent_dim} linear read-out{'s' if latent_dim > 1 else ''}, trained "
        f"together with the law, of the {rank} leading components of an embedding of {size} values."
    )
    rivals = [
        replace(r, encoder=HeadedEncoder(function, r.encoder.double().eval()))  # type: ignore[arg-type]
        for r in result.rivals
    ]
    return FitResult(
        result.law, result.front, HeadedEncoder(function, read), [note, *result.notes],
        result.warnings, result.figures, rivals, judged=result.verdict,
    )  # fmt: skip
