"""The posterior over laws, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from sjepa.bayes.calibration import Calibration, calibrate
from sjepa.bayes.draws import Draws
from sjepa.bayes.prediction import Prediction, Rollout
from sjepa.bayes.structure_fit import StructureFit
from sjepa.bayes.transitions import StepModel
from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError, LawError
from sjepa.settings import array_of, whole_of
from sjepa.symbolic import Law


if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Posterior:
    """The posterior over laws, and what it predicts.

    Made by :func:`sjepa.bayes.posterior` or ``SJEPA.posterior``. Weights are posterior
    probabilities given the candidate set, not over the whole grammar.

    Attributes
    ----------
    structures : DataFrame
        One row for each candidate, heaviest first: weight, complexity, evidence (log marginal
        likelihood, nats), equation at the posterior mode, method, and status ("ok", or what
        makes the evidence unreliable).
    law : Law
        The heaviest structure at its posterior mode.
    """

    def __init__(
        self,
        fits: Sequence[StructureFit],
        gamma: float,
        step: StepModel,
    ) -> None:
        if not gamma >= 0:
            raise ConfigError(f"gamma must be at least 0, got {gamma!r}.")
        # Evidences of thousands of nats differ by tenths: single precision would not do.
        score = torch.tensor(
            [f.log_evidence - gamma * f.structure.complexity for f in fits], dtype=torch.float64
        )
        if not score.isfinite().any():
            raise LawError(f"No candidate has a finite evidence: {fits[0].status}.")
        weights = torch.exp(score - score.logsumexp(0))
        order = torch.argsort(weights, descending=True, stable=True).tolist()
        self.fits = [fits[i] for i in order]
        self.weights = weights[order].numpy()
        self.gamma, self.step = gamma, step
        self._encoder: Callable[[Any], np.ndarray] | None = None
        self._obs_ndim = 1

    def of_observations(self, encode: Callable[[Any], np.ndarray], obs_ndim: int) -> Posterior:
        """The same posterior, taking observations (of `obs_ndim` axes) that `encode` turns into
        coordinates (B, d)."""
        result = copy(self)
        result._encoder, result._obs_ndim = encode, obs_ndim
        return result

    @cached_property
    def structures(self) -> pd.DataFrame:
        rows = [
            {
                "weight": w,
                "complexity": f.structure.complexity,
                "evidence": f.log_evidence,
                "equation": "; ".join(f.law.lines(digits=4)),
                "method": f.method,
                "status": f.status,
            }
            for w, f in zip(self.weights, self.fits, strict=True)
        ]
        return pd.DataFrame(rows)

    @property
    def law(self) -> Law:
        return self.fits[0].law

    @property
    def map_law(self) -> Law:
        """The single most probable law and coefficients.

        It maximizes log p(D | E, α, Σ) + log p(α | E) + log p(Σ) - γ C_sym(E), where `law`
        maximizes the evidence: with a known Σ = σ² I this is the penalized regression of the
        paper's MAP theorem.
        """
        score = [f.log_density - self.gamma * f.structure.complexity for f in self.fits]
        return self.fits[int(np.argmax(score))].law

    @property
    def effective_structures(self) -> float:
        """exp of the entropy of the weights: over how many laws the posterior spreads."""
        w = self.weights[self.weights > 0]
        return float(np.exp(-(w * np.log(w)).sum()))

    def __repr__(self) -> str:
        shown = [f"{'weight':>8}  {'complexity':>10}  {'evidence':>10}  equation"]
        for _, row in self.structures.head(10).iterrows():
            mark = "" if row["status"] == "ok" else f"   ({row['status']})"
            equation = row["equation"]
            equation = equation if len(equation) <= 80 else equation[:79] + "…"
            shown.append(
                f"{row['weight']:8.3f}  {row['complexity']:10g}  {row['evidence']:10.2f}  "
                f"{equation}{mark}"
            )
        if len(self.structures) > 10:
            shown.append(f"... {len(self.structures) - 10} more")
        return "\n".join(shown)

    # Draws and predictions -----------------------------------------------------------------------

    def draws(self, n: int = 1000, seed: int = 0) -> Draws:
        """N coherent draws as one batched transition.

        Draw b has one structure (by weight), one coefficient vector, one correction function and
        one covariance, which stay the same however often it is called. Returns a module:
        ``draws(z, dt, u)`` maps states (N, ..., d) and actions (..., m) to mean next states,
        ``draws.sample`` adds transition noise, ``draws.rollout`` takes many steps; see
        :class:`sjepa.bayes.Draws`. Planners average a cost over the first axis.
        """
        n = whole_of(n, "n", 1)
        generator = torch.Generator().manual_seed(whole_of(seed, "seed"))
        weights = torch.as_tensor(self.weights)
        chosen = torch.multinomial(weights, n, replacement=True, generator=generator)
        groups, places = [], []
        with torch.no_grad():
            for i in chosen.unique().tolist():
                place = torch.nonzero(chosen == i).squeeze(1)
                groups += self.fits[i].draw(len(place), generator)
                places.append(place)
        return Draws(groups, torch.cat(places), self.step)

    def predict(
        self, x: Any, dt: Any = None, u: Any = None, *, draws: int = 1000, seed: int = 0
    ) -> Prediction:
        """One step ahead of observations x ``(B, *obs)``, or of a single one.

        dt is a number or (B,), u the actions (B, m). Averages over structures, coefficients,
        corrections and covariances.
        """
        z, _ = self._states(x)
        steps = self._steps(dt, len(z))
        actions = self._actions(u, len(z))
        batch = self.draws(draws, seed)
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            begin = batch.expand(z)
            if self.step.noise == "observation":  # the state is not where it is seen
                begin = batch.add_noise(begin, None, generator)
            means = batch(begin, steps, actions)
            samples = batch.add_noise(means, steps, generator)
        spread = self.step.spread(1.0 if steps is None else steps)
        spread = spread.unsqueeze(-1) if isinstance(spread, Tensor) else spread
        roots = (spread * batch.root.unsqueeze(1)).expand(*means.shape, means.shape[-1])
        return Prediction(means.numpy(), roots.numpy(), samples.numpy())

    def rollout(
        self, x0: Any, t: Any, u: Any = None, *, draws: int = 1000, seed: int = 0,
        noise: bool = True,
    ) -> Rollout:  # fmt: skip
        """Coherent futures from an observation x0, or from B of them, at times t (K + 1,).

        u (K, m) or (K + 1, m) holds the action of each step. ``noise=False`` leaves the
        transition noise out and shows what is uncertain about the law alone.
        """
        z, single = self._states(x0)
        times = array_of(t, "t")
        if times.ndim != 1 or len(times) < 2 or not (np.diff(times) > 0).all():
            raise DataError(f"t must be increasing times (K + 1,), got shape {times.shape}.")
        actions = self._actions(u, None)
        if actions is not None:
            if len(actions) not in (len(times) - 1, len(times)):
                raise DataError(f"Got {len(actions)} actions for {len(times) - 1} steps.")
            actions = actions[: len(times) - 1]
        batch = self.draws(draws, seed)
        generator = torch.Generator().manual_seed(seed + 1)
        dt = torch.as_tensor(np.diff(times))
        with torch.no_grad():
            path = batch.rollout(batch.expand(z), dt, actions, generator=generator, noise=noise)
        values = torch.where(path.isfinite().all(-1, keepdim=True), path, torch.nan).numpy()
        return Rollout(values[:, 0] if single else values, times, self.law.outputs)

    def correction(
        self, x: Any, u: Any = None, *, draws: int = 1000, seed: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (B, d) of the correction g at observations."""
        z, _ = self._states(x)
        batch = self.draws(draws, seed)
        actions = self._actions(u, len(z))
        with torch.no_grad():
            g = batch.correction(batch.expand(z), actions).numpy()
        return g.mean(axis=0), g.std(axis=0)

    def calibration(
        self, x: Any, t: Any = None, u: Any = None, *, horizons: Sequence[int] = (1, 5, 10, 20, 50),
        draws: int = 500, starts: int = 200, seed: int = 0,
    ) -> Calibration:  # fmt: skip
        """Coverage, log density, calibration error and sharpness on held-out trajectories.

        x is a Trajectories, or arrays with times t. Horizons longer than the longest trajectory
        are left out.
        """
        held_out = Trajectories.of(x, t, u)
        latent = held_out.map(self._encode)
        longest = int(latent.lengths.max()) - 1
        fitting = [h for h in horizons if h <= longest]
        if not fitting:
            raise DataError(f"The held-out trajectories have at most {longest} steps.")
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            return calibrate(self.draws(draws, seed), latent, fitting, starts, generator)

    def plot(self, ax: Axes | None = None, max_structures: int = 8) -> Axes:
        """The heaviest structures and their weights."""
        from sjepa.bayes.plots import plot_structures

        return plot_structures(self, ax, max_structures)

    def _encode(self, x: Any) -> np.ndarray:
        return array_of(x, "x") if self._encoder is None else self._encoder(x)

    def _states(self, x: Any) -> tuple[Tensor, bool]:
        array = array_of(x, "x")
        single = array.ndim == self._obs_ndim
        z = self._encode(array[None] if single else array)
        wanted = len(self.law.outputs)
        if z.ndim != 2 or z.shape[1] != wanted:
            raise DataError(f"Expected observations of {wanted} coordinates, got {array.shape}.")
        return torch.as_tensor(z), single

    def _steps(self, dt: Any, rows: int) -> Tensor | float | None:
        if dt is None and self.step.dynamics == "continuous":
            raise DataError("The law is a vector field; give the step size dt.")
        if dt is None or np.ndim(dt) == 0:
            return dt
        steps = _tensor(dt).reshape(-1, 1)
        if len(steps) != rows:
            raise DataError(f"Got {len(steps)} step sizes for {rows} observations.")
        return steps

    def _actions(self, u: Any, rows: int | None) -> Tensor | None:
        """Actions (rows, m), checked against what the law takes."""
        wanted = len(self.law.inputs) - len(self.law.outputs)
        if u is None:
            if wanted:
                names = ", ".join(self.law.inputs[-wanted:])
                raise DataError(f"The law has actions ({names}); give them as u.")
            return None
        actions = _tensor(u)
        actions = actions[:, None] if actions.ndim == 1 else actions
        if (
            actions.ndim != 2
            or actions.shape[1] != wanted
            or (rows or len(actions)) != len(actions)
        ):
            raise DataError(f"Expected actions (rows, {wanted}), got {tuple(actions.shape)}.")
        return actions


def _tensor(values: Any) -> Tensor:
    return torch.as_tensor(array_of(values, "dt and u"))
