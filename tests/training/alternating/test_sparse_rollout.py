"""The hand-written gradient against automatic differentiation."""

from __future__ import annotations

import pytest
import torch

from sjepa.models import Correction, SparseLaw, Transition
from sjepa.symbolic import Library
from sjepa.training.alternating.sparse_rollout import applies_to, sparse_rollout


LIBRARIES = {
    "paper": Library.paper(["z1", "z2"]),
    "drag": Library.from_terms(["p", "sin(q)", "p*abs(p)"], ["q", "p"]),
    "one input": Library.from_terms(["1", "x", "exp(-0.5*x)", "tanh(x)"], ["x"]),
}


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
def test_states_and_gradients_are_those_of_the_plain_rollout(library: Library) -> None:
    rng = torch.Generator().manual_seed(0)
    d = len(library.inputs)
    law = SparseLaw(library, library.inputs, dtype=torch.float64)
    with torch.no_grad():
        law.coefficients.copy_(0.4 * torch.randn(law.coefficients.shape, generator=rng))
        law.threshold_(0.1)
    transition = Transition(law)
    assert applies_to(transition, None)
    z0 = torch.randn(3, 4, d, generator=rng, dtype=torch.float64, requires_grad=True)
    dt = 0.1 * torch.rand(3, 4, 7, generator=rng, dtype=torch.float64)
    weight = torch.randn(3, 4, 8, d, generator=rng, dtype=torch.float64)
    plain, quick = transition.rollout(z0, dt), sparse_rollout(law, z0, dt)
    torch.testing.assert_close(quick, plain)
    inputs = (z0, law.coefficients)
    expected = torch.autograd.grad((plain * weight).sum(), inputs)
    found = torch.autograd.grad((quick * weight).sum(), inputs)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_anything_it_cannot_do_is_left_to_the_transition() -> None:
    law = SparseLaw(LIBRARIES["paper"], ("z1", "z2"))
    assert not applies_to(Transition(law, integrator="rk4"), None)
    assert not applies_to(Transition(law, Correction(2)), None)
    assert not applies_to(Transition(law), torch.zeros(3, 1))
