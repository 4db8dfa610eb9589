"""Masked prediction: the law of what lies elsewhere in an image."""

import numpy as np
import pytest
import torch

from benchmarks.patches import discover_spatial, patch_pairs
from sjepa.errors import ConfigError, DataError
from sjepa.metrics import r2
from sjepa.models import Transition


def shaded(n: int = 500, u: int = 24, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Images of a plane: brightness plus two slopes of different strength, all random."""
    rng = np.random.default_rng(seed)
    level, right, down = (
        rng.normal(size=(3, n, 1, 1)) * np.array([1.0, 0.06, 0.02])[:, None, None, None]
    )
    rows, columns = np.mgrid[:u, :u] - u / 2
    return level + right * columns + down * rows + noise * rng.normal(size=(n, u, u))


def test_patches_are_where_their_offset_says() -> None:
    rows, columns = np.mgrid[:10, :12]
    places = np.stack([100.0 * rows + columns] * 3)
    found = patch_pairs(places, 3, pairs=30)
    moved = found.target[:, 0, 0] - found.context[:, 0, 0]
    np.testing.assert_allclose(moved, 100 * 3 * found.offset[:, 1] + 3 * found.offset[:, 0])
    assert (found.offset != 0).any(1).all()


def test_the_law_of_a_plane_is_found_with_the_coefficients_that_geometry_gives() -> None:
    result = discover_spatial(shaded(noise=0.002), patch=6, delta=0.005, pairs=6)
    level, *slopes = result.law.terms
    assert [str(t) for _, t in slopes[0]] == ["z2"] and [str(t) for _, t in slopes[1]] == ["z3"]
    assert {str(t) for _, t in level} == {"z1", "right*z2", "down*z3"}
    assert result.r2 > 0.995 > 0.95 > result.copy_r2
    assert result.lines(3)[1:] == ["target z2 = z2", "target z3 = z3"]
    # A slope that raises a pixel by g for each column raises the mean of a patch by 6 g for each
    # patch side; how z1 and z2 measure mean and slope is read off the encoder itself.
    columns = np.broadcast_to(np.arange(6) - 2.5, (6, 6))
    zero, one, ramp = result.encoder(np.stack([np.zeros((6, 6)), np.ones((6, 6)), columns]))
    expected = 6 * (one - zero)[0] / (ramp - zero)[1]
    found = next(c for c, t in level if str(t) == "right*z2")
    assert found == pytest.approx(expected, rel=0.02)


def test_the_law_runs_as_a_direct_transition_with_the_place_as_side_information() -> None:
    images = shaded(noise=0.001)
    result = discover_spatial(images, patch=6, delta=0.005, pairs=6)
    pairs = patch_pairs(images, 6, pairs=3, seed=9)
    transition = Transition(result.law.torch().double(), dynamics="discrete")
    z = torch.tensor(result.encoder(pairs.context))
    with torch.no_grad():
        guess = transition(z, u=torch.tensor(pairs.offset))
    assert r2(guess, result.encoder(pairs.target)) > 0.99


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(DataError, match="smaller than images of 24 x 24"):
        discover_spatial(shaded(), patch=24)
    with pytest.raises(ConfigError, match="no order in time"):
        discover_spatial(shaded(), patch=6, head="slow")
    with pytest.raises(DataError, match="at least 5 images"):
        discover_spatial(shaded(3), patch=6)
    with pytest.raises(DataError, match="images are"):
        patch_pairs(np.zeros((4, 4)), 2)
