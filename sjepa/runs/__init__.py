"""What a fit leaves on disk: the folder of a run, its checkpoints, and the finished model."""

from sjepa.runs.folder import Run, fingerprint, writable
from sjepa.runs.journal import Journal
from sjepa.runs.saving import Saved


__all__ = ["Journal", "Run", "Saved", "fingerprint", "writable"]
