"""The trade-off surface: what prediction, rollouts, simplicity and the correction cost each other.

The paper reports one setting of its weights and says that none is canonical: across settings there
is a surface (L_pred, L_roll, Ω, ρ_corr), of which only what nothing else beats is worth a look.

    python -m benchmarks.surface DATA.csv --lambda-s 1e-5 1e-4 1e-3 --lambda-c 0 0.02 0.2 --out DIR

fits hybrids in the coordinates of the file and writes DIR/surface.{csv,png,html}.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.surface_page import surface_page
from sjepa import Alternating, Neural
from sjepa.data import Trajectories, read
from sjepa.errors import ConfigError, SjepaError, TrainingDiverged
from sjepa.estimator import SJEPA
from sjepa.metrics import latent_spread, segment_errors
from sjepa.runs import fingerprint
from sjepa.storage import write_csv, write_whole, writing


AXES = ("l_pred", "l_roll", "omega", "rho_corr")
# The paper's rule for a representation that has not collapsed.
MIN_STD, MIN_TRACE = 0.20, 0.10


def sweep(
    data: Trajectories,
    *,
    lambda_s: Sequence[float] = (2.5e-5, 2.5e-4, 2.5e-3),
    lambda_c: Sequence[float] = (0.0, 2e-3, 2e-2, 2e-1),
    lambda_r: Sequence[float] = (0.35,),
    out: str | Path | None = None,
    seed: int = 0,
    search: Alternating = Alternating(),  # noqa: B008
    progress: Callable[[str, float], None] | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """Fit hybrids under every combination of weights and measure them on held-out trajectories.

    Parameters
    ----------
    data : Trajectories
        A quarter is held out, by trajectories; all four figures are measured there, in the
        coordinates of each fit. Ω counts the terms of the law.
    lambda_s, lambda_c, lambda_r : sequences of float
        Weights of complexity, correction and rollouts.
    out : folder, optional
        Gets surface.csv; points finished in it are not fitted again.
    search, settings
        Of :class:`SJEPA`; ``encoder="identity"`` fixes the coordinates.

    Returns
    -------
    DataFrame
        One row a point, with the law; `front` marks what no other admissible point beats in all
        four figures, `admissible` what has not collapsed.
    """
    for name, values in (("lambda_s", lambda_s), ("lambda_c", lambda_c), ("lambda_r", lambda_r)):
        if not len(values) or min(values) < 0:
            raise ConfigError(f"{name} needs weights that are not negative.", name)
    if "correction" in settings:
        raise ConfigError("A sweep is over hybrids; leave correction out.")
    if not isinstance(search, Alternating):
        raise ConfigError("A sweep varies the weights of search=Alternating(...).", "search")
    train, held_out = data.split((0.75, 0.25), seed=seed)
    memory = _Memory(out, repr((sorted(settings.items()), search, seed, fingerprint(data))))
    points = list(product(lambda_s, lambda_c, lambda_r))
    rows = []
    for done, (s, c, r) in enumerate(points):
        if progress is not None:
            progress(f"lambda_s {s:g}, lambda_c {c:g}, lambda_r {r:g}", done / len(points))
        key = f"{s!r},{c!r},{r!r}"
        if (row := memory.known.get(key)) is None:
            model = SJEPA(
                search=replace(search, lambda_s=s, lambda_r=r), correction=Neural(lambda_c=c),
                random_state=seed, verbose=False, **settings,
            )  # fmt: skip
            row = {"lambda_s": s, "lambda_c": c, "lambda_r": r, **_measured(model, train, held_out)}
            memory.keep(key, row)
        rows.append(row)
    table = pd.DataFrame(rows)
    table["front"] = non_dominated(table.loc[:, list(AXES)].to_numpy(), table["admissible"])
    if out is not None:
        write_whole(Path(out) / "surface.csv", str(write_csv(table)).encode())
    return table


def _measured(model: SJEPA, train: Trajectories, held_out: Trajectories) -> dict[str, Any]:
    try:
        model.fit(train)
    except TrainingDiverged as error:
        nothing = dict.fromkeys(AXES, float("inf"))
        return {**nothing, "min_std": 0.0, "admissible": False, "law": f"diverged: {error}"}
    states = model.coordinates(held_out)
    errors = segment_errors(model.transition_, states)
    spread = latent_spread(np.concatenate(states.x))
    sound = spread.min_std >= MIN_STD and spread.covariance_trace >= MIN_TRACE
    return {
        "l_pred": float(errors[:, 0].mean()),
        "l_roll": float(errors.mean()),
        "omega": float(model.law_.complexity("terms")),
        "rho_corr": float(model.figures_["rho_corr"]),
        "min_std": float(spread.min_std),
        "admissible": bool(sound or model.encoder == "identity"),
        "law": "; ".join(model.law_.lines(digits=4)),
    }


def non_dominated(values: np.ndarray, admissible: Any = None) -> np.ndarray:
    """Which rows no other row beats: none is at most as large everywhere and smaller somewhere.

    >>> non_dominated(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]]))
    array([ True,  True, False])
    """
    values = np.asarray(values, dtype=float)
    fine = np.isfinite(values).all(axis=1)
    if admissible is not None:
        fine &= np.asarray(admissible, dtype=bool)
    front = fine.copy()
    for i in np.flatnonzero(fine):
        no_worse = (values[fine] <= values[i]).all(axis=1)
        front[i] = not (no_worse & (values[fine] < values[i]).any(axis=1)).any()
    return front


def plot_surface(table: pd.DataFrame) -> Any:
    """Prediction and rollouts against Ω and ρ_corr; what nothing beats is in color."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots(2, 2, sharex="col", sharey="row")
    shown = table[table["admissible"]]
    kinds = (
        (shown[~shown["front"]], "0.6", "another setting beats it"),
        (shown[shown["front"]], "#c44e1c", "nothing beats it"),
    )
    for row, (column, label) in enumerate(zip(AXES[:2], ("L_pred", "L_roll"), strict=True)):
        for ax, measure in zip(axes[row], AXES[2:], strict=True):
            for part, color, name in kinds:
                y = part[column].clip(lower=1e-12)
                ax.scatter(part[measure], y, s=40, color=color, alpha=0.85, lw=0, label=name)
            ax.set_yscale("log")
            # Also where all losses are within a factor of ten.
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(color="0.9", lw=0.6)
            ax.set_axisbelow(True)
        axes[row][0].set_ylabel(label)
    axes[1][0].set_xlabel("Ω of the law")
    axes[1][1].set_xlabel("ρ_corr, the correction's share")
    handles = axes[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=2, frameon=False)
    return figure


class _Memory:
    """Finished points of a sweep, one JSON file for the same data and settings."""

    def __init__(self, out: str | Path | None, request: str) -> None:
        self.known: dict[str, Any] = {}
        self.path: Path | None = None
        if out is None:
            return
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"points-{sha256(request.encode()).hexdigest()[:12]}.json"
        if self.path.exists():
            self.known = json.loads(self.path.read_text())

    def keep(self, key: str, row: dict[str, Any]) -> None:
        self.known[key] = row
        if self.path is not None:
            write_whole(self.path, json.dumps(self.known, indent=1).encode())


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.surface", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    for name in ("lambda_s", "lambda_c", "lambda_r"):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=float, nargs="+", default=argparse.SUPPRESS)
    parser.add_argument("--terms", nargs="+", help="candidate terms in the names of the columns")
    parser.add_argument("--time", help="name of the time column")
    parser.add_argument("--id", help="column that tells trajectories apart")
    parser.add_argument("--columns", nargs="+", help="observed; by default all others")
    parser.add_argument("--epochs", type=int, help="of each phase of the training")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    weights = {k: v for k, v in vars(args).items() if k.startswith("lambda_")}
    search = Alternating() if args.epochs is None else Alternating(dynamics_epochs=args.epochs)
    try:
        data = read(args.data, time=args.time, id=args.id, columns=args.columns)
        settings = {} if args.terms is None else {"library": args.terms}
        table = sweep(
            data, out=args.out, seed=args.seed, search=search, encoder="identity", **weights,
            **settings, progress=lambda line, share: print(f"{share:4.0%} {line}", flush=True),
        )  # fmt: skip
    except SjepaError as error:
        parser.exit(2, f"{error}\n")
    with writing(args.out / "surface.png") as file:
        plot_surface(table).savefig(file, format="png", dpi=150)
    write_whole(args.out / "surface.html", surface_page(table).encode())
    best = table[table["front"]].sort_values("omega")
    print(best.to_string(index=False, float_format=lambda v: f"{v:.3g}"))


if __name__ == "__main__":
    main()
