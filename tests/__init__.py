"""The test suite. Two workers of two threads each would fight over two cores: one thread each."""

import os


# Before numpy and torch are loaded, which read it then; a number set from outside stays.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "PERTURB" in os.environ:
    import tests.robustness.perturb  # noqa: F401
