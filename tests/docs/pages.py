"""A page of Markdown as a script: its Python and its commands, with the output it promises.

A fence ``python`` is run; a fence ``text`` right after it is what it must print. In a fence
``console`` the lines that start with ``$`` are commands and the others what they print. All
blocks of a page share one process and one empty folder, so a page reads, and runs, from the top.
``...`` stands for anything, as in doctest. A fence ``python no-run`` is only compiled.

Text is compared to the letter, numbers within ``RTOL`` or within what the fence of the output
states, as in ``text rtol=0.1``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from tests.command import run as run_sjepa


ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
# Processors round differently, and a person who compares figures reads three digits of them.
RTOL = 1e-3
# Without its sign, which is text; the digits of a name such as x1 are no number.
NUMBER = r"(?<![\w.])[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?(?!\.?\w)"


@dataclass(frozen=True)
class Block:
    """One fence: its language, its options, its text, the line it starts on."""

    language: str
    options: str
    text: str
    line: int

    @property
    def rtol(self) -> float:
        """Relative tolerance of the numbers it promises."""
        stated = re.search(r"rtol=(\S+)", self.options)
        return float(stated[1]) if stated else RTOL


def blocks(page: str) -> list[Block]:
    """The fences of a page in order."""
    return [
        Block(m[1], m[2].strip(), m[3], page.count("\n", 0, m.start()) + 1)
        for m in FENCE.finditer(page)
    ]


def promised(found: list[Block], i: int, page: str) -> Block | None:
    """The output shown right after a block, nothing but blank lines between them."""
    if i + 1 == len(found) or found[i + 1].language != "text":
        return None
    between = page.splitlines()[
        found[i].line + found[i].text.count("\n") + 1 : found[i + 1].line - 1
    ]
    return None if any(line.strip() for line in between) else found[i + 1]


def same(promise: str, printed: str, rtol: float = RTOL) -> bool:
    """Whether output is as promised: text to the letter, numbers within ``rtol``.

    White space counts once, and digits that touch ``...`` are text.
    """
    want, got = " ".join(promise.split()), " ".join(printed.split())
    free = NUMBER + r"(?!\.\.\.)"
    numbers = iter(re.findall(free, want))
    starts, ends = range(1), [0]
    for piece in re.sub(free, "\0", want).split("..."):
        text = piece.split("\0")
        pattern = re.compile(f"({NUMBER})".join(map(re.escape, text)))
        expected = list(islice(numbers, len(text) - 1))
        matches = [m for start in starts if (m := pattern.match(got, start))]
        ends = [
            m.end()
            for m in matches
            if all(_close(*pair, rtol) for pair in zip(expected, m.groups(), strict=True))
        ]
        starts = range(min(ends, default=len(got) + 1), len(got) + 1)
    return len(got) in ends


def _close(promised: str, printed: str, rtol: float) -> bool:
    """Whole numbers are counts and powers, and equal; others differ by ``rtol`` or by a unit of
    the last digit shown, if it is not the only one."""
    if promised.isdigit() and printed.isdigit():
        return promised == printed
    _, digits, exponent = Decimal(promised).as_tuple()
    unit = 10.0**exponent if len(digits) > 1 and exponent < 0 else 0.0
    # Decimals are read as binary numbers: 0.2 - 0.199 is a little more than 0.001.
    return abs(float(promised) - float(printed)) <= max(rtol * float(promised), unit) * (1 + 1e-9)


def run(path: Path) -> list[str]:
    """Run a page in the present folder; returns what is not as the page says."""
    page = path.read_text(encoding="utf-8")
    found = blocks(page)
    names: dict[str, Any] = {"__name__": "page"}
    problems: list[str] = []
    for i, block in enumerate(found):
        where = f"{path.name}:{block.line}"
        if block.language == "python":
            code = compile("\n" * block.line + block.text, str(path), "exec", dont_inherit=True)
            if "no-run" in block.options:
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, names)
            promise = promised(found, i, page)
            if promise and not same(promise.text, printed.getvalue(), promise.rtol):
                problems.append(f"{where} promises\n{promise.text}but prints\n{printed.getvalue()}")
        elif block.language == "console":
            problems += [f"{where} {p}" for p in commands(block)]
    return problems


def commands(block: Block) -> list[str]:
    """Run the commands of a console block and compare what they print."""
    problems = []
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, promise = part.partition("\n")
        while command.endswith("\\"):
            more, _, promise = promise.partition("\n")
            command = command[:-1] + more.strip()
        words = shlex.split(command, comments=True)
        if words[0] == "sjepa":
            done = run_sjepa(*words[1:])  # in this process: starting anew takes seconds
        elif words[0] in ("python", "cat", "head", "ls"):
            # Scripts are named as seen from the top of the checkout.
            words = [str(ROOT / w) if (ROOT / w).is_file() else w for w in words]
            if words[0] == "python":
                words[0] = sys.executable
            done = subprocess.run(words, capture_output=True, text=True)
        else:
            continue  # pip, make and the like are shown, not run
        if done.returncode:
            problems.append(f"$ {command}\nends with {done.returncode}\n{done.stderr}")
        elif promise.strip() and not same(promise, done.stdout, block.rtol):
            problems.append(f"$ {command}\npromises\n{promise}but prints\n{done.stdout}")
    return problems


def serve() -> None:
    """Run the pages asked for on standard input, each in a fork: importing torch takes seconds.

    A request is a page, a folder and a file for what is printed; the answer is the exit code.
    """
    import sjepa.cli.app
    import sjepa.estimator.model  # noqa: F401

    for line in sys.stdin:
        page, folder, printed = json.loads(line)
        if not (child := os.fork()):
            os.chdir(folder)
            for file, flags, into in (
                (os.devnull, os.O_RDONLY, [0]),
                (printed, os.O_WRONLY | os.O_CREAT, [1, 2]),
            ):
                for descriptor in into:
                    os.dup2(os.open(file, flags), descriptor)
            main(page)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def main(page: str) -> None:
    wrong = run(Path(page).resolve())
    print("\n\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1]) if sys.argv[1:] else serve()
