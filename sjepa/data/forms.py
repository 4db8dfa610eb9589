"""Which form of the data to fit, by the data: noise, inputs under zero-order hold, time scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from sjepa.data._check import Array, is_long, segments, spread
from sjepa.data.clock import held
from sjepa.data.derivatives import Derivatives, differentiate, second_derivatives
from sjepa.data.noise import noise_level
from sjepa.data.rows import (
    OnRows,
    derivative_rows,
    weak_functions,
    weak_rows,
    zoh_accelerations,
    zoh_rows,
)
from sjepa.data.trajectories import Trajectories
from sjepa.data.weak import window_points
from sjepa.errors import ConfigError
from sjepa.symbolic import Law, Library
from sjepa.symbolic.gram import variance_of


Form = Literal["auto", "derivative", "weak", "zoh", "discrete"]
FORMS = ("auto", "derivative", "weak", "zoh", "discrete")


# Noise above this share of a signal's spread makes the integral form the better one.
NOISY = 1e-3
# Segments, a quarter of which is predicted from the others at a time. With long ones the fit would
# have to reach states it never saw, and its error there says nothing about the actions.
SEGMENTS, FOLDS = 20, 4
# Rows that are plenty to compare two forms.
MAX_ROWS = 4_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a regression: values at points, or integrals of the terms of a library.

    `thinned` takes any function of the inputs to its values on some of the rows. Where a part of
    the law is `known`, the targets are the rest, and `loss_unit` (k,) is the variance of the
    whole ones.
    """

    form: Form
    targets: Array
    inputs: Array | None = None
    features: Array | None = None
    again: Mapping[str, Any] = field(default_factory=dict)  # what gives such rows of other data
    noisy: bool | None = None  # whether the states are, if that was looked at
    found: Derivatives | None = None  # those of the data as they are, unless they are very long
    integrals: Callable[[int], OnRows] | None = None
    known: Law | None = None
    loss_unit: Array | None = None

    def thinned(self, every: int) -> OnRows:
        """On each row whose number `every` divides."""
        if self.integrals is not None:
            return self.integrals(every)
        assert self.inputs is not None
        inputs = self.inputs[::every]
        return lambda f: f(inputs)

    def less(self, known: Law | None) -> Rows:
        """What a known part of the law leaves of the targets: its values, or its integrals."""
        if known is None:
            return self
        left = self.targets - self.thinned(1)(known.numpy())
        return replace(self, targets=left, known=known, loss_unit=variance_of(self.targets))


def continuous_rows(
    data: Trajectories,
    library: Library | None,
    *,
    order: int = 1,
    form: Form = "auto",
    trees: bool = False,
    window: int | None = None,
    columns: Sequence[int] | None = None,
    known: Law | None = None,
    **options: Any,
) -> Rows:
    """Rows for a law of the first or second derivatives.

    Parameters
    ----------
    library : Library, optional
        Its terms are integrated in the weak form; `columns` says which of states, velocities and
        actions are its inputs (all of them by default).
    form : the form to use, or "auto" to decide by the data
    trees : bool
        Whether rows must be values at points.
    window : observations under one test function of the weak form
    known : Law, optional
        What is known of the law, with the same inputs: the rows are then for the rest.
    options : those of :func:`differentiate`
    """
    if form == "weak" and trees:
        raise ConfigError("Expression trees need rows, which the weak form does not have.")
    found = (second_derivatives if order == 2 else differentiate)(data, **options)
    smooth = found.trajectories
    used = slice(None) if columns is None else list(columns)
    sizes = spread(smooth.x)
    points = window_points(found, sizes) if window is None else window
    noisy = None
    if form == "auto":
        form = "derivative"
        if held(data).any() and is_zoh(found, library, points, used, known):
            form = "zoh"
        elif not trees:
            noisy = is_noisy(data, *((found.noise, sizes) if order == 1 else ()))
            form = "weak" if noisy else form
    d = data.obs_shape[0]
    again = {**options, "order": order, "form": form, "window": points, "columns": columns}
    again |= {"trees": trees, "like": found.smoothing if order == 1 else None, "known": known}
    # The slope of a constant column is rounding; as a target it would be fitted like any other.
    still = sizes[-d:] == 0
    if form == "weak" or (form == "zoh" and not trees):
        assert library is not None
        # Smoothing blurs the kinks of held actions; only velocities have to be estimated.
        source = data if form == "zoh" and order == 1 else smooth
        del found
        features, targets = weak_rows(source, library, points, used, hold=form == "zoh")
        targets[:, -d:][:, still] = 0.0
        hold, terms = form == "zoh", len(library)
        return Rows(
            form, targets[:, -d:], features=features, again=again,
            integrals=lambda every: weak_functions(
                source, points, terms, used, hold=hold, every=every
            ),
        ).less(known)  # fmt: skip
    if form == "derivative":
        inputs, targets = derivative_rows(found)
    else:
        inputs, targets = (zoh_accelerations if order == 2 else zoh_rows)(data)
    targets[:, -d:][:, still] = 0.0
    inputs = inputs if columns is None else inputs[:, used]
    short = order == 1 and found.windows is not None and not is_long(data.lengths)
    return Rows(
        form, targets[:, -d:], inputs, again=again, noisy=noisy, found=found if short else None
    ).less(known)


def is_noisy(data: Trajectories, noise: Array | None = None, sizes: Array | None = None) -> bool:
    """Whether noise is more than a small share of the spread of any state or action.

    `noise` and `sizes` are noise and spread of the states, where they are known.
    """
    known = (data.x, noise, sizes)
    for series, level, size in [known] if data.u is None else [known, (data.u, None, None)]:
        level = noise_level(series, data.t) if level is None else level
        size = spread(series) if size is None else size
        if (level > NOISY * np.maximum(size, 1e-300)).any():
            return True
    return False


def is_zoh(
    found: Derivatives,
    library: Library | None,
    points: int,
    columns: Any = slice(None),
    known: Law | None = None,
) -> bool:
    """Whether actions held between samples explain the motion better than smooth ones do.

    Both hypotheses predict the same integrals, by least squares on all terms of a library, on
    segments that were not used to fit.
    """
    data = found.trajectories._cut(segments(found.trajectories.lengths))
    if library is None:
        names = [*(data.names or ()), *(data.input_names or ())]
        library, columns = Library.polynomial(names, 2), slice(None)
    errors = []
    for hold in (False, True):
        features, targets = weak_rows(data, library, points, columns, hold=hold)
        if known is not None:
            integrals = weak_functions(data, points, len(library), columns, hold=hold)
            targets[:, -len(known.outputs) :] -= integrals(known.numpy())
        errors.append(_held_out(features, targets))
    return errors[1] < errors[0]


def _held_out(features: Array, targets: Array) -> float:
    """Mean squared error on held-out segments, in units of each target's variance."""
    every = -(-len(targets) // MAX_ROWS)
    features, targets = features[::every], targets[::every]
    scale = np.sqrt((features**2).mean(axis=0))
    features = features / np.where(scale > 0, scale, 1.0)
    targets = targets / np.maximum(targets.std(axis=0), 1e-300)
    fold = np.arange(len(targets)) * SEGMENTS // len(targets) % FOLDS
    error = 0.0
    for k in range(FOLDS):
        inside, outside = fold != k, fold == k
        solved = np.linalg.lstsq(features[inside], targets[inside], rcond=1e-8)[0]
        error += float(((features[outside] @ solved - targets[outside]) ** 2).sum())
    return error / targets.size
