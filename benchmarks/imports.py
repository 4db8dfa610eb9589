"""What importing costs, beside the numpy and SymPy that a law is made of.

Run with: python benchmarks/imports.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from statistics import median


LAW = "from sjepa import Law, Front, Library, Problem"
HEAVY = ("torch", "pandas", "pyarrow", "scipy", "sklearn", "matplotlib")


def cpu_seconds(statement: str) -> float:
    """Processor time of one import in a fresh interpreter, without starting the interpreter."""
    code = (
        "from time import process_time\nstart = process_time()\n"
        f"{statement}\nprint(process_time() - start)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    base = [cpu_seconds("import numpy, sympy") for _ in range(repeats)]
    print(f"import numpy, sympy  {median(base):.3f} s of processor time (median of {repeats})")
    for statement in ("import sjepa", LAW):
        ours = median(cpu_seconds(statement) for _ in range(repeats))
        print(f"{statement}: {ours:.3f} s, {ours / median(base):.2f} times")
    code = f"import sys\n{LAW}\nprint(*[m for m in {HEAVY!r} if m in sys.modules] or ['none'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"heavy packages among the imported: {run.stdout.strip()}")


if __name__ == "__main__":
    main()
