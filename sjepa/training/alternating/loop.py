"""Algorithm 1: dynamics search and space search in turn, with any backend."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from sjepa.backend import Backend
from sjepa.backend.registry import make_backend
from sjepa.callbacks import Step
from sjepa.data import TrajectoryBatch
from sjepa.errors import ConfigError, NumericalWarning, TrainingDiverged
from sjepa.models import SparseLaw
from sjepa.symbolic import Front, Grammar, Library
from sjepa.training.alternating.conditions import EXPERIMENT_1, Condition
from sjepa.training.alternating.config import TrainingConfig
from sjepa.training.alternating.latent_model import LatentModel
from sjepa.training.alternating.phase import Phase
from sjepa.training.alternating.proposals import (
    StructurePolicy,
    as_part,
    latent_rows,
    propose,
)
from sjepa.training.alternating.ranks import agreed
from sjepa.training.alternating.selection import Record, Shortlist


@dataclass(frozen=True, kw_only=True)
class Alternation:
    """How the two searches take turns.

    Parameters
    ----------
    cycles : int
    dynamics, space : Condition
        The two phases of a cycle.
    backend : name, mapping with a name and options, or Backend
        Proposes a law from the present latents at the start of a dynamics phase.
    emit, relaxed, propose_every_cycle : optional
        See :class:`StructurePolicy`; by default what suits the backend.
    seconds : float, optional
        Budget of one proposal.
    ema : "step" or "cycle"
        When the target encoder moves: after every update of the encoder, or, as Algorithm 1 is
        printed, once at the end of a cycle.
    refit : bool
        Whether the chosen law gets a last fit to rollouts without a penalty. A hybrid gets none:
        its law and its correction were fitted to each other.
    """

    cycles: int = 4
    dynamics: Condition = field(default_factory=lambda: EXPERIMENT_1["dynamics_phase"])
    space: Condition = field(default_factory=lambda: EXPERIMENT_1["space_phase"])
    backend: Any = field(
        default_factory=lambda: {"name": "stlsq", "threshold": 0.035, "ridge": 1e-5}
    )
    emit: Literal["library", "tree"] | None = None
    relaxed: bool | None = None
    propose_every_cycle: bool | None = None
    seconds: float | None = 20.0
    ema: Literal["step", "cycle"] = "step"
    refit: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.ema, str) or self.ema not in ("step", "cycle"):
            raise ConfigError(f"ema is 'step' or 'cycle', got {self.ema!r}.")

    @property
    def epochs_per_cycle(self) -> int:
        return self.dynamics.epochs + self.space.epochs

    @property
    def policy(self) -> StructurePolicy:
        """Who owns the structure: the backend's policy, apart from what this plan says."""
        policy = StructurePolicy.of(make_backend(self.backend))
        given = {name: getattr(self, name) for name in policy._fields}
        return policy._replace(**{name: v for name, v in given.items() if v is not None})


class AlternatingLoop:
    """Runs the cycles on a warm-started model and restores the best one.

    ``diagnostics`` has one row for each finished cycle: law, complexity, risk and spread after
    both phases. ``state_dict`` can be taken at any step; a new object that loads it continues
    to the same result, provided the backend gives the same answer twice (a budget in seconds may
    prevent that).
    """

    def __init__(
        self,
        model: LatentModel,
        space: Library | Grammar,
        train: TrajectoryBatch,
        validation: TrajectoryBatch,
        plan: Alternation | None = None,
        settings: TrainingConfig | None = None,
        generator: torch.Generator | None = None,
        on_step: Callable[[Step], None] | None = None,
        seed: int = 0,
    ) -> None:
        self.model, self.space = model, space
        self.train, self.validation = train, validation
        self.plan, self.settings = plan or Alternation(), settings or TrainingConfig()
        self.generator = generator or torch.Generator(train.x.device).manual_seed(seed)
        self.on_step, self.seed = on_step, seed
        self.backend: Backend = make_backend(self.plan.backend)
        self.backend.prepare()
        self.policy = self.plan.policy
        self.shortlist = Shortlist(self.settings.tolerance)
        self.diagnostics: list[dict[str, Any]] = []
        self.front: Front | None = None
        self.cycle = 0
        self.stage = "propose"
        self.phase: Phase | None = None
        self._resumed: dict[str, Any] | None = None

    def run(self) -> Record:
        """All cycles; the model ends as the best of them, and its record is returned."""
        try:
            while self.cycle < self.plan.cycles:
                self._run_cycle()
        except TrainingDiverged as error:
            if not self.shortlist.entries:
                raise
            what = f"Cycle {self.cycle + 1}: {error} Cycle {self.best_cycle} is kept."
            warnings.warn(what, NumericalWarning, stacklevel=2)
        best, snapshot = self.shortlist.best()
        self.model.restore(snapshot)
        return best

    def _run_cycle(self) -> None:
        if self.stage == "propose":
            self._propose()
            self.stage = "dynamics"
        if self.stage == "dynamics":
            row = {"cycle": self.cycle + 1} | self._run_phase(self.plan.dynamics, "dynamics_")
            self.diagnostics.append(row)
            self.stage = "space"
        space = self.plan.space.with_(target_follows=self.plan.ema == "step")
        self.diagnostics[-1] |= self._run_phase(space, "")
        self._finish_cycle()

    @property
    def best_cycle(self) -> int:
        return self.shortlist.best()[0].epoch

    def _propose(self) -> None:
        data, model = self.train, self.model
        if self.cycle and not self.policy.propose_every_cycle:
            if self.policy.relaxed and isinstance(model.symbolic, SparseLaw):
                model.symbolic.set_(model.symbolic.active(), shrink=False)
            return
        model.eval()
        # One coordinate system at both ends: the target encoder lags behind and would add its
        # lag, divided by Δt, to every velocity.
        mask = None if bool(data.mask.all()) else data.mask
        rows = latent_rows(
            model.encode(data.x), data.dt, mask, model.integrator, data.u, model.dynamics
        )
        proposal = propose(
            self.backend,
            *rows,
            self.space,
            warm=self.front,
            seed=self.seed + self.cycle,
            seconds=self.plan.seconds,
            tolerance=self.settings.tolerance,
            dynamics=model.dynamics,
        )
        # A search with a clock may end elsewhere in another process.
        self.front, law = agreed((proposal.front, proposal.law))
        model.symbolic = as_part(law, self.space, self.policy).to(data.x.device)

    def _run_phase(self, condition: Condition, prefix: str) -> dict[str, Any]:
        self.phase = Phase(
            self.model,
            condition,
            self.train,
            self.validation,
            self.settings,
            self.generator,
            self._report,
        )
        if self._resumed is not None:
            self.phase.load_state_dict(self._resumed)
            self._resumed = None
        record = self.phase.run()
        skipped, self.phase = self.phase.skipped, None
        assert self.model.symbolic is not None
        self.model.symbolic.threshold_(self.settings.prune)
        self._record = record
        law = self.model.symbolic.law(self.settings.report)
        row = {"law": "; ".join(law.lines(digits=5)), "skipped": skipped, **record.as_dict()}
        return {prefix + key: value for key, value in row.items()}

    def _finish_cycle(self) -> None:
        if self.plan.ema == "cycle":
            self.model.target.update(self.model.encoder)
        # Cycles are compared by the rule for checkpoints, their number in place of the epoch.
        record = replace(self._record, epoch=self.cycle + 1)
        self.shortlist.offer(record, self.model.snapshot())
        self.cycle += 1
        self.stage = "propose"

    def _report(self, step: Step) -> None:
        if self.on_step is None:
            return
        cycle, plan = self.cycle + 1, self.plan
        done = step.epoch + (plan.dynamics.epochs if self.stage == "space" else 0)
        self.on_step(
            replace(
                step, cycle=cycle, cycles=plan.cycles,
                text=f"cycle {cycle} of {plan.cycles}, {step.text}",
                share=(self.cycle + done / plan.epochs_per_cycle) / plan.cycles,
            )
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Plain data: numbers of the model, optimizer, random numbers, laws as text."""
        return {
            "cycle": self.cycle,
            "stage": self.stage,
            "model": self.model.snapshot(),
            "symbolic": self.model.symbolic is not None,
            "generator": self.generator.get_state(),
            "phase": None if self.phase is None else self.phase.state_dict(),
            "shortlist": self.shortlist.state_dict(),
            "diagnostics": [dict(row) for row in self.diagnostics],
            "front": None if self.front is None else self.front.to_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["symbolic"] and state["model"]["law"] is None:
            assert isinstance(self.space, Library)
            actions = 0 if self.train.u is None else self.train.u.shape[-1]
            outputs = self.space.inputs[: len(self.space.inputs) - actions]
            self.model.symbolic = SparseLaw(self.space, outputs, self.model.dynamics).to(
                self.train.x.device
            )
        self.model.restore(state["model"])
        self.generator.set_state(state["generator"])
        self.cycle, self.stage = state["cycle"], state["stage"]
        self.shortlist.load_state_dict(state["shortlist"])
        self.diagnostics = [dict(row) for row in state["diagnostics"]]
        rows = state["front"]
        self.front = None if rows is None else Front.from_dict(rows)
        self._resumed = state["phase"]
