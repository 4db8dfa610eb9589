"""What the paper says of its experiments, as quantities that can be computed from any run.

A claim is a function of figures and what it must be for the claim to hold. The same function gives
the paper's own value from its printed means and ours from every seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.paper.paper_figures import AS_PUBLISHED
from sjepa.symbolic import Law


Figures = Callable[[str, str], float]  # condition and metric to value; KeyError if not measured


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the quantity that it is about, and where it holds."""

    text: str
    quantity: Callable[[Figures], float]
    least: float = -np.inf
    most: float = np.inf

    def holds(self, value: float) -> bool:
        return self.least <= value <= self.most


def _smaller(text: str, metric: str, smaller: str, larger: str) -> Claim:
    """The metric of `one` is smaller than that of `other`: the quantity is how many times."""
    return Claim(text, lambda v: _times(v(larger, metric), v(smaller, metric)), least=1 + 1e-12)


def _times(large: float, small: float) -> float:
    if small:
        return large / small
    return np.inf if large else 1.0


def _growth(v: Figures, condition: str) -> float:
    """What 80 steps add to the error of the affine read-out, which single steps have already."""
    return v(condition, "test_rollout") / v(condition, "state_mse")


def _worst_coefficient(v: Figures) -> float:
    truth = {"coef_q_p": 1.0, "coef_p_sin": -1.0, "coef_p_drag": -0.4}
    return max(abs(v("symbolic_complete", name) / c - 1) for name, c in truth.items())


JOINT = "joint against post hoc"
CLAIMS: Mapping[str, Sequence[Claim]] = {
    "exp1": (
        _smaller(f"{JOINT}: Ω is lower, times", "omega_terms", "sjepa", "post_hoc"),
        _smaller(f"{JOINT}: latent MSE is lower, times", "latent_mse", "sjepa", "post_hoc"),
        _smaller(f"{JOINT}: test rollouts are better, times", "test_rollout", "sjepa", "post_hoc"),
        _smaller(f"{JOINT}: OOD rollouts are better, times", "ood_rollout", "sjepa", "post_hoc"),
        Claim(
            f"{JOINT}: less error accumulates (test rollout over one-step state error), times",
            lambda v: _growth(v, "post_hoc") / _growth(v, "sjepa"),
            least=1 + 1e-12,
        ),
        Claim(
            f"{JOINT}: not more OOD rollouts diverge, difference of shares",
            lambda v: v("post_hoc", "ood_divergence") - v("sjepa", "ood_divergence"),
            least=0.0,
        ),
        _smaller(
            "Neural JEPA has better test rollouts than the joint law, times",
            "test_rollout", "neural_jepa", "sjepa",
        ),
        _smaller(
            "Neural JEPA has better test rollouts than the post-hoc law, times",
            "test_rollout", "neural_jepa", "post_hoc",
        ),
        Claim(
            "each joint law has z2 in z1' and z1 in z2' (1: yes)",
            lambda v: v("sjepa", "cross_coupled"),
            least=1.0,
        ),
        Claim("joint coordinates keep their spread: smallest standard deviation",
              lambda v: v("sjepa", "min_std"), least=0.2),
        Claim("joint coordinates use both dimensions: effective rank",
              lambda v: v("sjepa", "effective_rank"), least=1.99),
        Claim(
            "joint coordinates are less affine in the state: test probe R² lost",
            lambda v: v("neural_jepa", "probe_r2") - v("sjepa", "probe_r2"),
            least=0.0,
        ),
        Claim("one-step objective alone: no law is left, Ω",
              lambda v: v("one_step_collapse", "omega_terms"), most=0.0),
        _smaller(
            "one-step objective alone: latent MSE below that of Neural JEPA, times",
            "latent_mse", "one_step_collapse", "neural_jepa",
        ),
        Claim(
            "one-step objective alone: spread is lost by training, before : after",
            lambda v: v("one_step_collapse", "min_std_before") / v("one_step_collapse", "min_std"),
            least=10.0,
        ),
        Claim(
            "the same with differentiated targets, before : after",
            lambda v: v("one_step_attached", "min_std_before") / v("one_step_attached", "min_std"),
            least=10.0,
        ),
        Claim("fixed-point control stays constant: smallest standard deviation",
              lambda v: v("fixed_point", "min_std"), most=1e-3),
    ),
    "exp2": (
        Claim("complete grammar: exactly the three terms, Ω",
              lambda v: v("symbolic_complete", "omega_terms"), least=6.0, most=6.0),
        Claim("complete grammar: coefficients within 7 %, worst relative error",
              _worst_coefficient, most=0.075),
        Claim(
            "complete against incomplete: one-step error about 100 times lower, times",
            lambda v: v("symbolic_incomplete", "state_mse") / v("symbolic_complete", "state_mse"),
            least=50.0,
        ),
        Claim(
            "complete against incomplete: test rollouts far better, times",
            lambda v: v("symbolic_incomplete", "test_rollout")
            / v("symbolic_complete", "test_rollout"),
            least=50.0,
        ),
        _smaller("the neural field has the best test rollouts, times better than the complete law",
                 "test_rollout", "neural_only", "symbolic_complete"),
        _smaller("the regularized hybrid rolls out better than the incomplete law, times",
                 "test_rollout", "hybrid_regularised", "symbolic_incomplete"),
        _smaller("the penalty keeps the correction small: ρ_corr without it, times",
                 "correction_ratio", "hybrid_regularised", "hybrid_unregularised"),
        Claim(
            "the penalty keeps the law: sin q coefficient, regularized over unregularized",
            lambda v: _times(
                v("hybrid_regularised", "coef_p_sin"), v("hybrid_unregularised", "coef_p_sin")
            ),
            least=2.0,
        ),
        Claim("the regularized correction is the law's residual: R²",
              lambda v: v("hybrid_regularised", "residual_r2"), least=0.95),
        Claim("the regularized correction is the drag: R²",
              lambda v: v("hybrid_regularised", "drag_r2"), least=0.85),
        Claim("the unregularized one is not: R² with the drag",
              lambda v: v("hybrid_unregularised", "drag_r2"), most=0.5),
        _smaller("unregularized hybrid: lower one-step error, times",
                 "state_mse", "hybrid_unregularised", "hybrid_regularised"),
        _smaller("unregularized hybrid: better OOD rollouts, times",
                 "ood_rollout", "hybrid_unregularised", "hybrid_regularised"),
        _smaller("regularized hybrid: better test rollouts, times",
                 "test_rollout", "hybrid_regularised", "hybrid_unregularised"),
    ),
}  # fmt: skip


def claims_table(
    experiment: str, metrics: pd.DataFrame, laws: Sequence[Mapping[str, object]]
) -> pd.DataFrame:
    """Each claim: the paper's value, ours (median and range of the seeds), in how many it holds.

    Claims about conditions that were not run are left out.
    """
    ours: dict[int, dict[tuple[str, str], float]] = {}
    for row in metrics.itertuples(index=False):
        ours.setdefault(int(row.seed), {})[row.condition, row.metric] = float(row.value)
    for entry in laws:
        law, seed = Law.from_json(str(entry["law_json"])), int(str(entry["seed"]))
        if seed in ours:
            ours[seed][str(entry["condition"]), "cross_coupled"] = float(_coupled(law))
    printed = {(c, m): p[0] for c, row in AS_PUBLISHED[experiment].items() for m, p in row.items()}
    printed["sjepa", "cross_coupled"] = 1.0  # said of all three seeds
    rows = []
    for claim in CLAIMS[experiment]:
        values = [q for seed in ours.values() if (q := _value(claim, seed)) is not None]
        if values:
            holds = sum(map(claim.holds, values))
            rows.append(
                (claim.text, _value(claim, printed), float(np.median(values)), min(values),
                 max(values), holds, len(values))
            )  # fmt: skip
    columns = ["claim", "paper", "median", "least", "greatest", "holds", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def _value(claim: Claim, figures: Mapping[tuple[str, str], float]) -> float | None:
    try:
        return claim.quantity(lambda condition, metric: figures[condition, metric])
    except KeyError:
        return None


def _coupled(law: Law) -> bool:
    """Whether each of two coordinates moves the other one by a linear term."""
    terms = [{str(term) for _, term in row} for row in law.terms]
    return len(terms) == 2 and law.outputs[1] in terms[0] and law.outputs[0] in terms[1]
