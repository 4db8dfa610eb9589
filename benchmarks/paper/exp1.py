"""Experiment 1: coordinates with elegant dynamics, from 32-dimensional observations."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from time import perf_counter
from typing import Any

import torch
from torch import nn

from benchmarks.paper.common import Result, Split, generator, law_metrics, load
from benchmarks.paper.evaluation import evaluate_latents
from benchmarks.paper.profiles import Profile
from sjepa.backend import Progress
from sjepa.backend.registry import available_backends, make_backend
from sjepa.callbacks import Step
from sjepa.metrics import latent_spread
from sjepa.models import NeuralField, SparseLaw, Whitening, make_encoder
from sjepa.symbolic import Law, Library
from sjepa.training.alternating import (
    AlternatingLoop,
    Alternation,
    LatentModel,
    Phase,
    as_part,
    latent_rows,
    propose,
)
from sjepa.training.alternating.conditions import Component
from sjepa.training.rollout_fit import refine


CONDITIONS = (
    "neural_jepa",
    "post_hoc",
    "sjepa",
    "one_step_collapse",
    "one_step_attached",
    "fixed_point",
    "pysindy_pca",
)
# Conditions that begin with the warm start.
WARM = ("neural_jepa", "post_hoc", "sjepa", "one_step_attached")
DIAGNOSTICS = ("one_step_collapse", "one_step_attached", "fixed_point")
LIBRARY = Library.paper(["z1", "z2"])
FIXED_POINT = (0.65, -0.35)


def tasks(conditions: Sequence[str]) -> list[list[str]]:
    """Conditions that belong to one task: post-hoc discovery needs the Neural JEPA coordinates."""
    chain = [c for c in ("neural_jepa", "post_hoc") if c in conditions]
    return [part for part in (chain, *([c] for c in conditions if c not in chain)) if part]


def plan(profile: Profile, backend: Any) -> Alternation:
    """The alternating search of a profile; the backend says who owns the structure."""
    return Alternation(
        cycles=profile.cycles,
        dynamics=profile.condition("dynamics_phase"),
        space=profile.condition("space_phase"),
        backend=profile.backend(backend),
        seconds=profile.search_seconds,
        ema=profile.ema,
    )


class SeedRun:
    """One seed of the experiment.

    Every condition has random numbers of its own, so results do not depend on which conditions
    are run, in what order or in how many processes.
    """

    def __init__(
        self,
        seed: int,
        profile: Profile,
        backend: Any = "stlsq",
        device: torch.device | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.seed, self.profile = seed, profile
        self.plan = plan(profile, backend)
        self.device = device or torch.device("cpu")
        self.progress = progress
        self.data: dict[str, Split] = load("exp1", self.device)
        self.train, self.validation = self.data["train"].batch, self.data["val"].batch

    # Stages ---------------------------------------------------------------------------------------

    def fresh(self) -> LatentModel:
        """A model with the paper's networks, initialized from the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            encoder, neural = make_encoder("mlp", 32, 2), NeuralField(2)
            model = LatentModel(encoder, neural=neural, integrator=self.profile.integrator)
        return model.to(self.device)

    def warm(self) -> LatentModel:
        """The warm start of all conditions but the collapse diagnostics."""
        model = self.fresh()
        self._phase(model, "warm_start")
        return model

    def conditions(self, names: Sequence[str], warm: LatentModel | None) -> list[Result]:
        """Train and evaluate conditions of one task, each from the warm start."""
        results = []
        model: LatentModel | None = None
        for name in names:
            start = perf_counter()
            diagnostics: list[dict[str, Any]] = []
            if name == "post_hoc":
                if model is None:  # asked for without its predecessor
                    assert warm is not None
                    model = deepcopy(warm)
                    self._phase(model, "neural_jepa")
                law = self._post_hoc(model)
            elif name in DIAGNOSTICS:
                model = self._start(name, warm)
                before = latent_spread(model.encode(self.train.x)).min_std
                law = self._diagnostic(model, name)
            elif name == "pysindy_pca":
                pca = self._pca()
                if pca is None:
                    continue
                model, law = pca
            else:
                assert warm is not None
                model = deepcopy(warm)
                if name == "neural_jepa":
                    self._phase(model, name)
                    law = None
                else:
                    law, diagnostics = self._sjepa(model)
            results.append(self._result(name, model, law, perf_counter() - start, diagnostics))
            if name in DIAGNOSTICS:  # a small spread after training may be that of the start
                results[-1].metrics["min_std_before"] = before
        return results

    def _post_hoc(self, model: LatentModel) -> Law:
        self._initialize(model)
        self._phase(model, "post_hoc")
        assert model.symbolic is not None
        model.symbolic.threshold_(self.profile.settings.prune)
        return self._reported(model)

    def _sjepa(self, model: LatentModel) -> tuple[Law, list[dict[str, Any]]]:
        loop = AlternatingLoop(
            model, LIBRARY, self.train, self.validation, self.plan, self.profile.settings,
            generator(self.device, self.seed, "sjepa"), self._on_step, self.seed,
        )  # fmt: skip
        loop.run()
        for row in loop.diagnostics:
            row["selected"] = row["cycle"] == loop.best_cycle
        return self._reported(model), loop.diagnostics

    def _diagnostic(self, model: LatentModel, name: str) -> Law:
        # With every coefficient at zero: nothing in this objective asks for a law.
        model.symbolic = SparseLaw(LIBRARY, LIBRARY.inputs).to(self.device)
        self._phase(model, name)
        assert model.symbolic is not None
        model.symbolic.threshold_(self.profile.settings.prune)
        return self._reported(model, debias=False)

    def _start(self, name: str, warm: LatentModel | None) -> LatentModel:
        """Where a diagnostic begins.

        The text's objective begins from scratch: from the warm encoder it does not collapse within
        its epochs, since the encoder drifts along the flow as fast as its target lags behind. With
        targets that are differentiated it does, so that one begins with the warm encoder.
        """
        if name == "one_step_attached":
            assert warm is not None
            return deepcopy(warm)
        return self.fresh() if name == "one_step_collapse" else self._constant()

    def _constant(self) -> LatentModel:
        """Both encoders as the same nonzero constant map."""
        model = self.fresh()
        for encoder in (model.encoder, model.target.encoder):
            last = [m for m in encoder.modules() if isinstance(m, nn.Linear)][-1]
            with torch.no_grad():
                last.weight.zero_()
                last.bias.copy_(torch.tensor(FIXED_POINT))
        return model

    def _pca(self) -> tuple[LatentModel, Law] | None:
        """PySINDy on the two leading principal components: what needs no training at all."""
        if not available_backends()["pysindy"]:
            return None
        whitening = Whitening.fit(self.train.x, 32, rank=2)
        model = LatentModel(whitening, integrator="rk4").to(self.device)
        rows = latent_rows(model.encode(self.train.x), self.train.dt, integrator="rk4")
        backend = make_backend("pysindy", options={"threshold": 0.1})
        law = propose(backend, *rows, LIBRARY).law.threshold(self.profile.settings.report)
        model.symbolic = as_part(law, LIBRARY, self.plan.policy).to(self.device)
        return model, law

    # What the stages share ------------------------------------------------------------------------

    def _initialize(self, model: LatentModel) -> None:
        """A law for the present coordinates from a backend."""
        model.eval()
        z = model.encode(self.train.x)
        rows = latent_rows(z, self.train.dt, integrator=self.profile.integrator)
        proposal = propose(
            make_backend(self.plan.backend), *rows, LIBRARY,
            seed=self.seed, seconds=self.plan.seconds,
        )  # fmt: skip
        model.symbolic = as_part(proposal.law, LIBRARY, self.plan.policy).to(self.device)

    def _phase(self, model: LatentModel, name: str) -> None:
        Phase(
            model, self.profile.condition(name), self.train, self.validation,
            self.profile.settings, generator(self.device, self.seed, name), self._on_step,
        ).run()  # fmt: skip

    def _reported(self, model: LatentModel, debias: bool = True) -> Law:
        """The law at the reporting threshold; the default profile refits it without penalty."""
        assert model.symbolic is not None
        model.symbolic.threshold_(self.profile.rollout_cut or self.profile.settings.report)
        law = model.symbolic.law(self.profile.settings.report)
        if debias and self.profile.debias and len(law.coefficients):
            z = model.encode(self.train.x)
            law = refine(
                law, z, self.train.dt,
                integrator=self.profile.integrator, horizon=self.profile.debias_horizon,
                prune=self.profile.settings.report,
            )  # fmt: skip
            model.symbolic = as_part(law, LIBRARY, self.plan.policy).to(self.device)
        return law

    def _result(
        self,
        name: str,
        model: LatentModel,
        law: Law | None,
        seconds: float,
        diagnostics: list[dict[str, Any]],
    ) -> Result:
        uses: tuple[Component, ...] = ("neural",) if law is None else ("symbolic",)
        fixed_coordinates = name in ("post_hoc", "pysindy_pca")
        metrics, curves = evaluate_latents(model, uses, fixed_coordinates, self.data)
        metrics = {**law_metrics(law, LIBRARY), **metrics, "seconds": seconds}
        if diagnostics:
            metrics["best_cycle"] = float(next(r["cycle"] for r in diagnostics if r["selected"]))
        text = None if law is None else law.to_json()
        return Result(name, self.seed, metrics, text, curves, diagnostics)

    def _on_step(self, step: Step) -> None:
        if self.progress is not None:
            self.progress(step.text, step.share)
