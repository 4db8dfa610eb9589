import numpy as np
import torch
from scipy.ndimage import gaussian_filter1d

from sjepa.data import rendered
from sjepa.models import Blur, choose_blur


def test_blur_is_the_gaussian_of_scipy_away_from_the_border() -> None:
    x = np.random.default_rng(0).random((3, 2, 40, 50))
    found = Blur((2, 40, 50), 2.0)(torch.tensor(x)).numpy()
    expected = gaussian_filter1d(
        gaussian_filter1d(x, 2.0, axis=-1, truncate=8), 2.0, axis=-2, truncate=8
    )
    np.testing.assert_allclose(found[..., 10:-10, 10:-10], expected[..., 10:-10, 10:-10], atol=1e-6)


def test_blur_thins_pixels_and_keeps_brightness() -> None:
    blur = Blur((32, 48), 4.0)
    assert blur(torch.ones(5, 32, 48)).shape == (5, 11, 16)
    torch.testing.assert_close(blur(torch.ones(2, 32, 48)), torch.ones(2, 11, 16))


def test_only_video_of_sharp_things_are_blurred() -> None:
    wide, sharp = (rendered("pendulum", trajectories=12, length=60, width=w).x for w in (1.0, 0.35))
    assert choose_blur(wide) is None
    blur = choose_blur(sharp)
    assert blur is not None and 1.0 < blur.width < 6.0
    assert choose_blur([np.random.default_rng(0).random((50, 300))]) is None  # no frames
