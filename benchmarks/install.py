"""What each dependency adds to an installation: megabytes on disk, and seconds to install it.

    python -m benchmarks.install FOLDER      # a new virtual environment is made there

Packages are installed one after the other in this order, so that each line is what it adds to
those before it. The CPU build of torch must be what the package index gives (see the README).
"""

from __future__ import annotations

import argparse
import subprocess
import venv
from pathlib import Path
from time import perf_counter


CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
# What `pip install sjepa` brings, then one extra after the other.
STEPS = (
    "torch", "numpy scipy", "pandas", "pyarrow", "scikit-learn joblib", "sympy", "safetensors",
    "matplotlib", "jinja2", "typer rich", "pysindy", "pyoperon", "pysr",
    "gplearn", "casadi", "gymnasium", "av imageio", "dask[dataframe,distributed]",
    "ray[data]", "tensorboard", "pint", "h5py",
)  # fmt: skip


def size(folder: Path) -> float:
    """Megabytes of the files of a folder."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", CONSTRAINTS]
    before = size(folder)
    for step in STEPS:
        begin = perf_counter()
        subprocess.run([*pip, *step.split()], check=True)
        seconds, after = perf_counter() - begin, size(folder)
        print(f"{step:30} {after - before:7.0f} MB {seconds:7.1f} s", flush=True)
        before = after


if __name__ == "__main__":
    main()
