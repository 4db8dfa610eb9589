"""One law beside another on the same held-out data."""

import numpy as np
import torch

from sjepa.data import Trajectories
from sjepa.metrics.shortcuts import CollapseChecks
from sjepa.symbolic import Library
from sjepa.training.joint.budget import SearchBudget
from sjepa.training.joint.context import prepare
from sjepa.training.joint.observed import Observed
from sjepa.training.joint.paired_errors import joint_residual, standard_errors
from sjepa.training.joint.refinement import linear_head
from sjepa.training.joint.result import JointCandidate
from sjepa.training.joint.structures import structure
from tests.training.joint.shortcut_data import oscillator_states


LIBRARY = Library.from_terms(["z1", "z2"], ["z1", "z2"])


def test_skewed_coordinates_leave_as_much_of_all_changes_though_not_of_each() -> None:
    s = oscillator_states()
    noise = 0.1 * np.random.default_rng(0).normal(size=s.shape)
    data = Trajectories(list(s + noise), 0.07)
    arguments = SearchBudget(rollout=0), None, CollapseChecks(), 2, None
    context = prepare(data, LIBRARY, 2, 1, 0, *arguments)
    task = context.task(structure(LIBRARY, ((0, 1), (0, 1))))
    straight = torch.linalg.inv(context.whitening.matrix.double())
    skew = torch.tensor([[1.0, 1.0], [0.0, 0.3]], dtype=torch.float64)
    shares, losses, matrix = [], [], torch.eye(2)
    for readout in (straight, straight @ skew):
        head = linear_head(readout)
        fit = task.risk(head, context.train, context.validation)
        losses.append(float(fit.risk))
        # The same flow in both: its matrix goes along with the coordinates.
        first = not shares
        matrix = fit.coefficients[0] if first else skew.T @ matrix @ torch.linalg.inv(skew.T)
        shares.append(joint_residual(head, task, matrix, context.validation))
    np.testing.assert_allclose(shares[1], shares[0], rtol=1e-6)
    assert abs(losses[1] / losses[0] - 1) > 0.01


def test_a_difference_is_measured_by_how_much_pieces_differ() -> None:
    """Scores are means over pieces of (base + 1, base), with and without noise of their own."""
    rng = np.random.default_rng(0)
    base, own = rng.normal(size=20) * 100, rng.normal(size=20)

    class Pieces(list[int]):
        def pick(self, rows: torch.Tensor) -> "Pieces":
            return Pieces(rows.tolist())

    one, best = object(), object()

    def score(found: object, holdout: Pieces) -> float:
        return float(np.mean([base[i] + (1 + own[i] if found is one else 0) for i in holdout]))

    found: tuple[JointCandidate, JointCandidate] = one, best  # type: ignore[assignment]
    holdout: Observed = Pieces(range(20))  # type: ignore[assignment]
    errors = standard_errors(score, *found, holdout)  # type: ignore[arg-type]
    expected = (1 + own.mean()) / (own.std(ddof=1) / np.sqrt(20))
    np.testing.assert_allclose(errors, expected, rtol=1e-9)
