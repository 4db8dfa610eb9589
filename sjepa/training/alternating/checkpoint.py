"""The alternating search in a journal: every epoch noted, every cycle a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sjepa.callbacks import Step
from sjepa.errors import FormatError, SjepaError
from sjepa.runs.recorder import RunRecorder
from sjepa.training.alternating import Alternating, Alternation, Condition, Event, Phase


class AlternatingCheckpointer:
    """Connects the phases of training with a journal, and goes on from its last checkpoint."""

    def __init__(
        self, journal: RunRecorder, warm: Condition, plan: Alternation, threshold: float
    ) -> None:
        self.journal, self.threshold = journal, threshold
        self.warm, self.plan = warm, plan
        self._state = journal.restore()

    @property
    def in_cycles(self) -> bool:
        """Whether the warm start was over when the last checkpoint was written."""
        return self._state.get("stage") == "cycles"

    def follow_warm_start(self, phase: Phase) -> None:
        """Continue the phase if there is a checkpoint of it, and note its epochs."""
        if self._state:
            _within(self._state["state"]["epoch"], self.warm.epochs, "epoch")
            phase.load_state_dict(self._state["state"])
        phase.callback = self._listener(lambda: {"stage": "warm", "state": phase.state_dict()})

    def follow_cycles(self, loop: Alternating) -> None:
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
        loop.callback = self._listener(lambda: {"stage": "cycles", "state": loop.state_dict()})

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """What fails after going on from a checkpoint is taken for the fault of the checkpoint."""
        try:
            yield
        except SjepaError:
            raise
        except Exception as error:
            if not self._state:
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
            raise FormatError(
                f"{self.journal.path} does not fit this run ({reason}); remove it to begin again."
            ) from error

    def _listener(self, state: Callable[[], dict[str, Any]]) -> Callable[[Event], None]:
        def listen(event: Event) -> None:
            space = event.cycles > 0 and event.phase == self.plan.space.name
            ended = event.epoch == event.epochs and (space or not event.cycles)
            self.journal.record(self._step(event), state, ended)

        return listen

    def _step(self, event: Event) -> Step:
        record, law = event.record, None
        if event.cycles and record is not None and event.model.symbolic is not None:
            law = "; ".join(event.model.symbolic.law(self.threshold).lines(digits=4))
        cycle = f"cycle {event.cycle} of {event.cycles}, " if event.cycles else ""
        text = f"{cycle}{event.phase.replace('_', ' ')}, epoch {event.epoch}: loss {event.loss:.3g}"
        return Step(
            text,
            self._share(event),
            event.phase,
            event.cycle,
            event.cycles,
            event.epoch,
            event.epochs,
            event.loss,
            None if record is None else record.risk,
            None if record is None else record.complexity,
            None if record is None else record.objective,
            None if record is None else record.min_std,
            law,
        )

    def _share(self, event: Event) -> float:
        """Epochs done of all epochs; phases that end early make it jump ahead."""
        warm, dynamics, space = self.warm.epochs, self.plan.dynamics.epochs, self.plan.space.epochs
        done = event.epoch
        if event.cycles:
            done += warm + (event.cycle - 1) * (dynamics + space)
            done += dynamics if event.phase == self.plan.space.name else 0
        return done / (warm + self.plan.cycles * (dynamics + space))


def _within(value: Any, most: int, what: str) -> None:
    """A wrong count would let training go on without end."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{what} is {value!r:.40}")
