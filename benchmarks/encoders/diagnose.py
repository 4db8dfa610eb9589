"""Encoders side by side: the same data, library, tolerance and held-out trajectories for all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.encoders.comparison import Comparison
from benchmarks.encoders.measure import (
    Diagnosis,
    probe,
    probe_embedding,
    score_rollouts,
    shortcuts,
)
from sjepa.backend import Progress
from sjepa.data import Trajectories
from sjepa.data.names import numbered, with_velocity_names
from sjepa.errors import ConfigError, DataError, NumericalWarning
from sjepa.metrics.induced import induced_complexity
from sjepa.models.pretrained.embedder import encode_all, pixels
from sjepa.models.pretrained.heads import HeadedEncoder
from sjepa.symbolic import Library
from sjepa.training import fit_frozen


Encoder = Callable[[Any], Any]
# Rollouts go over this share of a held-out trajectory, up to a limit.
SHARE, LONGEST = 0.4, 60


def diagnose(
    encoders: Mapping[str, Encoder | str | tuple[Encoder | str, str]],
    data: Trajectories,
    *,
    latent_dim: int = 2,
    head: str = "auto",
    order: int = 1,
    library: Library | None = None,
    delta: float = 0.01,
    test: Trajectories | None = None,
    horizon: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Ask of each encoder whether its coordinates already have a short law.

    Parameters
    ----------
    encoders : mapping from a name to an encoder, or to a pair (encoder, head)
        Any callable or module, or "identity" for the observations themselves. With the head
        "learned" the coordinates are trained: on "identity" that is learning end to end.
    data : Trajectories
        With reference states, probes are scored too; they take no part in anything else.
    latent_dim, head, order, library : as in :class:`sjepa.SJEPA`
    delta : float
        Unexplained share of the variance of changes that counts as adequate, the same for all.
    test : Trajectories, optional
        By default a fifth of the trajectories. Heads and laws never see them.
    horizon : int, optional
        Steps of the rollouts; by default four tenths of a trajectory, at most 60.

    Returns
    -------
    Comparison
        ``.to_frame()``, ``.plot()``, ``.save(folder)``.
    """
    if not encoders:
        raise ConfigError("Give at least one encoder.")
    if not (isinstance(delta, int | float) and delta > 0):
        raise ConfigError(f"delta must be a positive number, got {delta!r}.")
    if order not in (1, 2):
        raise ConfigError(f"order must be 1 or 2, got {order}.")
    if data.u is not None:
        raise DataError("Encoders are diagnosed without actions; leave u out.")
    train, rest = data.split((0.8, 0.2), seed=seed) if test is None else (data, test)
    steps = horizon or max(2, min(LONGEST, int(SHARE * rest.lengths.min())))
    room = int(rest.lengths.max()) - 1 - (2 if order == 2 else 0)
    if not 1 <= steps <= room:
        raise ConfigError(f"A rollout of {steps} steps does not fit; use 1 to {room}.")
    if library is None:
        names = numbered("z", latent_dim)
        speeds = with_velocity_names(names)[latent_dim:] if order == 2 else ()
        library = Library.paper(names, velocities=speeds)
    rows = []
    for i, (name, entry) in enumerate(encoders.items()):
        encoder, kind = entry if isinstance(entry, tuple) else (entry, head)
        if progress is not None:
            progress(f"encoding with {name}", i / len(encoders))
        rows.append(
            _one(name, encoder, kind, train, rest, latent_dim, order, library, delta, steps, seed)
        )
    if progress is not None:
        progress("done", 1.0)
    return Comparison(rows, delta, order, steps)


def _one(
    name: str,
    encoder: Encoder | str,
    head: str,
    train: Trajectories,
    test: Trajectories,
    latent_dim: int,
    order: int,
    library: Library,
    delta: float,
    steps: int,
    seed: int,
) -> Diagnosis:
    with warnings.catch_warnings():
        # A poor law is a result here, and stands in the table.
        warnings.simplefilter("ignore", NumericalWarning)
        learned = fit_frozen(
            train, encoder, library, "subset", seed, latent_dim, None, head=head, order=order
        )
    names = list(library.inputs[:latent_dim])
    z_train, z_test = (encode_all(learned.encoder, part.x) for part in (train, test))
    near = Trajectories(z_train, train.t, state=train.state, names=names, gaps="keep")
    far = Trajectories(z_test, test.t, state=test.state, names=names, gaps="keep")
    complexity = induced_complexity(None, near, library, delta, random_state=seed, order=order)
    law = complexity.law if complexity.law is not None else learned.law
    rollout, physical = score_rollouts(law, near, far, order, steps)
    inner = learned.encoder.encoder if isinstance(learned.encoder, HeadedEncoder) else None
    headed = inner is not None or head == "learned"
    base = inner if inner is not None else pixels()
    whole, whole_held = (
        (encode_all(base, train.x), encode_all(base, test.x)) if headed else (z_train, z_test)
    )
    check_report, findings = shortcuts(far, test, order)
    kind = "learned" if head == "learned" else _kind(learned) if headed else "none"
    return Diagnosis(
        name, kind, int(np.prod(whole[0].shape[1:])), complexity, law, rollout, physical,
        probe(near, far, order), probe_embedding(whole, whole_held, train, test, order),
        check_report, findings, _told(learned),
    )  # fmt: skip


def _told(learned: Any) -> list[str]:
    """What became of the embedding; what the search itself said is about the search."""
    return [note for note in learned.notes if note.startswith(("head ", "frames "))]


def _kind(learned: Any) -> str:
    """The head that "auto" chose, from its own words."""
    return learned.notes[0].split(":")[0].removeprefix("head ")
