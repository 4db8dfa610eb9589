"""Experiment 2: hybrid dynamics under a grammar that lacks the drag term."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.paper.common import (
    EVALUATION_STEPS,
    EVALUATION_TRAJECTORIES,
    Result,
    Split,
    generator,
    law_metrics,
    load,
)
from benchmarks.paper.conditions import EXPERIMENT_2
from benchmarks.paper.profiles import Profile
from benchmarks.paper.scores import correction_recovery, mean_squared_error
from sjepa.backend import Progress
from sjepa.backend.registry import available_backends, make_backend
from sjepa.callbacks import Step
from sjepa.data import pendulum_field
from sjepa.metrics import RolloutScore, correction_ratio, rollout_score
from sjepa.models import Correction, NeuralField, Transition, make_encoder
from sjepa.symbolic import Law, Library
from sjepa.training.alternating import (
    LatentModel,
    Phase,
    StructurePolicy,
    as_part,
    latent_rows,
    propose,
)
from sjepa.training.rollout_fit import refine


DRAG = 0.4
CONDITIONS = (*EXPERIMENT_2, "pysindy")
LIBRARY = Library.from_terms(["p", "sin(q)", "p*abs(p)"], inputs=["q", "p"])
GRAMMARS = {
    "incomplete": LIBRARY.with_mask({"q": ["p"], "p": ["sin(q)"]}),
    "complete": LIBRARY.with_mask({"q": ["p"], "p": ["sin(q)", "p*abs(p)"]}),
}
# What a user of PySINDy would offer without knowing the answer: no mask, some distractors.
OPEN = Library.from_terms(
    ["1", "q", "p", "sin(q)", "sin(p)", "cos(q)", "cos(p)", "q*abs(q)", "p*abs(p)", "q**2", "p**2"],
    inputs=["q", "p"],
)


def run_condition(
    name: str,
    seed: int,
    profile: Profile,
    backend: Any = "stlsq",
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Result | None:
    """Train and evaluate one condition; None if it needs a package that is not installed."""
    device = device or torch.device("cpu")
    data = load("exp2", device)
    start = perf_counter()
    law: Law | None
    if name == "pysindy":
        if not available_backends()["pysindy"]:
            return None
        law, transition = _pysindy(data)
    else:
        law, transition = _train(name, seed, profile, backend, data, progress)
    seconds = perf_counter() - start
    metrics, curves = evaluate(transition, law, data)
    metrics = {**law_metrics(law, LIBRARY), **metrics, "seconds": seconds}
    return Result(name, seed, metrics, None if law is None else law.to_json(), curves)


def _train(
    name: str,
    seed: int,
    profile: Profile,
    backend: Any,
    data: dict[str, Split],
    progress: Progress | None,
) -> tuple[Law | None, Transition]:
    condition = profile.condition(name)
    train, validation = data["train"].batch, data["val"].batch
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LatentModel(
            make_encoder("identity", 2, 2),
            neural=NeuralField(2) if "neural" in condition.uses else None,
            correction=Correction(2) if "correction" in condition.uses else None,
            integrator=profile.integrator,
        ).to(train.x.device)
    law = None
    if "symbolic" in condition.uses:
        library = GRAMMARS[condition.grammar or "complete"]
        rows = latent_rows(train.x, train.dt, integrator=profile.integrator)
        backend = make_backend(profile.backend(backend))
        law = propose(backend, *rows, library, seed=seed).law
        if profile.debias and "correction" not in condition.uses:
            return _debiased(law, data, profile)
        model.symbolic = as_part(law, library, StructurePolicy.of(backend)).to(train.x.device)

    def on_step(step: Step) -> None:
        if progress is not None:
            progress(step.text, step.share)

    Phase(
        model,
        condition,
        train,
        validation,
        profile.settings,
        generator(train.x.device, seed, name),
        on_step,
    ).run()
    if model.symbolic is not None:
        model.symbolic.threshold_(profile.settings.prune)
        law = model.symbolic.law(profile.settings.report)
        model.symbolic.threshold_(profile.settings.report)
    return law, model.transition(condition.uses)


def _debiased(law: Law, data: dict[str, Split], profile: Profile) -> tuple[Law, Transition]:
    """The selected structure with an unpenalized fit to rollouts, on all training data."""
    states = torch.as_tensor(data["train"].states)
    law = refine(
        law,
        states,
        data["train"].batch.dt,
        integrator=profile.integrator,
        horizon=profile.debias_horizon,
    ).threshold(profile.settings.report)
    return law, Transition.of(law, profile.integrator)


def _pysindy(data: dict[str, Split]) -> tuple[Law, Transition]:
    """Plain PySINDy on the states: STLSQ with a threshold of 0.1, no mask."""
    train = data["train"].batch
    rows = latent_rows(train.x, train.dt, integrator="rk4")
    backend = make_backend("pysindy", options={"threshold": 0.1})
    law = propose(backend, *rows, OPEN).law
    return law, Transition.of(law)


def evaluate(
    transition: Transition, law: Law | None, data: dict[str, Split]
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Every figure of the paper's tables for Experiment 2, in double precision, and curves."""
    device = data["test"].batch.x.device
    precise = torch.float32 if device.type == "mps" else torch.float64
    transition = transition.to(precise).eval()
    parts = {k: _parts(transition, s, precise) for k, s in data.items() if k in ("train", "test")}
    states, law_field, correction = parts["test"]
    truth = pendulum_field(states, DRAG)
    dt = data["test"].batch.dt.to(precise)
    x = torch.as_tensor(data["test"].states, dtype=precise, device=device)
    with torch.no_grad():
        ahead = transition(x[:, :-1], dt.unsqueeze(-1))
    metrics = {
        "state_mse": mean_squared_error(ahead, data["test"].states[:, 1:]),
        "field_mse": mean_squared_error(law_field + correction, truth),
    }
    curves: dict[str, np.ndarray] = {}
    for split in ("test", "ood"):
        score = rollouts(transition, data[split], precise)
        metrics |= {f"{split}_rollout": score.mse, f"{split}_divergence": score.divergence_rate}
        curves[f"{split}_per_step"] = score.per_step
    if transition.symbolic is not None:
        metrics["correction_ratio"] = correction_ratio(correction, law_field + correction)
    if transition.symbolic is not None and transition.correction is not None:
        metrics |= _allocation(parts, curves)
    if law is not None:
        metrics |= coefficient_metrics(law)
    return metrics, curves


def rollouts(transition: Transition, split: Split, dtype: torch.dtype) -> RolloutScore:
    """Open-loop rollouts of 80 steps from the first state of 60 trajectories."""
    n, k = EVALUATION_TRAJECTORIES, EVALUATION_STEPS
    device = split.batch.x.device
    start = torch.as_tensor(split.states[:n, 0], dtype=dtype, device=device)
    with torch.no_grad():
        path = transition.rollout(start, split.batch.dt[:n, :k].to(dtype))
    return rollout_score(path[:, 1:], split.states[:n, 1 : k + 1])


def _parts(
    transition: Transition, split: Split, dtype: torch.dtype
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States that a transition leaves from, (n, 2), and F and c there."""
    states = split.states[:, :-1].reshape(-1, 2)
    with torch.no_grad():
        law, correction = transition.parts(
            torch.as_tensor(states, dtype=dtype, device=split.batch.x.device)
        )
    return states, _array(law), _array(correction)


def _allocation(
    parts: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]], curves: dict[str, np.ndarray]
) -> dict[str, float]:
    """Is the correction what the law left out? Calibrated on training, measured on test data."""
    residual, drag, correction = {}, {}, {}
    for split, (states, law, c) in parts.items():
        residual[split] = pendulum_field(states, DRAG)[:, 1] - law[:, 1]
        drag[split] = -DRAG * states[:, 1] * np.abs(states[:, 1])
        correction[split] = c[:, 1]
    metrics: dict[str, float] = {}
    for name, target in (("residual", residual), ("drag", drag)):
        recovery = correction_recovery(
            correction["train"], target["train"], correction["test"], target["test"]
        )
        metrics |= {f"{name}_corr": recovery.correlation, f"{name}_r2": recovery.r2}
        curves[f"{name}_target"] = target["test"][::8]
        curves[f"{name}_correction"] = recovery.scale * correction["test"][::8]
    return metrics


def coefficient_metrics(law: Law) -> dict[str, float]:
    """The coefficients of the true terms, 0 where a law does not have them."""
    names = {"q": {"p": "coef_q_p"}, "p": {"sin(q)": "coef_p_sin", "p*Abs(p)": "coef_p_drag"}}
    values = {name: 0.0 for row in names.values() for name in row.values()}
    for output, pairs in zip(law.outputs, law.terms, strict=True):
        for value, term in pairs:
            if (name := names[output].get(str(term))) is not None:
                values[name] = float(value)
    return values


def _array(x: Tensor) -> np.ndarray:
    return x.detach().double().cpu().numpy()
