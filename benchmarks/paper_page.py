"""Put the tables and figures of finished runs into docs/results/paper.md.

    python -m benchmarks.paper exp1 --profile fast --seeds 7 19 37 --out FOLDER
    python -m benchmarks.paper_page FOLDER [FOLDER ...] [--commit HASH]

Each folder replaces what stands between the lines ``<!-- exp1 -->`` and ``<!-- /exp1 -->`` of the
page (exp1_fast for a reduced profile, and so on); the words around are written by hand.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from PIL import Image

from sjepa.storage import write_whole, writing


PAGE = Path(__file__).parents[1] / "docs" / "results" / "paper.md"
FIGURES = {
    "exp1": {"rollout_error": "Error along rollouts", "min_std": "Spread of the coordinates",
             "latent_geometry": "Coordinates, colored by the angle"},
    "exp2": {"rollout_error": "Error along rollouts",
             "correction_residual": "Correction against the residual of the law",
             "correction_drag": "Correction against the drag"},
}  # fmt: skip
WIDTH = 1000  # pixels of a figure on the page


def block(folder: Path, commit: str) -> tuple[str, str]:
    """The name of a run's block, and what goes into it."""
    text = (folder / "tables.md").read_text("utf-8")
    title = re.match(r"# Experiment (\d): .* \((\w+) profile\)\n", text)
    if title is None:
        raise SystemExit(f"{folder} holds no tables of benchmarks.paper.")
    experiment, profile = f"exp{title[1]}", title[2]
    name = experiment if profile == "paper" else f"{experiment}_{profile}"
    seeds = re.search(r"over seeds ([\d, ]+)\.", text)
    assert seeds is not None
    many = seeds[1].replace(", ", " ")
    lines = [
        f"*Commit {commit}; mean ± standard deviation over seeds {seeds[1]}; made by*", "",
        f"    python -m benchmarks.paper {experiment} --profile {profile} --seeds {many} "
        "--out FOLDER",
        f"    python -m benchmarks.paper_page FOLDER --commit {commit}",
    ]  # fmt: skip
    sections = text[text.index("\n## ") :].split("\n## ")[1:]
    body = [_timeless(part) for part in sections if not part.startswith("Beyond the paper")]
    body = [_equations(part) if part.startswith("Equations") else part for part in body]
    lines += ["", *(f"### {part.strip()}\n" for part in body)]
    for stem, caption in FIGURES[experiment].items():
        source = folder / f"{stem}.png"
        if source.exists():
            lines.append(f"![{caption}]({_small(source, f'paper_{name}_{stem}.png')})")
    return name, "\n".join(lines)


def _timeless(section: str) -> str:
    """A table without its last column where that is the time: it says more about the machine."""
    lines = section.splitlines()
    timed = any(line.endswith("| seconds |") for line in lines)
    return "\n".join(
        line.rsplit("|", 2)[0] + "|" if timed and line.startswith("|") else line for line in lines
    )


def _equations(section: str) -> str:
    """A list of laws without those that say nothing moves, and each of the others once."""
    lines: dict[str, str] = {}
    for line in section.splitlines():
        method, _, law = line.partition(": ")
        if law.replace("`", "").replace(";", "").split().count("0") < 2:
            lines.setdefault(f"{method.split(', seed')[0]} {law}", line)
    return "\n".join(lines.values())


def _small(source: Path, name: str) -> str:
    """A copy in few colors beside the page: figures of curves and dots need no more."""
    picture = Image.open(source).convert("RGB")
    height = round(picture.height * WIDTH / picture.width)
    picture = picture.resize((WIDTH, height), Image.Resampling.LANCZOS).quantize(128)
    with writing(PAGE.with_name(name)) as file:
        picture.save(file, format="png", optimize=True)
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--commit", default="unknown", help="That the runs were made with.")
    args = parser.parse_args()
    page = PAGE.read_text("utf-8")
    for folder in args.folders:
        name, text = block(folder, args.commit)
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin not in page or end not in page:
            raise SystemExit(f"{PAGE.name} has no block {name}: add '{begin.strip()}' and '{end}'.")
        head, rest = page.split(begin, 1)
        page = f"{head}{begin}\n{text}\n\n{end}{rest.split(end, 1)[1]}"
    write_whole(PAGE, page.encode())


if __name__ == "__main__":
    main()
