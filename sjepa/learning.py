"""Three ways to a law: structures and coordinates together, in turns, or on fixed coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sjepa.backend import Progress
from sjepa.data import Trajectories, TrajectoryBatch, jumps
from sjepa.discovery import discover
from sjepa.errors import ConfigError, DataError
from sjepa.models import NeuralField, Transition, make_encoder
from sjepa.search import SearchResult, Structure, elegant_search, structures_of
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.symbolic.emit import TorchLaw
from sjepa.symbolic.law import Realisation
from sjepa.training import (
    EXPERIMENT_1,
    Alternating,
    Alternation,
    CorrectionSettings,
    Event,
    Phase,
    Settings,
    World,
    fit_correction,
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
    the engine proposes in the coordinates found first.
    """

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
    return Learned(result.law, result.front, encoder, notes)


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
    realisation: Realisation,
    integrator: str,
    progress: Progress | None,
) -> Learned:
    """Keep the coordinates and search only the law.

    With actions that are held between observations the coefficients of a vector field are
    polished on free rollouts, since the search sees single steps only.
    """
    if isinstance(encoder, str) and encoder != "identity":
        raise ConfigError(
            f"encoder is 'auto', 'identity', a callable or a module; got {encoder!r}."
        )
    function: Callable[[Any], Any] = _identity if isinstance(encoder, str) else encoder
    if isinstance(function, nn.Module):
        function = _Frozen(function)
    latents = [_latents(function, x) for x in trajectories.x]
    names = [f"z{i + 1}" for i in range(latents[0].shape[1])]
    if isinstance(encoder, str) and trajectories.names is not None and space is not None:
        names = list(space.inputs[: len(names)])
    encoded = Trajectories(
        latents, trajectories.t, trajectories.u, names=names,
        action_names=trajectories.action_names,
    )  # fmt: skip
    front = discover(
        encoded,
        backend=backend,
        form="discrete" if realisation == "map" else "auto",
        library=space if isinstance(space, Library) else None,
        grammar=space if isinstance(space, Grammar) else None,
        seed=seed,
        progress=progress,
    )
    law = front.best()
    if realisation == "field" and encoded.u is not None and jumps(encoded.u):
        data = TrajectoryBatch.make(encoded, dtype=torch.float64)
        law = refine(
            law, data.x, data.dt, integrator=integrator, horizon=5, mask=data.mask, side=data.u
        )
    return Learned(law, front, function, front.notes)


def check_correction(correction: Any, order: int) -> None:
    """Refuse settings of a correction before anything long starts."""
    if correction is None:
        return
    if order == 2:
        raise ConfigError("No correction beside a law of second order yet; set correction=None.")
    CorrectionSettings.of(correction)


def learn_correction(
    encoded: Trajectories, law: Law, correction: Any, integrator: str, seed: int
) -> tuple[Law, Transition]:
    """Train a correction beside a law on fixed coordinates; the law only moves if asked to."""
    settings = CorrectionSettings.of(correction)
    transition = fit_correction(
        encoded, None if settings.alone else law, settings,
        kind="direct" if law.realisation == "map" else "field", integrator=integrator,
        seed=seed,
    )  # fmt: skip
    if settings.joint and isinstance(transition.symbolic, TorchLaw):
        law = transition.symbolic.law()
    return law, transition


def with_law(old: Transition | None, law: Law, integrator: str, order: int) -> Transition:
    """The transition of a law, with the correction of another one if that has any."""
    if old is not None and old.symbolic is None:
        return old
    return Transition(
        law.torch(trainable=False),
        None if old is None else old.correction,
        kind="direct" if law.realisation == "map" else "field",
        integrator=integrator,
        order=2 if order == 2 else 1,
    )


def default_terms(states: Sequence[str], actions: Sequence[str] = ()) -> Library:
    """The paper's library, with every action alone and times every state."""
    library = Library.paper(states)
    if not actions:
        return library
    driven = [t for u in actions for t in (u, *(f"{u}*{z}" for z in states))]
    names = [*states, *actions]
    return Library(library.terms, names) + Library.from_terms(driven, names)


def _identity(x: Any) -> Any:
    return x


class _Frozen(nn.Module):
    """A module that is only ever evaluated, in the precision of its own parameters."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        like = next(self.module.parameters(), None)
        with torch.no_grad():
            return self.module(x if like is None else x.to(like)).double().cpu()


def _latents(encoder: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    given = torch.as_tensor(x) if isinstance(encoder, nn.Module) else x
    with torch.no_grad():
        z = np.asarray(encoder(given), dtype=float)
    if z.ndim != 2 or len(z) != len(x):
        raise DataError(
            f"The encoder turned a trajectory of shape {x.shape} into {z.shape}; "
            f"expected ({len(x)}, coordinates)."
        )
    return z


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
        actions = 0 if trajectories.u is None else trajectories.u[0].shape[1]
        neural = NeuralField(latent_dim, actions)
        world = World(encoder, neural=neural, integrator=integrator).to(place)
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
        horizon=settings.horizon, mask=train_batch.mask, side=train_batch.u,
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
