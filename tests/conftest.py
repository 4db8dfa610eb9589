"""Settings shared by the whole suite."""

import signal

import matplotlib
import pytest
from hypothesis import settings


matplotlib.use("Agg")

# A shell ignores Ctrl-C in what it starts in the background, and some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A first call may compile, allocate or import; wall-clock limits only make tests flaky.
settings.register_profile("sjepa", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("sjepa")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", help="run the contract suite on this backend alone")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The contract suite asks for a ``backend_name``; see ``tests/backends/test_contract.py``."""
    if "backend_name" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--backend")
        names = metafunc.module.NAMES if asked is None else [asked]
        metafunc.parametrize("backend_name", names)
