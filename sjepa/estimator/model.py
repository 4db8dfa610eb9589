"""The front door: coordinates and equations from observations, in scikit-learn's manner."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

from sjepa.backend import Backend
from sjepa.backend.registry import make_backend
from sjepa.callbacks import Log, ProgressBar, read_verbose
from sjepa.data import Trajectories
from sjepa.data.history import choose_history
from sjepa.data.names import numbered, with_velocity_names
from sjepa.errors import TrainingDiverged
from sjepa.estimator.check_data import check_data
from sjepa.estimator.files import apply_saved, plain_params, saved_from
from sjepa.estimator.fitted import Fitted
from sjepa.estimator.parameter_types import is_identity, search_of
from sjepa.estimator.regressor_files import FILE, load_regressor
from sjepa.estimator.validate import validate
from sjepa.models import Transition
from sjepa.models.pretrained import ReadOut
from sjepa.runs import Run, fingerprint, writable
from sjepa.runs.log import RunLog
from sjepa.runs.recorder import RunRecorder
from sjepa.runs.saving import read as read_saved
from sjepa.settings import draw_seed, path_of
from sjepa.symbolic import Front, Grammar, Law, Library
from sjepa.training import (
    MAX_COORDINATES,
    Alternating,
    FitResult,
    Joint,
    LawOnly,
    Neural,
    as_library,
    correction_figures,
    fewest_coordinates,
    fit_alternating,
    fit_frozen,
    fit_joint,
    learn_correction,
    refine_hybrid,
)
from sjepa.training.alternating.distributed import rank, together
from sjepa.training.libraries import coordinate_grammar


class SJEPA(Fitted):
    """Learn coordinates of observations and the simplest adequate law of their dynamics.

    Parameters
    ----------
    latent_dim : int or "auto", default=2
        Number of coordinates, called z1, z2, ...; "auto" takes the fewest, up to three, that have
        an adequate law, and reports those tried in `dimensions_`.
    backend : name, mapping with a "name", Backend class or instance, or list of them
        Backend of the symbolic search for fixed coordinates and for the alternating search. In the
        joint search a backend other than the default proposes structures for a second run; one
        that writes trees of the `grammar` may propose terms that the default library lacks.
    search : "joint", "alternating", Joint, Alternating or LawOnly
        Search structures and coordinates jointly (the default), or in turns as in the paper; a
        name stands for :class:`sjepa.Joint` or :class:`sjepa.Alternating` with its defaults. With a
        given encoder the default is :class:`sjepa.LawOnly`, and "alternating" minimizes the paper's
        L_frozen.
    encoder : "auto", "identity", a callable or nn.Module, or ReadOut
        "auto" learns the coordinates. "identity" takes the observations as coordinates, anything
        callable is used as it is, frozen (see :mod:`sjepa.models.pretrained`); then only the law is
        searched. ``sjepa.ReadOut(encoder, head="pca")`` says how `latent_dim` coordinates are read
        off its embeddings.
    library, grammar : candidate terms or expressions, in the names z1, z2, ...
        A library may be a list of terms such as ``["z1", "sin(z1)"]``. By default 1, z, sin z,
        cos z, squares and products, and with ``order=2`` the velocities z1_dot, ... The inputs of a
        Library or Grammar name the coordinates; with ``encoder="identity"`` the data do.
    delta : float or "auto"
        Largest adequate validation risk; "auto" estimates it from the noise floor and reports it.
        For the alternating search a number is the paper's δ_pred: L_pred is constrained to it by a
        multiplier.
    correction : None, "neural", "neural_only", Neural or nn.Module
        A bounded network that learns the residual of the law; "neural_only" leaves the law out.
        With ``order=2`` it adds to the accelerations. Its settings are :class:`sjepa.Neural`. The
        alternating search learns it together with coordinates and law, the others afterwards; the
        joint search with ``Neural(joint="coordinates")`` refines all three together at its end.
    order : 1 or 2
        Whether the law gives first or second time derivatives of the coordinates.
    history : int or "auto", optional
        Coordinates are read off windows of this many successive observations, for states that a
        single one does not determine; "auto" chooses the length by the noise (`history_length_`).
        They belong to the middle of their window: a trajectory loses ``history - 1`` of them.
    random_state : int, numpy RandomState or Generator, optional
        None draws a new seed for every fit, kept in `seed_`.
    verbose : bool, callable, Callback, or list of these, optional
        By default a progress bar is shown in terminals and notebooks and nothing elsewhere; True
        writes lines where no bar can be drawn, False shows nothing. A function is called with a
        line of text and the share of the work done, a Callback as the fit advances; see
        :mod:`sjepa.callbacks`.

    Attributes
    ----------
    law_ : Law
    front_ : Front
    equations_ : DataFrame
        The front as a table: complexity, loss, score, equation, and which row was chosen. `law_`
        is that row, with its coefficients refined if the search does so.
    diagnostics_ : list of str
        Diagnostics of the result.
    warnings_ : list of str
        Diagnostics that call the result into question; ``print(model)`` shows them too.
    figures_ : dict
        Of the joint search: ``noise_floor``, ``residual`` (both as shares of the variance of
        the increments, on held-out trajectories), their ``ratio``, ``residual_training``,
        ``rollout_held_out``, ``rollout_training``, and whether the law is ``adequate``. With given
        coordinates ``residual_training`` and, where simulations were made, ``free_run``: their mean
        squared error in units of the noise. Of every law with a correction ``rho_corr``, the
        energy of the correction as a share of that of the whole prediction.
    rivals_ : list
        Other adequate laws, each with its ``law`` and ``encoder``; not saved with the model.
    encoder_ : callable
        Observations ``(..., *obs)`` to coordinates (..., d).
    latent_dim_ : int
        Number of coordinates in the law.
    dimensions_ : DataFrame
        With ``latent_dim="auto"``, a row for each number of coordinates tried: residual,
        noise floor, complexity of the law (C_dyn where it is adequate), and the law.
    history_length_ : int
        Observations in a window; 1 without a `history`.
    history_ : DataFrame
        Metrics recorded during training: stage, cycle, epoch, metric, value.
    transition_ : Transition
        Law and correction as one differentiable predictor, which `simulate`, `linearize` and the
        planners of :mod:`sjepa.control` use.
    seed_ : int
        Seed of the fit's random numbers.
    step_ : float
        Median time between observations.

    Examples
    --------
    >>> t = np.arange(0, 10, 0.05)
    >>> x = [a * np.stack([np.cos(t), -np.sin(t)], axis=1) for a in (0.5, 1.0, 1.5)]
    >>> model = SJEPA(encoder="identity").fit(x, t)
    >>> model.law_
    z1' = z2
    z2' = -z1
    """

    def __init__(
        self,
        latent_dim: int | Literal["auto"] = 2,
        *,
        backend: str | Mapping[str, Any] | type[Backend] | Backend | Sequence[Any] = "stlsq",
        search: str | Joint | Alternating | LawOnly = "joint",
        encoder: str | Callable[[Any], Any] | ReadOut = "auto",
        library: Library | Sequence[str] | None = None,
        grammar: Grammar | None = None,
        delta: float | str = "auto",
        correction: str | Neural | nn.Module | None = None,
        order: Literal[1, 2] = 1,
        history: int | Literal["auto"] | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.backend = backend
        self.search = search
        self.encoder = encoder
        self.library = library
        self.grammar = grammar
        self.delta = delta
        self.correction = correction
        self.order = order
        self.history = history
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, x: Any, t: Any = None, u: Any = None, *, run: str | Path | Run | None = None
    ) -> SJEPA:
        """Learn from trajectories: arrays with times `t`, or a Trajectories.

        With `run`, a folder, checkpoints, a log and the best law so far (``best.json``) are left
        there, and in the end the model. A fit that was
        stopped resumes from its last checkpoint when it is called again with the same folder,
        settings and data, and comes to the same result.
        """
        trajectories = Trajectories.of(x, t, u)
        self.check(trajectories)
        self._times = None if t is None or isinstance(t, list | tuple) or np.ndim(t) > 1 else t
        self.seed_ = draw_seed(self.random_state)
        if run is not None and rank():  # the first of several processes keeps the files
            folder = run.folder if isinstance(run, Run) else path_of(run, "run")
            if os.path.lexists(folder / "run.json") and (done := Run.open(folder)).finished:
                return apply_saved(self, done.result(), self.encoder)
            run = None
        if run is None:
            return self._fit(trajectories, None)
        asked = {
            "settings": plain_params(self),
            "fingerprint": fingerprint(trajectories),
            "seed": self.seed_,
        }
        if not isinstance(run, Run):
            begun = os.path.lexists(path_of(run, "run") / "run.json")
            run = Run.open(run) if begun else Run.begin(run, asked)
        if not run.finished:
            writable(run.folder)
            with run, RunLog(run.folder / "log.txt"):
                run.check(asked)
                # A fit that resumes is the one that began, also where its seed was drawn.
                self.seed_ = int(run.asked.get("seed", self.seed_))
                if not run.finished:  # by another process, before the lock was ours
                    self._fit(trajectories, run)
                    run.finish(saved_from(self))
                    return self
        run.check(asked)  # only read: a finished run may lie on a disk that cannot be written
        return apply_saved(self, run.result(), self.encoder)

    def _fit(self, trajectories: Trajectories, run: Run | None) -> SJEPA:
        self.history_length_ = self._choose_history(trajectories)
        first = rank() == 0
        shown, listeners = read_verbose(self.verbose)
        bar = ProgressBar(shown if first else False)
        callbacks = [Log(), *listeners, bar]
        recorder = RunRecorder(callbacks, None if run is None else run.checkpoint)
        for callback in callbacks:
            callback.on_start(self)
        try:
            with bar:
                learned = self._learn(self._windows(trajectories), recorder)
        except (np.linalg.LinAlgError, torch.linalg.LinAlgError) as error:
            raise TrainingDiverged(
                f"The search left the range of numbers ({error!s:.80}); rescale the data, or give "
                "more of them."
            ) from error
        self._keep(learned, trajectories, recorder.table())
        recorder.conclude(self.law_, self.figures_)
        for callback in callbacks:
            callback.on_end(self)
        return self

    def _keep(self, learned: FitResult, trajectories: Trajectories, history: pd.DataFrame) -> SJEPA:
        """Become the fitted model of what a search has found."""
        # Canonical, so that the law that is saved and read again is the same to the last bit.
        self.law_: Law = learned.law.canonical()
        self.front_: Front = learned.front
        self.encoder_ = learned.encoder
        self.latent_dim_ = len(self.law_.outputs)
        self.warnings_: list[str] = list(learned.warnings)
        k = self.history_length_
        past = [f"coordinates are those of the middle of {k} successive observations."]
        self.diagnostics_: list[str] = [*past[: k > 1], *learned.notes, *learned.warnings]
        self.figures_: dict[str, float] = dict(learned.figures)
        self.rivals_: list[Any] = list(learned.rivals)
        self.verdict_ = learned.verdict
        self.history_: pd.DataFrame = history
        self.action_names_ = trajectories.input_names or ()
        self.step_ = float(np.median(np.concatenate(trajectories.steps)))
        self.obs_shape_ = tuple(trajectories.obs_shape)
        self.n_features_in_ = int(np.prod(self.obs_shape_))
        # Now, so that using the model does not change it.
        integrator = search_of(self).integrator
        self._moved_by = (self.law_, Transition.of(self.law_, integrator))
        correction = Neural.of(self.correction)
        if correction is not None:
            encoded = self.coordinates(trajectories)
            if learned.correction is not None:
                transition = Transition.of(self.law_, integrator, learned.correction)
            else:
                self.law_, transition = learn_correction(
                    encoded, self.law_, correction, integrator, self.seed_
                )
            self._moved_by = (self.law_, transition)
            figures, warnings = correction_figures(transition, encoded)
            self.figures_ |= figures
            self.warnings_ += warnings
            said = [f"rho_corr {v:.3g}: the correction's share." for v in figures.values()]
            self.diagnostics_ += [*said, *warnings]
        if trajectories.names is not None:
            self.feature_names_in_ = np.array(trajectories.names, dtype=object)
        return self

    def _choose_history(self, trajectories: Trajectories) -> int:
        if self.history == "auto":
            max_dimension = MAX_COORDINATES if self.latent_dim == "auto" else self.latent_dim
            return choose_history(trajectories, max_dimension)
        return int(self.history or 1)

    def check(self, trajectories: Trajectories) -> None:
        """Refuse settings that contradict each other or the data, before anything is done."""
        validate(self, trajectories)
        check_data(trajectories, states=is_identity(self.encoder))

    def _learn(self, trajectories: Trajectories, recorder: RunRecorder) -> FitResult:
        seed, search, correction = self.seed_, search_of(self), Neural.of(self.correction)
        if isinstance(self.encoder, ReadOut) or self.encoder != "auto":
            given = ReadOut.of(self.encoder)
            return fit_frozen(
                trajectories, given.encoder, self._space(None), self.backend, seed,
                self.latent_dim, recorder, search=search, head=given.head, order=self.order,
                delta=self.delta, correction=correction,
            )  # fmt: skip
        if isinstance(search, Alternating):
            assert self.latent_dim != "auto"
            space = self._space(self.latent_dim, trajectories.input_names or ())
            held = None if isinstance(self.delta, str) else float(self.delta)
            with together(search.device) as device:
                return fit_alternating(
                    trajectories, space, self.latent_dim, self.backend, search, device, seed,
                    recorder, correction=correction, delta=held,
                )  # fmt: skip
        assert isinstance(search, Joint)
        if self.latent_dim == "auto":
            max_dimension = min(MAX_COORDINATES, int(np.prod(trajectories.obs_shape)))
            may_grow = search.grow

            def learn(d: int, grow: bool) -> FitResult:
                with recorder.part(grow * max_dimension + d - 1, max_dimension * (1 + may_grow)):
                    return self._learn_joint(
                        trajectories, recorder, d, replace(search, grow=grow), f"{d} coordinates "
                    )

            learned, tried = fewest_coordinates(learn, max_dimension, may_grow)
            self.dimensions_ = pd.DataFrame([asdict(one) for one in tried])
        else:
            learned = self._learn_joint(trajectories, recorder, self.latent_dim, search)
        hybrid = Neural.beside(correction)
        if hybrid is not None and hybrid.joint == "coordinates":
            learned = refine_hybrid(trajectories, learned, hybrid, seed)
        return learned

    def _learn_joint(
        self, trajectories: Trajectories, recorder: RunRecorder, d: int, search: Joint,
        stage: str = "",
    ) -> FitResult:  # fmt: skip
        """With `d` coordinates; `stage` says which, where several numbers of them are compared."""
        space = self._space(d, trajectories.input_names or ())
        grammar = self.grammar
        if self.library is None and grammar is None:  # a given library is all that may be written
            actions = trajectories.input_names or ()
            grammar = coordinate_grammar([*space.inputs[:d], *actions], d, self.order)
        if not isinstance(space, Library):
            space = space.library(space.inputs[:d])
        return fit_joint(
            trajectories, space, d, self.order, self.delta, self.backend, self.seed_, recorder,
            search, windows=self.history_length_ > 1, stage=stage, grammar=grammar,
        )  # fmt: skip

    def _space(self, dimension: int | None, actions: Sequence[str] = ()) -> Any:
        given = self.grammar if self.library is None else self.library
        if dimension is None:
            return given
        names = list(numbered("z", dimension))
        if given is not None:
            return as_library(given, names, actions)
        if isinstance(search_of(self), Alternating) and make_backend(self.backend).trees:
            return coordinate_grammar([*names, *actions], dimension, 1)
        # Friction; a law of accelerations has no other term for it.
        velocities = with_velocity_names(names)[dimension:] if self.order == 2 else ()
        library = Library.paper(names, actions, velocities)
        if isinstance(search_of(self), Joint) and dimension <= 2 and not actions:
            cubic = Library.polynomial(names, 3)  # Duffing, Van der Pol, double wells
            library += Library(cubic.terms, library.inputs, canonical=False)
        return library


def load(folder: str | Path, encoder: Callable[[Any], Any] | None = None) -> Any:
    """The model that ``save`` of SJEPA or SymbolicRegressor, or a finished run, left in a folder.

    Nothing in the folder is executed. An encoder of the user's own is not stored: give it again.

    Examples
    --------
    >>> import tempfile
    >>> t = np.arange(0, 10, 0.05)
    >>> x = [np.stack([np.cos(t + b), -np.sin(t + b)], axis=1) for b in (0, 1, 2)]
    >>> model = SJEPA(encoder="identity").fit(x, t)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     model.save(f"{place}/rotation")
    ...     print(load(f"{place}/rotation").law_)
    z1' = z2
    z2' = -z1
    """
    folder = path_of(folder, "folder")
    if os.path.lexists(folder / FILE):
        from sjepa.estimator.regressor import SymbolicRegressor

        return load_regressor(SymbolicRegressor(), folder)
    return apply_saved(SJEPA(), read_saved(folder), encoder)
