"""The alternating search in a recorder: every epoch logged, every cycle a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sjepa.callbacks import Step
from sjepa.errors import FormatError, SjepaError
from sjepa.runs.recorder import RunRecorder
from sjepa.training.alternating import AlternatingLoop, Alternation, Condition, Phase
from sjepa.training.alternating.distributed import agreed


class AlternatingCheckpointer:
    """Connects the phases of training with a recorder, and resumes from its last checkpoint."""

    def __init__(self, recorder: RunRecorder, warm: Condition, plan: Alternation) -> None:
        self.recorder, self.warm, self.plan = recorder, warm, plan
        self._state = agreed(recorder.restore())

    @property
    def in_cycles(self) -> bool:
        """Whether the warm start was over when the last checkpoint was written."""
        return self._state.get("stage") == "cycles"

    def follow_warm_start(self, phase: Phase) -> None:
        """Continue the phase if there is a checkpoint of it, and note its epochs."""
        if self._state:
            _within(self._state["state"]["epoch"], self.warm.epochs, "epoch")
            phase.load_state_dict(self._state["state"])
        phase.on_step = self._listener(lambda: {"stage": "warm", "state": phase.state_dict()})

    def follow_cycles(self, loop: AlternatingLoop) -> None:
        """Continue the cycles if there is a checkpoint of them, and note their epochs."""
        if self.in_cycles:
            state = self._state["state"]
            _within(state["cycle"], self.plan.cycles, "cycle")
            if state["stage"] not in ("propose", "dynamics", "space"):
                raise ValueError(f"no stage is called {state['stage']!r:.40}")
            if state["phase"] is not None:
                longest = max(self.plan.dynamics.epochs, self.plan.space.epochs)
                _within(state["phase"]["epoch"], longest, "epoch")
            loop.load_state_dict(state)
        loop.on_step = self._listener(lambda: {"stage": "cycles", "state": loop.state_dict()})

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """What fails after resuming from a checkpoint is taken for the fault of the checkpoint."""
        try:
            yield
        except SjepaError:
            raise
        except Exception as error:
            if not self._state:
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
            raise FormatError(
                f"{self.recorder.path} does not fit this run ({reason}); remove it to begin again."
            ) from error

    def _listener(self, state: Callable[[], dict[str, Any]]) -> Callable[[Step], None]:
        def listen(step: Step) -> None:
            space = step.cycles > 0 and step.stage == self.plan.space.name
            ended = step.epoch == step.epochs and (space or not step.cycles)
            self.recorder.record(replace(step, share=self._share(step)), state, ended)

        return listen

    def _share(self, step: Step) -> float:
        """Epochs done of all epochs; phases that end early make it jump ahead."""
        cycles = self.plan.cycles * self.plan.epochs_per_cycle
        done = self.warm.epochs + step.share * cycles if step.cycles else step.epoch
        return done / (self.warm.epochs + cycles)


def _within(value: Any, max_value: int, what: str) -> None:
    """A wrong count would let training run without end."""
    if type(value) is not int or not 0 <= value <= max_value:
        raise ValueError(f"{what} is {value!r:.40}")
