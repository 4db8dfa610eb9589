"""What importing does, and who may import whom."""

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize(
    "module", ["pysr", "juliacall", "pysindy", "pyoperon", "sjepa_backends", "matplotlib.pyplot"]
)
def test_importing_the_package_imports_no_backend(module: str) -> None:
    out = run(f"import sjepa, sys; assert {module!r} not in sys.modules")
    assert out.returncode == 0, out.stderr


def test_listing_the_backends_imports_none() -> None:
    out = run("import sjepa, sys; sjepa.available_backends(); assert 'pysr' not in sys.modules")
    assert out.returncode == 0, out.stderr


def test_the_julia_worker_imports_neither_torch_nor_us() -> None:
    code = (
        "import sys; sys.path[:0] = ['backends']; import sjepa_backends.pysr_worker; "
        "assert not {'torch', 'sjepa', 'sympy', 'pysr'} & set(sys.modules)"
    )
    out = run(code)
    assert out.returncode == 0, out.stderr


def test_reading_a_law_needs_none_of_the_heavy_packages() -> None:
    """Torch, pandas, pyarrow and SciPy take seconds to import; a law needs numpy and SymPy."""
    code = (
        "import sjepa, sys; law = sjepa.Law.from_string(['z2', '-sin(z1)'], ['z1', 'z2']); "
        "assert law.numpy()([0.0, 2.0])[0] == 2.0; law.latex(), law.c(), law.python(); "
        "print(*{'torch', 'pandas', 'pyarrow', 'scipy', 'sklearn'} & set(sys.modules))"
    )
    out = run(code)
    assert out.returncode == 0 and not out.stdout.strip(), out.stdout + out.stderr


def test_imports_point_down_only() -> None:
    out = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert out.returncode == 0, out.stdout


ALLOWED_IN_BACKENDS = {"sjepa.backend", "sjepa.symbolic", "sjepa.errors"}


def imported(folder: Path) -> set[str]:
    """Every module that the files of a package import, wherever in them."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


NOT_FOR_BACKENDS = {"sjepa.backend.registry", "sjepa.backend.executors"}


def forbidden_in_backends(folder: Path) -> set[str]:
    ours = {name for name in imported(folder) if name.split(".")[0] == "sjepa"}
    parts = {name: ".".join(name.split(".")[:2]) for name in ours}
    return {
        name
        for name, part in parts.items()
        if part not in ALLOWED_IN_BACKENDS or name.startswith(tuple(NOT_FOR_BACKENDS))
    }


def test_backends_import_the_contract_the_symbols_and_the_errors_only() -> None:
    assert forbidden_in_backends(ROOT / "backends" / "sjepa_backends") == set()


@pytest.mark.parametrize(
    "line",
    [
        "from sjepa.storage import files",
        "from sjepa import storage",
        "import sjepa.callbacks",
        "def f():\n    from sjepa.backend.registry import make_backend",
        "import sjepa",
    ],
)
def test_a_backend_that_imports_more_is_caught(line: str, tmp_path: Path) -> None:
    (tmp_path / "backend.py").write_text("from sjepa.backend import Backend\n" + line + "\n")
    assert forbidden_in_backends(tmp_path)


def test_the_linters_list_of_what_backends_may_not_import_is_complete() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (rule,) = (c for c in contracts["contracts"] if c["name"].startswith("backends see"))
    modules = {f"sjepa.{p.stem}" for p in (ROOT / "sjepa").iterdir() if p.suffix == ".py"}
    modules |= {f"sjepa.{p.parent.name}" for p in (ROOT / "sjepa").glob("*/__init__.py")}
    wanted = modules - ALLOWED_IN_BACKENDS - {"sjepa.__init__"} | NOT_FOR_BACKENDS
    assert set(rule["forbidden_modules"]) == wanted


def test_the_julia_worker_imports_pysr_and_what_it_brings_only(tmp_path: Path) -> None:
    source = ROOT / "backends" / "sjepa_backends" / "pysr_worker.py"
    (tmp_path / "worker.py").write_text(source.read_text())
    outside = {name.split(".")[0] for name in imported(tmp_path)} - sys.stdlib_module_names
    assert outside == {"numpy", "pysr", "sympy"}


def test_every_public_name_exists() -> None:
    import sjepa

    assert all(hasattr(sjepa, name) for name in sjepa.__all__)


def test_the_version_has_one_value() -> None:
    import tomllib

    import sjepa

    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert data["project"]["version"] == sjepa.__version__


def test_public_names_are_there_and_stay_what_they_are_after_everything_is_imported() -> None:
    """As the documentation writes them; in a process of its own, where nothing else imported them."""
    names = ["bayes", "callbacks", "control", "data", "models", "report"]
    code = (
        "import sjepa, pkgutil, importlib\n"
        f"print(*(getattr(sjepa, n).__name__ for n in {names}))\n"
        "for m in pkgutil.walk_packages(sjepa.__path__, 'sjepa.'):\n"
        "    m.name.endswith('__main__') or importlib.import_module(m.name)\n"
        "assert callable(sjepa.discover) and callable(sjepa.SJEPA) and callable(sjepa.induced_complexity)\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"sjepa.{n}" for n in names]


def test_a_first_law_needs_neither_torch_nor_pandas() -> None:
    """They take longer to import than the law to find."""
    code = (
        "import sys, numpy as np, sjepa; t = 0.02 * np.arange(400); "
        "law = sjepa.discover(np.stack([np.cos(t), -np.sin(t)], 1), 0.02).best(); "
        "assert law.outputs == ('x1', 'x2'); print(*{'torch', 'pandas'} & set(sys.modules))"
    )
    out = run(code)
    assert out.returncode == 0 and not out.stdout.strip(), out.stdout + out.stderr


@pytest.mark.parametrize("package", ["sjepa", "sjepa.data", "sjepa.models"])
def test_every_name_that_a_package_lists_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'nothing_like_it'"):
        module.nothing_like_it  # noqa: B018


def trees(pattern: str) -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(ROOT.glob(pattern))]


def test_tests_import_public_names_only() -> None:
    private = [
        f"{path.relative_to(ROOT)}: {node.module}.{name.name}"
        for path, tree in trees("tests/**/*.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sjepa")
        for name in node.names
        if name.name.startswith("_")
    ]
    assert not private


def test_no_public_class_name_stands_twice() -> None:
    names = [
        node.name
        for pattern in ("sjepa/**/*.py", "backends/**/*.py")
        for _, tree in trees(pattern)
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []
