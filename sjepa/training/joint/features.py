"""Library terms of many restarts at once, each evaluated only where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sjepa.symbolic import Law, Library
from sjepa.training.joint.structures import Support


class ActiveFeatures:
    """The terms of R supports, evaluated on states (R, B, T, inputs).

    A term that a restart uses in several equations is computed once; terms it does not use
    are not computed at all.
    """

    def __init__(self, library: Library, supports: Sequence[Support]) -> None:
        self.restarts, self.outputs = len(supports), len(supports[0])
        self.modules = _modules(library)
        used: dict[int, list[int]] = {}
        for r, support in enumerate(supports):
            for p in sorted({p for row in support for p in row}):
                used.setdefault(p, []).append(r)
        self.users = {p: torch.tensor(used[p]) for p in sorted(used)}
        slot: dict[tuple[int, int], int] = {}
        for p, users in self.users.items():
            for r in users.tolist():
                slot[r, p] = len(slot)
        width = max(len(row) for support in supports for row in support)
        # (R, d, S): the slot of each term of each equation, and whether there is one.
        self.slots = torch.zeros(self.restarts, self.outputs, width, dtype=torch.long)
        self.active = torch.zeros(self.restarts, self.outputs, width, dtype=torch.bool)
        for r, support in enumerate(supports):
            for j, row in enumerate(support):
                for s, p in enumerate(row):
                    self.slots[r, j, s] = slot[r, p]
                    self.active[r, j, s] = True

    def evaluate(self, z: Tensor) -> Tensor:
        """(R, B, T, inputs) -> (slots, B, T)."""
        whole = torch.arange(self.restarts)
        parts = []
        for p, users in self.users.items():
            own = z if len(users) == len(whole) else z[users]
            parts.append(self.modules[p](own)[..., 0])
        return torch.cat(parts)

    def arranged(self, values: Tensor) -> Tensor:
        """(slots, ...) -> (R, d, S, ...), zero where an equation has fewer terms."""
        picked = values[self.slots]
        if bool(self.active.all()):
            return picked
        return picked * self.active.reshape(*self.active.shape, *[1] * (values.ndim - 1))


_BUILT: WeakKeyDictionary[Library, list[nn.Module]] = WeakKeyDictionary()


def _modules(library: Library) -> list[nn.Module]:
    """One module for each term, built once for a library."""
    if library not in _BUILT:
        _BUILT[library] = [
            Law([t], library.inputs, ["f"], "discrete", canonical=False).torch(trainable=False)
            for t in library.terms
        ]
    return _BUILT[library]
