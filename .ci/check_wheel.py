"""Check a wheel from inside an environment that holds nothing but it and what it requires.

    python check_wheel.py WHEEL CHECKOUT

Run it outside the checkout, or its folders would be imported instead of what was installed.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path


# Where each package lies in the checkout.
PACKAGES = {
    "sjepa": "sjepa",
    "sjepa_backends": "backends/sjepa_backends",
    "sjepa_julia": "julia/sjepa_julia",
}


def missing_files(wheel: Path, checkout: Path) -> set[str]:
    """Files of the packages that are tracked but not packed, or packed but not tracked."""
    tracked = set()
    for package, folder in PACKAGES.items():
        listed = ["git", "-C", str(checkout), "ls-files", "-z", "--", folder]
        names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
        tracked |= {package + name.removeprefix(folder) for name in names.split("\0") if name}
    packed = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    return tracked ^ packed


def import_all() -> int:
    """Import every public module without any optional dependency; returns how many.

    Private ones may be parts of a backend that need its package, or scripts. A backend that the
    registry refuses before it is imported may import its package at once.
    """
    from sjepa.backend.registry import sources

    optional = {need for source in sources().values() for need in source.needs}
    names = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        if not Path(module.__path__[0]).is_relative_to(sys.prefix):
            sys.exit(f"{package} was imported from {module.__path__[0]}, not from the wheel.")
        names += [m.name for m in pkgutil.walk_packages(module.__path__, f"{package}.")]
    public = [name for name in names if not name.rpartition(".")[2].startswith("_")]
    for name in public:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in optional:
                raise
    return len(public)


def find_a_law() -> str:
    """The law of a harmonic oscillator with q'' = -4 q, from its exact solution."""
    import numpy as np

    import sjepa

    t = np.arange(0, 10, 0.02)
    x = np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1)
    law = sjepa.discover(x, t, feature_names=["q", "p"], library=["q", "p", "q**2"]).best()
    if not np.allclose(law.numpy()(np.eye(2)), [[0, -4], [1, 0]], atol=1e-3):
        sys.exit(f"The installed package finds a wrong law: {law}.")
    return str(law)


def main() -> None:
    wheel, checkout = map(Path, sys.argv[1:])
    if wrong := missing_files(wheel, checkout):
        sys.exit(f"{wheel.name} and the checkout differ in {', '.join(sorted(wrong))}.")
    print(f"{wheel.name}: every tracked file, {import_all()} modules import.")
    print(find_a_law())


if __name__ == "__main__":
    main()
