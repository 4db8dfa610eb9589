"""Change the code at random and see whether the tests notice.

    python -m tests.mutants sjepa/bayes sjepa/control/ilqr.py -n 40 --tests tests/bayes tests/control
    python -m tests.mutants sjepa/control/ilqr.py:162   # every change of one line, to look again

One run of the tests records which of them execute which line. Then each mutant, in a copy of the
working tree, meets the tests that execute its line, quickest first, until one fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.mutants.isolated import preload, run_mutant, run_recorded
from tests.mutants.mutations import Mutant, mutants


ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("paths", nargs="+", help="files, folders or file:line")
    parser.add_argument("-n", type=int, default=50, help="mutants, spread evenly over the files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", default=["tests"], help="where to look for tests")
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="CPU seconds of tests for a mutant"
    )
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    lines: dict[str, set[int]] = {}
    for path, _, line in (p.partition(":") for p in given.paths):
        for file in _files(ROOT / path):
            lines.setdefault(file, set()).update([int(line)] if line else [])
    files = sorted(lines)
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tree = Path(folder) / "tree"
        _copy_working_tree(tree)
        preload()
        drawn = draw(tree, lines, given.n, random.Random(given.seed))
        print(f"{len(drawn)} mutants of {len(files)} files; recording which tests run which line")
        record = run_recorded(tree, files, given.tests)
        print(f"{len(record.seconds)} tests, {sum(record.seconds.values()):.0f} s", flush=True)
        survivors: list[tuple[Mutant, str]] = []
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        for i in range(given.jobs):
            shutil.copytree(tree, Path(folder) / str(i))
            queue.put(Path(folder) / str(i))
        with context.Pool(given.jobs, _enter, (queue, record, given.seconds)) as pool:
            for mutant, fate in pool.imap_unordered(_judge, drawn):
                if fate != "noticed":
                    survivors.append((mutant, fate))
                    print(f"{fate:>9}  {mutant}", flush=True)
    _summarise(drawn, [m for m, _ in survivors])


def draw(
    tree: Path, lines: Mapping[str, Collection[int]], count: int, rng: random.Random
) -> list[Mutant]:
    """As evenly over the files as their numbers of possible mutants allow; no lines mean all."""
    stacks = []
    for path, wanted in sorted(lines.items()):
        found = mutants((tree / path).read_text(encoding="utf-8"), path)
        found = [m for m in found if not wanted or m.line in wanted]
        stacks.append(rng.sample(found, len(found)))
    drawn: list[Mutant] = []
    while len(drawn) < count and any(stacks):
        rng.shuffle(stacks)
        for stack in stacks:
            if stack and len(drawn) < count:
                drawn.append(stack.pop())
    return drawn


def _files(path: Path) -> list[str]:
    if not path.exists():
        sys.exit(f"There is no {path}; give files or folders of this checkout.")
    found = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [str(f.resolve().relative_to(ROOT)) for f in found]


def _copy_working_tree(tree: Path) -> None:
    """What git would commit, as it is now: a mutant never touches the checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def _enter(queue: multiprocessing.Queue, *shared: object) -> None:
    global _place
    _place = (queue.get(), *shared)


def _judge(mutant: Mutant) -> tuple[Mutant, str]:
    tree, record, seconds = _place
    tests = record.covering(mutant.path, (mutant.line, mutant.statement), seconds)
    return mutant, run_mutant(tree, mutant, tests, record) if tests else "not run"


def _summarise(drawn: list[Mutant], survivors: list[Mutant]) -> None:
    every, missed = Counter(m.path for m in drawn), Counter(m.path for m in survivors)
    print("\nnoticed / all")
    for path in sorted(every, key=lambda p: -missed[p] / every[p]):
        print(f"{every[path] - missed[path]:5d} / {every[path]:<4d} {path}")
    print(f"{len(drawn) - len(survivors):5d} / {len(drawn):<4d} together")


if __name__ == "__main__":
    main()
