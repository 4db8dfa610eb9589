"""What a start costs: imports, the command line, a first law; beside PySINDy and PySR.

    python benchmarks/imports.py [--repeats 5]

CPU time of fresh processes, median of a few; that of a bare interpreter is taken off. PySR is
left out where there is no Julia: importing it would download one.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from statistics import median

from sjepa_backends.pysr import julia_available


LAW = "from sjepa import Law, Front, Library, Problem"
HEAVY = ("torch", "pandas", "pyarrow", "scipy", "sklearn", "matplotlib")
DATA = "import numpy as np; t = 0.02 * np.arange(1000); x = np.stack([np.cos(t), -np.sin(t)], 1); "
FIRST = DATA + "import sjepa; sjepa.discover(x, 0.02)"
COSTS = {
    "import numpy, sympy": "import numpy, sympy",
    "import sjepa": "import sjepa",
    LAW: LAW,
    "sjepa --help": "import sys; sys.argv[1:] = ['--help']; from sjepa.cli import main; main()",
    "import sjepa and first law, 1,000 x 2": FIRST,
    "import pysindy": "import pysindy",
    "import pysindy and first law, 1,000 x 2": DATA
    + "import pysindy; pysindy.SINDy().fit(x, t=0.02)",
    "import pysr": "import pysr",
}


def cpu_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    bare = median(cpu_seconds("pass") for _ in range(repeats))
    for what, code in COSTS.items():
        if what == "import pysr" and not julia_available()[0]:
            print(f"{what}: {julia_available()[1]}")
            continue
        print(f"{what}: {median(cpu_seconds(code) for _ in range(repeats)) - bare:.2f} s")
    for code in (LAW, FIRST):
        installed = (
            f"import sys\n{code}\nprint(*[m for m in {HEAVY!r} if m in sys.modules] or ['none'])"
        )
        run = subprocess.run([sys.executable, "-c", installed], stdout=subprocess.PIPE, check=True)
        print(f"heavy packages after {code[-40:]}: {run.stdout.decode().strip()}")


if __name__ == "__main__":
    main()
