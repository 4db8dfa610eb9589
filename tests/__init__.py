"""The test suite. Two workers of two threads each would fight over two cores: one thread each."""

import os


# Before numpy is loaded, which reads them then.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
