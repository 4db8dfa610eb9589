"""The README's Python runs as written, and its commands exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


@pytest.mark.parametrize("code", BLOCKS, ids=lambda c: c.strip().splitlines()[-1][:40])
def test_python_in_the_readme_runs(code: str, tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert out.returncode == 0, out.stderr


def test_commands_in_the_readme_exist() -> None:
    commands = set(re.findall(r"^    sjepa (\w+)", README, flags=re.M))
    assert commands
    out = subprocess.run([sys.executable, "-m", "sjepa", "--help"], capture_output=True, text=True)
    assert commands <= set(out.stdout.split())


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make ([\w-]+)", README, flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M)


def test_files_linked_in_the_readme_exist() -> None:
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([\w./-]+)\)", README)
    assert links and all((root / link).exists() for link in links)
