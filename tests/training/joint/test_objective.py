"""The integral form: exact laws leave nothing, coefficients come out of it, scale is a gauge."""

import numpy as np
import pytest
import torch

from sjepa.data import Trajectories
from sjepa.symbolic import Library
from sjepa.training.joint.objective import ActiveFeatures, integral_fit
from sjepa.training.joint.whitened_trajectories import sampling_grid
from tests.training.joint.shortcut_data import pendulum_states


LIBRARY = Library.paper(["z1", "z2"])
PENDULUM = ((2,), (3,))  # z2; sin(z1)
OSCILLATOR = ((2,), (1,))
LONGER = ((2, 0), (3, 1))


@pytest.fixture(scope="module")
def pendulum() -> Trajectories:
    s = pendulum_states(30)
    return Trajectories(list(s), 0.07, state=list(s))


def fit(data: Trajectories, supports, scale=1.0, **options):
    z = torch.tensor(np.stack(data.x)) * torch.as_tensor(scale)
    z = z.expand(len(supports), *z.shape)
    return integral_fit(
        ActiveFeatures(LIBRARY, supports), z, sampling_grid(data), [5, 20, 40], **options
    )


def test_the_true_law_leaves_nothing_and_shows_its_coefficients(pendulum: Trajectories) -> None:
    found = fit(pendulum, [PENDULUM, OSCILLATOR, LONGER])
    # Quadrature of fourth order with steps of 0.07.
    assert found.risk[0] < 1e-9 and found.risk[2] < 1e-9 and found.risk[1] > 1e-3
    torch.testing.assert_close(
        found.coefficients[0, :, 0], torch.tensor([1.0, -1.0]).double(), rtol=1e-4, atol=0
    )
    assert found.coefficients[2, 0, 1].abs() < 1e-4 and found.coefficients[2, 1, 1].abs() < 1e-3


def test_restarts_do_not_see_each_other(pendulum: Trajectories) -> None:
    together = fit(pendulum, [PENDULUM, OSCILLATOR, LONGER])
    for i, support in enumerate([PENDULUM, OSCILLATOR, LONGER]):
        alone = fit(pendulum, [support])
        torch.testing.assert_close(alone.risk[0], together.risk[i], rtol=1e-6, atol=1e-12)


def test_the_scale_of_a_coordinate_that_stands_outside_functions_is_a_gauge(
    pendulum: Trajectories,
) -> None:
    plain, scaled = fit(pendulum, [OSCILLATOR]), fit(pendulum, [OSCILLATOR], [10.0, 0.01])
    torch.testing.assert_close(plain.risk, scaled.risk)


def test_the_gradient_is_that_of_the_projected_loss(pendulum: Trajectories) -> None:
    data = pendulum[:4]
    z0 = torch.tensor(np.stack(data.x))
    features, grid = ActiveFeatures(LIBRARY, [LONGER]), sampling_grid(data)

    def risk(angle: torch.Tensor) -> torch.Tensor:
        turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).reshape(2, 2)
        return integral_fit(features, (z0 @ turn)[None], grid, [5, 20]).risk[0]

    angle = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    risk(angle).backward()
    with torch.no_grad():
        h = torch.tensor(1e-5, dtype=torch.float64)
        numeric = (risk(angle + h) - risk(angle - h)) / (2 * h)
    # Central differences: second order in h; the ridge on the normal equations is 1e-10.
    torch.testing.assert_close(angle.grad, numeric, rtol=1e-5, atol=1e-9)


def test_second_order_needs_no_velocity(pendulum: Trajectories) -> None:
    library = Library.from_terms(["z1", "sin(z1)"], ["z1"])
    z = torch.tensor(np.stack(pendulum.x))[None, :, :, :1]
    found = integral_fit(
        ActiveFeatures(library, [((1,),)]), z, sampling_grid(pendulum), [5, 15], order=2
    )
    assert found.risk[0] < 1e-8
    assert found.coefficients[0, 0, 0] == pytest.approx(-1.0, rel=1e-4)


def test_padding_counts_for_nothing(pendulum: Trajectories) -> None:
    short = Trajectories([x[: 61 - 3 * (i % 3)] for i, x in enumerate(pendulum.x)], 0.07)
    z = torch.tensor(short.padded()["x"])[None]
    found = integral_fit(ActiveFeatures(LIBRARY, [PENDULUM]), z, sampling_grid(short), [5, 20])
    assert found.risk[0] < 1e-8
