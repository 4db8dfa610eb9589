"""Three ways to a law: structures and coordinates together, in turns, or on fixed coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.backend import Progress
from sjepa.data import Trajectories, TrajectoryBatch
from sjepa.discovery import discover
from sjepa.encoders.embedder import encode_all
from sjepa.encoders.heads import HeadedEncoder, choose_head
from sjepa.errors import ConfigError
from sjepa.models import Blur, NeuralField, choose_blur, make_encoder
from sjepa.search import SearchBudget, SearchResult, Structure, elegant_search, structures_of
from sjepa.second_order import discover_accelerations
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.training import (
    EXPERIMENT_1,
    Alternating,
    Alternation,
    Event,
    Phase,
    Settings,
    World,
    refine,
    resolve_device,
)


WAYS = ("elegant", "alternating")


@dataclass(frozen=True, eq=False)
class Learned:
    """What each way returns."""

    law: Law
    front: Front
    encoder: Callable[[Any], Any]
    notes: Sequence[str] = ()


def learn_elegant(
    trajectories: Trajectories,
    library: Library,
    latent_dim: int,
    order: int,
    delta: float | str,
    backend: Any,
    seed: int,
    progress: Progress | None,
) -> Learned:
    """Search structures and coordinates together; see :mod:`sjepa.search`.

    With an engine other than the default one, the search is run again with the structures that
    the engine proposes in the coordinates found first. Films of sharp things are blurred first.
    """
    blur = choose_blur(trajectories.x)
    if blur is not None:
        trajectories = _blurred(trajectories, blur)

    def search(structures: Sequence[Structure]) -> SearchResult:
        return elegant_search(
            trajectories, library, latent_dim, order=order, delta=delta, seed=seed,
            structures=structures, progress=progress,
        )  # fmt: skip

    result = search(())
    if backend != "stlsq" and order == 1:
        proposed = _proposed(result, trajectories, library, backend, seed)
        result = search(proposed) if proposed else result
    encoder = result.encoder.double().eval()
    notes = [*result.notes, *(finding.sentence for finding in result.findings)]
    if blur is not None:
        assert isinstance(encoder, nn.Sequential)
        encoder = nn.Sequential(blur, *encoder)
        notes.insert(0, f"frames were blurred over {blur.width:.1f} pixels: what moves is sharp.")
    return Learned(result.law, result.front, encoder, notes)


def _blurred(trajectories: Trajectories, blur: Blur) -> Trajectories:
    with torch.no_grad():
        return trajectories.map(lambda x: blur(torch.as_tensor(x)).numpy())


def _proposed(
    result: SearchResult, trajectories: Trajectories, library: Library, backend: Any, seed: int
) -> list[Structure]:
    """What an engine finds in the coordinates of a search, as far as the library has it."""
    encoder = result.encoder.double().eval()
    latents = [_latents(encoder, x) for x in trajectories.x]
    names = list(library.inputs[: latents[0].shape[1]])
    encoded = Trajectories(latents, trajectories.t, names=names)
    front = discover(encoded, backend=backend, library=library, seed=seed)
    return structures_of(front, library)


def learn_frozen(
    trajectories: Trajectories,
    encoder: str | Callable[[Any], Any],
    space: Library | Grammar | None,
    backend: Any,
    seed: int,
    latent_dim: int,
    progress: Progress | None,
    *,
    head: str | None = "auto",
    order: int = 1,
    delta: float | str = "auto",
) -> Learned:
    """Keep the coordinates, or a few read off an embedding by a head, and search only the law."""
    if isinstance(encoder, str) and encoder != "identity":
        raise ConfigError(
            f"encoder is 'auto', 'identity', a callable or a module; got {encoder!r}."
        )
    if isinstance(encoder, str) and head == "learned":  # that is learning end to end
        library = space if isinstance(space, Library) else _library_for(space, latent_dim)
        return learn_elegant(
            trajectories, library, latent_dim, order, delta, "stlsq", seed, progress
        )
    function: Callable[[Any], Any] = _identity if isinstance(encoder, str) else encoder
    if isinstance(function, nn.Module):
        function = _Frozen(function)
    embeddings = encode_all(function, trajectories.x)
    if head == "learned":
        return _learned_head(
            trajectories, function, embeddings, space, latent_dim, order, delta, seed, progress
        )
    reader = choose_head(head, embeddings, trajectories.t, latent_dim)
    latents, notes = embeddings, []
    if reader is not None:
        function, notes = HeadedEncoder(function, reader), [reader.note]
        latents = [reader(torch.as_tensor(z)).numpy() for z in embeddings]
    names = [f"z{i + 1}" for i in range(latents[0].shape[1])]
    if isinstance(encoder, str) and trajectories.names is not None and space is not None:
        names = list(space.inputs[: len(names)])
    _check_width(space, len(names), order, trajectories)
    encoded = Trajectories(latents, trajectories.t, trajectories.u, names=names)
    if order == 2:
        front = discover_accelerations(encoded, backend, space, seed, progress)
    else:
        front = discover(
            encoded,
            backend=backend,
            library=space if isinstance(space, Library) else None,
            grammar=space if isinstance(space, Grammar) else None,
            seed=seed,
            progress=progress,
        )
    return Learned(front.best(), front, function, [*notes, *front.notes])


def _check_width(
    space: Library | Grammar | None, dim: int, order: int, trajectories: Trajectories
) -> None:
    """Say so before an engine does if a library was made for another number of coordinates."""
    actions = len(trajectories.action_names or ())
    if space is not None and len(space.inputs) not in (dim + actions, order * dim + actions):
        raise ConfigError(
            f"The embedding has {dim} values, the library or grammar is for "
            f"{len(space.inputs)} inputs; choose a head (pca, whiten, slow, learned) or a library "
            "of that size."
        )


def _learned_head(
    trajectories: Trajectories,
    function: Callable[[Any], Any],
    embeddings: Sequence[np.ndarray],
    space: Library | Grammar | None,
    latent_dim: int,
    order: int,
    delta: float | str,
    seed: int,
    progress: Progress | None,
) -> Learned:
    """A linear head trained together with the law, by the search that learns coordinates."""
    library = space if isinstance(space, Library) else _library_for(space, latent_dim)
    embedded = Trajectories(list(embeddings), trajectories.t)
    result = elegant_search(
        embedded, library, latent_dim, order=order, delta=delta, seed=seed,
        budget=SearchBudget(grow=False), progress=progress,
    )  # fmt: skip
    read = result.encoder.double().eval()
    rank = read[0].rank  # type: ignore[index, union-attr]
    size = embedded.obs_shape[0]
    note = (
        f"head learned: {latent_dim} linear read-out{'s' if latent_dim > 1 else ''}, trained "
        f"together with the law, of the {rank} leading components of an embedding of {size} values."
    )
    notes = [note, *result.notes, *(finding.sentence for finding in result.findings)]
    return Learned(result.law, result.front, HeadedEncoder(function, read), notes)


def _library_for(grammar: Grammar | None, latent_dim: int) -> Library:
    if grammar is not None:
        return grammar.library(grammar.inputs[:latent_dim])
    return Library.paper([f"z{i + 1}" for i in range(latent_dim)])


def _identity(x: Any) -> Any:
    return x.reshape(len(x), -1)


class _Frozen(nn.Module):
    """A module that is only ever evaluated, in the precision of its own parameters.

    A bounded number of observations at a time: a network needs far more memory than its input.
    """

    def __init__(self, module: nn.Module, rows: int = 1024) -> None:
        super().__init__()
        self.module = module.eval().requires_grad_(False)
        self.rows = rows

    def forward(self, x: Tensor) -> Tensor:
        like = next(self.module.parameters(), None)
        with torch.no_grad():
            return torch.cat([
                self.module(part if like is None else part.to(like)).double().cpu()
                for part in x.split(self.rows)
            ])  # fmt: skip


def _latents(encoder: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    return encode_all(encoder, [x])[0]


def learn_alternating(
    trajectories: Trajectories,
    space: Library | Grammar,
    latent_dim: int,
    backend: Any,
    integrator: str,
    device: str,
    seed: int,
    progress: Progress | None,
) -> Learned:
    """The paper's Algorithm 1: a neural warm start, then dynamics and space search in turns."""
    place = resolve_device(device)
    train, held_out = trajectories.split((0.8, 0.2), seed=seed)
    train_batch = TrajectoryBatch.make(train, device=place)
    validation = TrajectoryBatch.make(held_out, device=place)
    generator = torch.Generator(place).manual_seed(seed)
    settings = Settings()
    report = _Reporter(progress)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = make_encoder(_architecture(trajectories), trajectories.obs_shape, latent_dim)
        world = World(encoder, neural=NeuralField(latent_dim), integrator=integrator).to(place)
    warm = EXPERIMENT_1["warm_start"]
    Phase(world, warm, train_batch, validation, settings, generator, report).run()
    loop = Alternating(
        world, space, train_batch, validation, Alternation(backend=backend), settings,
        generator, report, seed,
    )  # fmt: skip
    loop.run()
    assert world.symbolic is not None
    z = world.encode(train_batch.x)
    law = refine(
        world.symbolic.law(settings.report), z, train_batch.dt, integrator=integrator,
        horizon=settings.horizon, mask=train_batch.mask,
    )  # fmt: skip
    notes = [f"cycle {loop.best_cycle} of {len(loop.diagnostics)} was chosen"]
    assert loop.front is not None
    return Learned(law, loop.front, _Frozen(world.encoder), notes)


def _architecture(trajectories: Trajectories) -> str:
    return "mlp" if len(trajectories.obs_shape) == 1 else "cnn"


class _Reporter:
    """Turns the events of training into lines of progress."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress

    def __call__(self, event: Event) -> None:
        if self.progress is None:
            return
        cycle = f", cycle {event.cycle} of {event.cycles}" if event.cycles else ""
        share = event.epoch / max(event.epochs, 1)
        if event.cycles:
            share = (event.cycle - 1 + share) / event.cycles
        line = f"{event.phase}{cycle}: epoch {event.epoch}, loss {event.loss:.3g}"
        self.progress(line, min(max(share, 0.0), 1.0))
