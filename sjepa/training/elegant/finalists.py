"""The finalists: promising encoders polished, their laws lengthened and shortened, then scored."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from torch import nn

from sjepa.models.encoders import LinearEncoder
from sjepa.symbolic.front import EXACT
from sjepa.training.elegant.conclude import found_with
from sjepa.training.elegant.context import SearchContext
from sjepa.training.elegant.extend import proposals
from sjepa.training.elegant.growth import grow, noise_floor
from sjepa.training.elegant.halving import Survivor
from sjepa.training.elegant.polish import Task, linear_head, polish, unit_scale
from sjepa.training.elegant.reduce import reductions
from sjepa.training.elegant.result import Found
from sjepa.training.elegant.select import NOISE_MULTIPLE
from sjepa.training.elegant.structures import Structure


# Encoders are grown where the best linear one leaves more than this share unexplained.
GROW_ABOVE = 2e-3


def finalists(setting: SearchContext, heads: list[tuple[LinearEncoder, Task]]) -> list[Found]:
    """Shorten the best laws, grow encoders that need it, and score them all."""
    heads = heads + _shortened(setting, heads)
    risks = [_risk(setting, *pair) for pair in heads]
    floors = [noise_floor(h, t, setting.validation) for h, t in heads]
    lacking = min(risks) > max(GROW_ABOVE, 2 * NOISE_MULTIPLE * min(floors))
    found = []
    for i, (head, task) in enumerate(heads):
        best_head: nn.Module = head
        if setting.budget.grow and lacking and risks[i] <= sorted(risks)[:4][-1]:
            setting.tell(f"growing {task.structure.names(setting.library)}", 0.8)
            best_head, _ = grow(head, task, setting.train, setting.validation, setting.seed)
        found.append(found_with(setting, task, best_head))
    return found


def polished(
    setting: SearchContext, runners: Sequence[Survivor]
) -> list[tuple[LinearEncoder, Task]]:
    """The best runner of each structure, polished."""
    best: dict[Structure, Survivor] = {}
    for runner in runners:
        best.setdefault(runner.structure, runner)
    chosen = list(best.values())[: setting.budget.finalists]
    heads = []
    for i, runner in enumerate(chosen):
        missing = setting.whitening.rank - len(runner.readout)
        readout = nn.functional.pad(runner.readout, (0, 0, 0, missing))
        task, head = setting.task(runner.structure), linear_head(readout)
        heads.append(_improved(setting, head, task))
        share = 0.5 + 0.25 * (i + 1) / len(chosen)
        setting.tell(f"polished {runner.structure.names(setting.library)}", share)
    return heads


def lengthened(
    setting: SearchContext, heads: Sequence[tuple[LinearEncoder, Task]], rounds: int = 2
) -> list[tuple[LinearEncoder, Task]]:
    """Structures that an exact search proposes in the coordinates that fit best so far.

    Nothing is proposed once noise explains what is left.
    """
    known = {task.structure for _, task in heads}
    longer: list[tuple[LinearEncoder, Task]] = []
    for _ in range(rounds):
        head, task = min([*heads, *longer], key=lambda pair: _risk(setting, *pair))
        floor = noise_floor(head, task, setting.validation)
        if _risk(setting, head, task) <= max(2 * NOISE_MULTIPLE * floor, EXACT):
            break
        fresh = [s for s in proposals(head, task, setting.train) if s not in known]
        for found in fresh:
            known.add(found)
            longer.append(_improved(setting, deepcopy(head), setting.task(found)))
            setting.tell(f"lengthened to {found.names(setting.library)}", 0.76)
        if not fresh:
            break
    return longer


def _improved(
    setting: SearchContext, head: LinearEncoder, task: Task
) -> tuple[LinearEncoder, Task]:
    polish(head, task, setting.train, setting.budget.polish, setting.stride)
    unit_scale(head, task, setting.train)
    return head, task


def _risk(setting: SearchContext, head: nn.Module, task: Task) -> float:
    return float(task.risk(head, setting.train, setting.validation).risk)


def _shortened(
    setting: SearchContext, heads: Sequence[tuple[LinearEncoder, Task]], most: int = 2
) -> list[tuple[LinearEncoder, Task]]:
    """Shorter structures from the encoders that fit best."""
    risks = [_risk(setting, *pair) for pair in heads]
    shorter = []
    for i in sorted(range(len(heads)), key=lambda i: risks[i])[:most]:
        for head, task in reductions(
            *heads[i], setting.train, setting.budget.polish, setting.stride
        ):
            setting.tell(f"shortened to {task.structure.names(setting.library)}", 0.77)
            unit_scale(head, task, setting.train)
            shorter.append((head, task))
    return shorter
