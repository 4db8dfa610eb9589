"""The paper's tables with our figures beside its own, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, isnan

import pandas as pd

from benchmarks.paper.claims import claims_table
from benchmarks.paper.paper_figures import AS_PUBLISHED, Printed
from sjepa.symbolic import Law


LABELS = {
    "neural_jepa": "Neural JEPA",
    "post_hoc": "Post-hoc symbolic",
    "sjepa": "SJEPA symbolic",
    "one_step_collapse": "One-step collapse diagnostic",
    "one_step_attached": "One-step, targets differentiated, warm start",
    "fixed_point": "Collapsed fixed-point control",
    "pysindy_pca": "PySINDy on PCA coordinates",
    "symbolic_incomplete": "Symbolic, incomplete",
    "hybrid_regularised": "Hybrid, regularized",
    "hybrid_unregularised": "Hybrid, unregularized",
    "symbolic_complete": "Symbolic, complete",
    "neural_only": "Neural only",
    "pysindy": "PySINDy, no mask",
}
HEADINGS = {
    "latent_mse": "latent MSE",
    "omega_terms": "Ω terms",
    "omega_tree": "Ω tree",
    "test_rollout": "test rollout",
    "ood_rollout": "OOD rollout",
    "test_divergence": "test divergence",
    "ood_divergence": "OOD divergence",
    "min_std_before": "min std before",
    "min_std": "min std",
    "cov_trace": "Tr Cov",
    "probe_r2_train": "train probe R²",
    "probe_r2": "test probe R²",
    "effective_rank": "effective rank",
    "state_mse": "state MSE",
    "field_mse": "field MSE",
    "correction_ratio": "ρ_corr",
    "residual_corr": "Corr(c, r)",
    "residual_r2": "R²(c, r)",
    "drag_corr": "Corr(c, drag)",
    "drag_r2": "R²(c, drag)",
    "coef_q_p": "p in q'",
    "coef_p_sin": "sin q in p'",
    "coef_p_drag": "p\\|p\\| in p'",
    "within_share": "within-trajectory share",
    "within_share_worst": "worst share",
    "neighbor": "neighbor test",
    "lipschitz": "Lipschitz (99 %)",
    "rollout_bound": "bound after 80 steps",
    "seconds": "seconds",
}
# Title, metrics, and the conditions that the paper's table has (None: all).
TABLES: Mapping[str, Sequence[tuple[str, Sequence[str], Sequence[str] | None]]] = {
    "exp1": (
        (
            "Prediction and complexity",
            ("latent_mse", "omega_terms", "test_rollout", "ood_rollout", "ood_divergence"),
            ("neural_jepa", "post_hoc", "sjepa", "pysindy_pca"),
        ),
        (
            "Collapse diagnostics",
            ("latent_mse", "min_std_before", "min_std", "cov_trace", "omega_terms"),
            ("sjepa", "one_step_collapse", "one_step_attached", "fixed_point", "pysindy_pca"),
        ),
        (
            "Representation and alignment",
            ("probe_r2_train", "probe_r2", "effective_rank", "state_mse"),
            None,
        ),
        (
            "Beyond the paper",
            ("omega_tree", "test_divergence", "within_share", "within_share_worst", "neighbor",
             "lipschitz", "rollout_bound", "seconds"),
            None,
        ),
    ),
    "exp2": (
        (
            "Grammar mismatch",
            ("state_mse", "field_mse", "omega_terms", "correction_ratio", "test_rollout",
             "ood_rollout"),
            None,
        ),
        (
            "Correction allocation",
            ("correction_ratio", "residual_corr", "residual_r2", "drag_corr", "drag_r2"),
            ("hybrid_regularised", "hybrid_unregularised"),
        ),
        ("Coefficients", ("coef_q_p", "coef_p_sin", "coef_p_drag", "seconds"), None),
    ),
}  # fmt: skip


def render(
    experiment: str, metrics: pd.DataFrame, laws: Sequence[dict[str, object]], heading: str
) -> str:
    """All tables of an experiment, and every equation."""
    parts = [f"# {heading}", ""]
    seeds = sorted(metrics["seed"].unique())
    parts += [f"Mean ± standard deviation over seeds {', '.join(map(str, seeds))}.", ""]
    present = list(dict.fromkeys(metrics["condition"]))
    for title, columns, rows in TABLES[experiment]:
        names = [c for c in (rows or present) if c in present]
        if names:
            parts += [f"## {title}", "", *_table(experiment, metrics, names, columns), ""]
    if claims := _claims(experiment, metrics, laws):
        parts += ["## Claims", "", *claims, ""]
    parts += ["## Equations", ""]
    for row in laws:
        law = Law.from_json(str(row["law_json"]))
        label = LABELS.get(str(row["condition"]), str(row["condition"]))
        equations = "; ".join(f"`{line}`" for line in law.lines(digits=4))
        parts.append(f"- {label}, seed {row['seed']}: {equations}")
    return "\n".join(parts) + "\n"


def _claims(experiment: str, metrics: pd.DataFrame, laws: Sequence[dict[str, object]]) -> list[str]:
    table = claims_table(experiment, metrics, laws)
    if not len(table):
        return []
    lines = ["| The paper's claim | paper | ours (range) | holds |", "|---|---|---|---|"]
    for row in table.itertuples(index=False):
        paper = "–" if row.paper is None or isnan(row.paper) else number(row.paper)
        ours = number(row.median)
        if row.seeds > 1:
            ours += f" ({number(row.least)} to {number(row.greatest)})"
        lines.append(f"| {row.claim} | {paper} | {ours} | {row.holds} of {row.seeds} |")
    return lines


def _table(
    experiment: str, metrics: pd.DataFrame, names: Sequence[str], columns: Sequence[str]
) -> list[str]:
    grouped = metrics.groupby(["condition", "metric"])["value"]
    mean, std = grouped.mean(), grouped.std(ddof=0)
    lines = [
        "| Method | | " + " | ".join(HEADINGS.get(c, c) for c in columns) + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    for name in names:
        ours: dict[str, Printed] = {
            c: (mean[name, c], std[name, c]) for c in columns if (name, c) in mean.index
        }
        theirs = {c: p for c, p in AS_PUBLISHED[experiment].get(name, {}).items() if c in columns}
        lines.append(f"| {LABELS.get(name, name)} | ours | {_cells(ours, columns)} |")
        if theirs:
            lines.append(f"| | paper | {_cells(theirs, columns)} |")
    return lines


def _cells(values: Mapping[str, Printed], columns: Sequence[str]) -> str:
    return " | ".join(_cell(values[c]) if c in values else "–" for c in columns)


def _cell(value: Printed) -> str:
    mean, deviation = value
    if isnan(mean):
        return "–"
    text = number(mean)
    return text if not deviation else f"{text} ± {number(deviation)}"


def number(value: float) -> str:
    """Three significant digits; powers of ten only where they are needed."""
    if value == 0:
        return "0"
    if isinf(value):
        return "∞"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return f"{value:.2e}"
