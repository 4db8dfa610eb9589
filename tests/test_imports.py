"""What importing does, and who may import whom."""

import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize(
    "module", ["pysr", "juliacall", "pysindy", "pyoperon", "sjepa_backends", "matplotlib.pyplot"]
)
def test_importing_the_package_imports_no_engine(module: str) -> None:
    out = run(f"import sjepa, sys; assert {module!r} not in sys.modules")
    assert out.returncode == 0, out.stderr


def test_listing_the_engines_imports_none() -> None:
    out = run("import sjepa, sys; sjepa.available_backends(); assert 'pysr' not in sys.modules")
    assert out.returncode == 0, out.stderr


def test_the_julia_worker_imports_neither_torch_nor_us() -> None:
    code = (
        "import sys; sys.path[:0] = ['backends']; import sjepa_backends._pysr_worker; "
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


def test_every_public_name_exists() -> None:
    import sjepa

    assert all(hasattr(sjepa, name) for name in sjepa.__all__)


def test_the_version_has_one_value() -> None:
    import tomllib

    import sjepa

    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert data["project"]["version"] == sjepa.__version__


def test_public_names_stay_what_they_are_after_everything_is_imported() -> None:
    code = (
        "import sjepa, pkgutil, importlib\n"
        "for m in pkgutil.walk_packages(sjepa.__path__, 'sjepa.'):\n"
        "    m.name.endswith('__main__') or importlib.import_module(m.name)\n"
        "assert callable(sjepa.discover) and callable(sjepa.SJEPA) and callable(sjepa.induced_complexity)\n"
    )
    out = run(code)
    assert out.returncode == 0, out.stderr
