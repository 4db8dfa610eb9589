"""Only sjepa.storage writes files: whatever a command leaves is whole, or is not there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2] / "sjepa"
# Calls that write to the path they are given. With an open file or memory they are harmless.
WRITERS = {
    "write_text", "write_bytes", "touch", "to_csv", "to_parquet", "savefig", "save_file", "np.save",
    "torch.save", "savez", "savez_compressed", "savetxt", "imwrite", "FileHandler", "mkstemp",
    "NamedTemporaryFile", "os.replace", "os.rename", "shutil.move", "shutil.copy",
}  # fmt: skip
# What may stand in the place of the path: open files of `writing`, memory, the screen.
HARMLESS = {"file", "f", "memory", "sys.stdout", "'<bytes>'"}


def writers_in(source: str) -> list[str]:
    """Every call in a source that would write a file on its own."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        first = ast.unparse(node.args[0]) if node.args else "" if node.keywords else "nothing"
        if last == "open":
            modes = [*node.args, *(k.value for k in node.keywords if k.arg == "mode")]
            for mode in (m.value for m in modes if isinstance(m, ast.Constant)):
                if isinstance(mode, str) and len(mode) < 4 and set(mode) & set("wax+"):
                    found.append(f"line {node.lineno}: {name} as {mode!r}")
            if "O_WRONLY" in ast.unparse(node) or "O_RDWR" in ast.unparse(node):
                found.append(f"line {node.lineno}: {name}")
        elif {name, last} & WRITERS and first and first not in HARMLESS:
            found.append(f"line {node.lineno}: {name}({first})")
    return found


@pytest.mark.parametrize(
    "source",
    [
        "path.open('w')", "open(p, mode='ab')", "p.write_text(t)", "frame.to_csv(out)",
        "figure.savefig(out / 'a.png')", "np.save(path, x)", "os.open(p, os.O_RDWR)",
        "os.replace(a, b)", "p.touch()",
    ],
)  # fmt: skip
def test_the_search_sees_what_it_looks_for(source: str) -> None:
    assert writers_in(source)


def test_nothing_but_storage_writes() -> None:
    found = {
        str(path.relative_to(ROOT)): calls
        for path in sorted(ROOT.rglob("*.py"))
        if path.parent.name != "storage" and (calls := writers_in(path.read_text("utf-8")))
    }
    assert not found
