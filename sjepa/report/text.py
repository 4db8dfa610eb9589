"""The text of a report."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sjepa.data import Trajectories
from sjepa.data.noise import noise_level
from sjepa.report.content import ReportData, ReportEntry
from sjepa.symbolic.names import coordinate_of


FORMS = {
    "derivative": "time derivatives, point by point",
    "weak": "integrals over short windows (weak form), since the data are noisy",
    "zoh": "integrals over windows, actions held between samples (zero-order hold)",
    "discrete": "the next values (a map)",
}
# Noise below this share of the spread is not to be told from rounding and roughness.
CLEAN = 1e-4
TINY = 1e-300


def data_facts(data: Trajectories | None, names: Sequence[str]) -> dict[str, str]:
    """How much is shown, and how noisy it is."""
    if data is None:
        return {}
    word = "trajectory" if len(data) == 1 else "trajectories"
    facts = {"Shown data": f"{len(data)} {word}, {int(data.lengths.sum()):,} points"}
    if len(data.obs_shape) == 1:
        rows = np.concatenate(data.x)
        spread = np.maximum(rows.std(axis=0), 1e-300)
        share = np.minimum(noise_level(data.x, data.t) / spread, 1.0)
        noisy = [
            f"{pretty(name)} {number(100 * value, 2)} %"
            for name, value in zip(names, share, strict=False)
            if value > CLEAN
        ]
        facts["Noise, of the spread"] = ", ".join(noisy) if noisy else "none to be seen"
    return facts


def numbers(data: ReportData, entry: ReportEntry) -> dict[str, str]:
    """The figures of one law."""
    law, candidate = entry.law, entry.candidate
    terms, tree = (
        (law.complexity("terms"), law.complexity("tree"))
        if candidate is None
        else (candidate.terms, candidate.tree)
    )
    facts = {"Complexity": f"{terms:g} (terms), {tree:g} (tree)"}
    if candidate is not None:
        facts["Unexplained variance"] = number(candidate.loss)
    if not math.isnan(entry.score):
        facts["R² of simulated paths"] = r2(entry.score)
    if not math.isnan(entry.table_r2):
        facts["R² on the rows shown"] = r2(entry.table_r2)
    if not math.isnan(entry.held_out):
        facts["R² of paths held out"] = r2(entry.held_out)
    elif candidate is not None and candidate.evidence is not None:
        facts["Evidence"] = f"{number(candidate.evidence + 0.0)} nats relative to the chosen law"
    elif data.held_out and entry is data.entries[data.start]:
        facts["Held out"] = data.held_out
    elif data.measured is None:
        facts["Held out"] = "no data held out"
    if candidate is not None and candidate.certified:
        facts["Proven"] = "no shorter law of the library fits as well"
    return facts


def r2(score: float) -> str:
    if not np.isfinite(score):
        return "−∞: a path does not reach its end"
    return f"{score:.4f}".replace("-", "−")


def model_facts(model: Any) -> dict[str, str]:
    """The residual of the law, and its noise floor."""
    figures = getattr(model, "figures_", {})
    if "residual" not in figures or "noise_floor" not in figures:
        return {}
    left, floor = (number(figures[k], 2) for k in ("residual", "noise_floor"))
    facts = {"Residual, share of the variance of the increments": f"{left} held out"}
    if "residual_training" in figures:
        seen = number(figures["residual_training"], 2)
        facts = {label: f"{text}, {seen} in training" for label, text in facts.items()}
    facts["Noise floor"] = floor
    facts["Residual over noise"] = number(
        figures["residual"] / max(figures["noise_floor"], TINY), 2
    )
    return facts


def model_held_out(model: Any) -> str:
    """What the fit itself kept back, if it did."""
    figures = getattr(model, "figures_", {})
    out, seen = figures.get("rollout_held_out"), figures.get("rollout_training")
    if out is None or seen is None:
        return ""
    return f"rollout error {number(out, 2)} of the variance, {number(seen, 2)} in training"


def path_notes(entry: ReportEntry) -> list[str]:
    """How the paths that are shown end, where they do not end well."""
    notes = []
    for status, words in (
        ("diverged", "leave every bound before the data end"),
        ("budget", "were too slow to simulate to their end"),
    ):
        if count := sum(ended == status for ended in entry.status):
            notes.append(f"{count} of the {len(entry.status)} simulated paths shown here {words}.")
    return notes


def sentence(note: str) -> str:
    """Notes are written by many hands: start each with a capital and end it with a stop."""
    note = " ".join(note.split())
    note = note[:1].upper() + note[1:]
    return note if note.endswith((".", "!", "?")) else note + "."


def listed(names: Sequence[str]) -> str:
    *others, last = map(pretty, names)
    return f"{', '.join(others)} and {last}" if others else last


_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "rho": "ρ", "sigma": "σ", "tau": "τ",
    "phi": "φ", "psi": "ψ", "omega": "ω",
}  # fmt: skip


def pretty(name: str) -> str:
    """A name as people write it: z₁ for z1, θ for theta."""
    coordinate = coordinate_of(name)
    match = re.fullmatch(r"([A-Za-z]+)_?(\d*)", coordinate or name)
    if match is None:
        return name
    stem, number = match.groups()
    dot = "\u0307" if coordinate else ""
    return _GREEK.get(stem, stem) + dot + number.translate(_SUBSCRIPTS)


def number(value: float, digits: int = 3) -> str:
    """A number as typeset text: 4.6·10⁻⁵, −0.25."""
    tiny = 0 < abs(value) < 1e-3
    text = f"{value:.{digits - 1}e}" if tiny else f"{value:.{digits}g}"
    if "e" in text:
        head, power = text.split("e")
        head = f"{float(head):g}"
        raised = str(int(power)).translate(_RAISED)
        text = f"10{raised}" if head == "1" else f"{head}·10{raised}"
    return text.replace("-", "−")


def power(value: float) -> str:
    """A power of ten as one."""
    exponent = round(math.log10(value))
    return {0: "1", 1: "10"}.get(exponent, f"10{str(exponent).translate(_RAISED)}")


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
