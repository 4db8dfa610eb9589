"""Settings shared by the whole suite."""

import matplotlib
import torch
from hypothesis import settings


matplotlib.use("Agg")
# Two workers of two threads each would fight over two cores; the tests are small anyway.
torch.set_num_threads(1)

# A first call may compile, allocate or import; wall-clock limits only make tests flaky.
settings.register_profile("sjepa", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("sjepa")
