"""The result of a diagnosis: table, figure, files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pandas as pd

from benchmarks.encoders.measure import Diagnosis
from sjepa.storage import make_folder, write_csv, writing


if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Comparison:
    """Diagnoses of several encoders on the same data, with the same library and tolerance."""

    rows: Sequence[Diagnosis]
    delta: float
    order: int
    horizon: int

    def __iter__(self) -> Iterator[Diagnosis]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Diagnosis:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no encoder {name!r} among {[row.name for row in self.rows]}")

    def __repr__(self) -> str:
        columns = ["encoder", "head", "C_dyn", "rollout", "probe_r2", "findings", "law"]
        return self.to_frame()[columns].to_string(index=False, max_colwidth=60)

    def to_frame(self) -> pd.DataFrame:
        """One line an encoder; the columns are explained in :class:`Diagnosis`."""
        return pd.DataFrame([
            {
                "encoder": row.name,
                "head": row.head,
                "embedding": row.embedding,
                "C_dyn": row.complexity.value,
                "rollout": row.rollout.mse,
                "diverged": row.rollout.divergence_rate,
                "rollout_state": None if row.physical is None else row.physical.mse,
                "probe_r2": row.probe,
                "probe_embedding": row.probe_embedding,
                "neighbor": row.check_report.neighbor,
                "within": row.check_report.within,
                "rank": row.check_report.effective_rank,
                "findings": ", ".join(f.name for f in row.findings),
                "law": "; ".join(row.law.lines(digits=4)),
            }
            for row in self.rows
        ])  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain data with everything: curves, laws, findings. Infinity is written as null."""
        table = self.to_frame().to_dict("records")
        rows = [
            {
                **{k: _plain(v) for k, v in line.items()},
                "adequate": row.adequate,
                "certificate": row.complexity.certificate,
                "law": json.loads(row.law.to_json()),
                "equations": row.law.lines(digits=6),
                "findings": [str(f) for f in row.findings],
                "notes": list(row.notes),
                "rollout_per_step": [_plain(v) for v in row.rollout.per_step.tolist()],
                "curve": [
                    {k: _plain(v) for k, v in point.items()}
                    for point in row.complexity.curve.to_dict("records")
                ],
            }
            for row, line in zip(self.rows, table, strict=True)
        ]
        return {
            "delta": self.delta, "order": self.order, "horizon": self.horizon, "encoders": rows
        }  # fmt: skip

    def plot(self) -> Figure:
        """C_dyn over the tolerance, and the error of rollouts over their length."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        for i, row in enumerate(self.rows):
            curve = row.complexity.curve
            style = {"color": f"C{i}", "label": f"{row.name} ({row.head})"}
            left.plot(curve["delta"], curve["complexity"], "o-", drawstyle="steps-pre", **style)
            error = row.rollout.per_step
            right.plot(range(1, len(error) + 1), error.clip(1e-12), **style)
        left.axvline(self.delta, color="0.5", lw=1, ls="--")
        left.set(
            xscale="log", xlabel="unexplained share of changes, δ (dashed: what is asked for)",
            ylabel="complexity of the shortest law, C_dyn", ylim=(0, None),
        )  # fmt: skip
        left.invert_xaxis()
        right.set(yscale="log", xlabel="rollout steps", ylabel="squared error / variance")
        right.axhline(1.0, color="0.5", lw=1, ls=":")
        figure.legend(
            *left.get_legend_handles_labels(), loc="outside lower center",
            ncols=min(4, len(self.rows)), frameon=False,
        )  # fmt: skip
        return figure

    def save(self, folder: str | Path) -> Path:
        """Write table.csv, diagnosis.json and diagnosis.png; each appears when complete."""
        folder = Path(folder)
        make_folder(folder)
        files: dict[str, Callable[[BinaryIO], Any]] = {
            "table.csv": lambda f: write_csv(self.to_frame(), f),
            "diagnosis.json": lambda f: f.write(json.dumps(self.to_dict(), indent=1).encode()),
            "diagnosis.png": lambda f: self.plot().savefig(f, dpi=130, format="png"),
        }
        for name, write in files.items():
            with writing(folder / name) as file:
                write(file)
        return folder


def _plain(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value
