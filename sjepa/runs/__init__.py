"""What a fit leaves on disk: the folder of a run, its checkpoints, and the finished model."""

from sjepa.runs.folder import Run, fingerprint, writable
from sjepa.runs.recorder import RunRecorder
from sjepa.runs.saving import Saved


__all__ = ["Run", "RunRecorder", "Saved", "fingerprint", "writable"]
