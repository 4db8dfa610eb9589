"""A page of Markdown as a script: its Python and its commands, with the output it promises.

A fence ``python`` is run; a fence ``text`` right after it is what it must print. In a fence
``console`` the lines that start with ``$`` are commands and the others what they print. All
blocks of a page share one process and one empty folder, so a page reads, and runs, from the top.
``...`` stands for anything, as in doctest. A fence ``python no-run`` is only compiled.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import run as run_sjepa


ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """One fence: its language, its options, its text, the line it starts on."""

    language: str
    options: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fences of a page in order."""
    return [
        Block(m[1], m[2].strip(), m[3], page.count("\n", 0, m.start()) + 1)
        for m in FENCE.finditer(page)
    ]


def promised(found: list[Block], i: int, page: str) -> str | None:
    """The output shown right after a block, nothing but blank lines between them."""
    if i + 1 == len(found) or found[i + 1].language != "text":
        return None
    between = page.splitlines()[
        found[i].line + found[i].text.count("\n") + 1 : found[i + 1].line - 1
    ]
    return None if any(line.strip() for line in between) else found[i + 1].text


def same(promise: str, printed: str) -> bool:
    """Whether output is as promised, white space and ``...`` aside."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(promise, printed, options)


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
            if promise is not None and not same(promise, printed.getvalue()):
                problems.append(f"{where} promises\n{promise}but prints\n{printed.getvalue()}")
        elif block.language == "console":
            problems += [f"{where} {p}" for p in commands(block.text)]
    return problems


def commands(text: str) -> list[str]:
    """Run the commands of a console block and compare what they print."""
    problems = []
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
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
        elif promise.strip() and not same(promise, done.stdout):
            problems.append(f"$ {command}\npromises\n{promise}but prints\n{done.stdout}")
    return problems


if __name__ == "__main__":
    wrong = run(Path(sys.argv[1]).resolve())
    print("\n\n".join(wrong))
    sys.exit(bool(wrong))
