"""Write docs/results/static.md and its pictures from a sweep, finished or not.

    sjepa benchmark --suite static --backends subset,operon,gplearn,subset+operon \
        --noise 0.01,0 --seeds 1 --seconds 30 --out FOLDER
    python -m benchmarks.static_page FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import pandas as pd

from sjepa.storage import write_whole, writing
from sjepa.studies.backends import COLUMNS, PROBLEMS, plot_results
from sjepa.studies.backends.sweep import finished_rows


PAGE = Path(__file__).parents[1] / "docs" / "results" / "static.md"
WORDS = {True: "yes", False: "no"}


def read(folder: Path) -> pd.DataFrame:
    """The table of a finished sweep, failures included, or the cells of one that still runs."""
    finished = folder / "results.parquet"
    if finished.exists():
        return pd.read_parquet(finished)
    return pd.DataFrame(finished_rows(folder), columns=list(COLUMNS))


def markdown(frame: pd.DataFrame) -> str:
    rows = [frame.columns, ["---"] * len(frame.columns), *frame.itertuples(index=False)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def totals(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (noise, backend), part in table.groupby(["noise", "backend"]):
        done = part[part["error"] == ""]
        rows.append(
            {
                "noise": f"{noise:g}",
                "backend": f"`{backend}`",
                "recovered": f"{int(part['recovered'].sum())} of {len(part)}",
                "R² (median)": f"{done['r2'].median():.6f}",
                "R² beyond the box": f"{done['r2_beyond'].median():.4f}",
                "complexity (tree)": f"{done['omega_tree'].median():g}",
                "seconds (median)": f"{part['seconds'].median():.1f}",
                "failed": int((part["error"] != "").sum()),
            }
        )
    return pd.DataFrame(rows)


def by_problem(table: pd.DataFrame) -> pd.DataFrame:
    backends = sorted(table["backend"].unique())
    columns = [(b, n) for n in sorted(table["noise"].unique()) for b in backends]
    cells = {
        (r.system, r.backend, r.noise): (WORDS[bool(r.recovered)], r.seconds)
        for r in table.itertuples()
    }
    rows = []
    for system in (s for s in PROBLEMS if s in set(table["system"])):
        row = {"problem": system, "formula": f"`{PROBLEMS[system].formula}`"}
        for b, n in columns:
            word = cells.get((system, b, n))
            row[f"`{b}`, {n:g}"] = "" if word is None else f"{word[0]}, {word[1]:.0f} s"
        rows.append(row)
    return pd.DataFrame(rows)


def combination(table: pd.DataFrame) -> list[str]:
    """How lists of backends compare with their best member, where all of them were run."""
    lines = []
    for name in (b for b in table["backend"].unique() if "+" in b):
        for noise, part in table.groupby("noise"):
            wide = part.pivot(index="system", columns="backend", values="recovered").dropna()
            members = [m for m in name.split("+") if m in wide]
            if not members or name not in wide or not len(wide):
                continue
            sums = {m: int(wide[m].sum()) for m in (*members, name)}
            best = max(members, key=lambda m: sums[m])
            lines.append(
                f"At noise {noise:g}, of {len(wide)} problems that all were run on, `{name}` "
                f"recovers {sums[name]} and its best member `{best}` {sums[best]}."
            )
    return lines


def page(table: pd.DataFrame, pictures: list[str], note: str) -> str:
    seconds, seeds = table["budget"].max(), sorted(table["seed"].unique())
    systems = list(dict.fromkeys(table["system"]))
    cells = len(systems) * table["backend"].nunique() * table["noise"].nunique() * len(seeds)
    whole = len(table) == cells
    solved = table.groupby("system")["recovered"].any()
    nobody = [s for s in PROBLEMS if s in solved.index and not solved[s]]
    state = (
        "" if whole else
        f"**Not complete: {len(table)} cells of {len(systems)} problems are done.** "
    )  # fmt: skip
    names = ",".join(sorted(set(table["backend"])))
    noises = ",".join(f"{n:g}" for n in sorted(set(table["noise"])))
    count = f"{len(systems)}" + (
        "" if len(systems) == len(PROBLEMS) else f" of the suite's {len(PROBLEMS)}"
    )
    text = (
        f"{count} classic formulas (Nguyen, Keijzer, Vladislavleva, the Feynman lectures, "
        "right-hand sides from Strogatz' book), 500 rows each, at most "
        f"{seconds:g} seconds of processor time a search, data seed {', '.join(map(str, seeds))}. "
        "Every backend is given the same problem: the default grammar of `SymbolicRegressor`, "
        "which `subset` searches as a library of up to 200 terms, and the loss that the noise "
        "leaves of the true formula; without noise that is rounding. A search ends early when a "
        "formula is exact, or when the shortest that is good enough has stood for twice as long "
        "as it took to find. Of those that are good enough the shortest is taken. *Recovered* is "
        "SRBench's rule: equal to the truth up to a constant sum or factor, inside the box of "
        "the data and in a shell half a width around it, within 1e-6 of the spread (1 % for "
        "noisy data). `subset+operon` is both as one search that shares the time. Made by"
    )
    command = (
        "sjepa benchmark --suite static "
        + ("" if len(systems) == len(PROBLEMS) else "--systems PROBLEMS ")
        + f"--backends {names} --noise {noises} "
        f"--seeds {','.join(map(str, seeds))} --seconds {seconds:g} --out FOLDER"
    )
    unsolved = ", ".join(f"{s} (`{PROBLEMS[s].formula}`)" for s in nobody) or "None."
    parts = [
        "# Which formulas each backend finds", state + text,
        f"    {command}\n    python -m benchmarks.static_page FOLDER",
        markdown(totals(table)), "\n".join(combination(table)), note, "\n".join(pictures),
        "## Problems that nobody solves", unsolved,
        "## All problems", "Whether it was recovered, and processor seconds.",
        markdown(by_problem(table)),
    ]  # fmt: skip
    return "\n\n".join(p for p in parts if p) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--note", default="", help="what to say of this sweep, below its totals")
    arguments = parser.parse_args()
    matplotlib.use("Agg")
    table = read(arguments.folder)
    table["recovered"] = table["recovered"].astype(bool)
    pictures = []
    for noise, part in table.groupby("noise"):
        name = f"static_{noise:g}.png"
        with writing(arguments.page.with_name(name)) as file:
            plot_results(part).savefig(file, format="png", dpi=90)
        text = f"Noise {noise:g}: share recovered against time, error against complexity"
        pictures.append(f"![{text}]({name})")
    write_whole(arguments.page, page(table, pictures, arguments.note).encode())
    print(markdown(totals(table)))


if __name__ == "__main__":
    main()
