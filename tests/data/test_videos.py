"""Rendered videos, video files, histories and other views of frames."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sjepa.data import (
    FrameAugmentation,
    Trajectories,
    read,
    read_video,
    rendered,
    video,
    with_history,
    write_video,
)
from sjepa.data.synthetic.videos import RENDERINGS
from sjepa.errors import ConfigError, DataError


def center(frame: np.ndarray) -> np.ndarray:
    """Center of mass of a frame, in the units of the window."""
    axis = np.linspace(-1.5, 1.5, len(frame))
    weights = frame / frame.sum()
    return np.array([(weights.sum(0) * axis).sum(), (weights.sum(1) * -axis).sum()])


def test_the_bob_hangs_where_the_state_says() -> None:
    data = rendered("pendulum", 3, trajectories=3, length=20)
    for x, s in zip(data.x, data.state or (), strict=True):
        places = np.array([center(f) for f in x])
        true = np.stack([np.sin(s[:, 0]), -np.cos(s[:, 0])], axis=1)
        # The window cuts a little off the blob, far less than a pixel (3 / 31).
        np.testing.assert_allclose(places, true, atol=0.01)


@pytest.mark.parametrize(
    ("name", "energy"),
    [
        ("pendulum", lambda s: s[..., 1] ** 2 / 2 - np.cos(s[..., 0])),
        ("spring_mass", lambda s: s[..., 1] ** 2 / 2 + s[..., 0] ** 2),
    ],
)
def test_every_machine_keeps_its_energy_and_its_velocities_are_slopes(
    name: str, energy: object
) -> None:
    data = rendered(name, 1, trajectories=5, length=60, step=0.02, size=4)
    states = np.stack(data.state or ())
    kept = energy(states)  # type: ignore[operator]
    np.testing.assert_allclose(kept, kept[:, :1] * np.ones_like(kept), rtol=1e-6, atol=1e-6)
    half = states.shape[-1] // 2
    slope = (states[:, 2:, :half] - states[:, :-2, :half]) / 0.04
    error = np.abs(slope - states[:, 1:-1, half:]).max(-1)
    # Differences err by step² / 6 times a third derivative of order ten.
    assert np.quantile(error, 0.9) < 2e-3


def test_videos_come_from_their_seed_and_noise_changes_no_motion() -> None:
    for name in RENDERINGS:
        one, two = (rendered(name, 5, trajectories=2, length=5, size=8, noise=0.1) for _ in "ab")
        np.testing.assert_array_equal(one.x[1], two.x[1])
        clean = rendered(name, 5, trajectories=2, length=5, size=8)
        np.testing.assert_array_equal(clean.state, one.state)
        assert 0.05 < (one.x[0] - clean.x[0]).std() < 0.15
    with pytest.raises(DataError, match="Did you mean 'pendulum'"):
        rendered("pendelum")
    with pytest.raises(DataError, match="positive step"):
        rendered("pendulum", step=0.0)


@pytest.mark.parametrize("ending", [".gif", ".mp4"])
def test_a_video_file_gives_its_frames_and_times_back(tmp_path: Path, ending: str) -> None:
    video = rendered("pendulum", trajectories=1, length=12, size=32).x[0]
    path = write_video(video, tmp_path / f"video{ending}", step=0.1)
    back = read(path)
    np.testing.assert_allclose(back.t[0], 0.1 * np.arange(12), atol=1e-9)
    assert back.obs_shape == (32, 32)
    # mp4 loses detail; where the mass is must survive.
    error = [np.abs(center(a) - center(b)).max() for a, b in zip(back.x[0], video, strict=True)]
    assert max(error) < 0.15 and np.abs(back.x[0] - video).mean() < 0.03
    small = read_video(path, size=(8, 16), gray=False, every=3)
    assert small.obs_shape == (3, 8, 16) and len(small.t[0]) == 4
    assert small.t[0][1] == pytest.approx(0.3)


def test_a_folder_of_pictures_is_one_video_in_natural_order(tmp_path: Path) -> None:
    from PIL import Image

    for run in ("run2", "run10"):
        (tmp_path / run).mkdir()
        for k in (1, 2, 10):
            gray = np.full((4, 6), 10 * k + (run == "run10"), np.uint8)
            Image.fromarray(gray).save(tmp_path / run / f"shot{k}.png")
    data = read_video(tmp_path, step=0.5)
    assert len(data) == 2 and data.obs_shape == (4, 6)
    np.testing.assert_allclose(255 * data.x[0][:, 0, 0], [10, 20, 100], atol=1e-4)
    np.testing.assert_allclose(255 * data.x[1][:, 0, 0], [11, 21, 101], atol=1e-4)
    np.testing.assert_allclose(data.t[0], [0, 0.5, 1.0])
    with pytest.raises(DataError, match="how much time is between frames"):
        read(tmp_path)
    with pytest.raises(DataError, match="no column 'seconds'"):
        read(tmp_path, time="seconds")


def test_a_picture_beside_tables_does_not_make_a_video(tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "plot.png")
    (tmp_path / "a.csv").write_text("t,x\n0,1\n1,2\n2,3\n")
    assert read(tmp_path).names == ("x",)


def test_arrays_get_channels_first_and_bytes_become_shares() -> None:
    color = np.zeros((5, 4, 6, 3), np.uint8)
    color[..., 1] = 255
    data = video([color, color], 0.1)
    assert data.obs_shape == (3, 4, 6) and data.x[0][0, 1].max() == 1.0
    gray = video(color, 0.1, gray=True)
    assert gray.obs_shape == (4, 6)
    np.testing.assert_allclose(gray.x[0], 0.587, atol=1e-6)
    assert video(np.zeros((5, 4, 6)), 0.1).obs_shape == (4, 6)
    with pytest.raises(DataError, match="1, 3 or 4 channels, got .5, 3, 4, 6."):
        video(np.zeros((5, 3, 4, 6)), 0.1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("video.mp4", b"not a video", "cannot be read as a video"),
        ("video.gif", b"GIF89a", "cannot be read"),
        ("video.txt", b"hello", "no video"),
    ],
)
def test_broken_videos_are_refused_by_name(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: .*{message}"):
        read_video(tmp_path / name)
    with pytest.raises(DataError, match="no such file"):
        read_video(tmp_path / "absent.mp4")


def test_a_history_holds_the_last_observations_without_copying() -> None:
    x = [np.arange(12.0).reshape(6, 2), np.arange(10.0).reshape(5, 2)]
    data = with_history(Trajectories(x, 0.1, state=[a[:, :1] for a in x]), 3)
    assert data.obs_shape == (3, 2) and data.lengths.tolist() == [4, 3]
    np.testing.assert_array_equal(data.x[0][1], x[0][1:4])
    np.testing.assert_array_equal((data.state or [])[0][:, 0], x[0][2:, 0])
    assert data.t[0][0] == pytest.approx(0.2)
    assert np.shares_memory(data.x[0], x[0])
    with pytest.raises(DataError, match="does not fit into a trajectory of 5"):
        with_history(Trajectories(x, 0.1), 5)


def test_augmentation_shifts_whole_videos_and_leaves_them_otherwise_alone() -> None:
    video = torch.tensor(np.stack(rendered("pendulum", trajectories=6, length=4, size=24).x))
    generator = torch.Generator().manual_seed(0)
    moved = FrameAugmentation(noise=0.0, shift=3)(video, generator)
    shifts = [
        [center(b.numpy()) - center(a.numpy()) for a, b in zip(x, y, strict=True)]
        for x, y in zip(video, moved, strict=True)
    ]
    pixel = 3.0 / 23
    steps = np.array(shifts) / pixel
    # Blobs near the border lose a little, the others move by whole pixels, all frames alike.
    assert np.abs(np.median(steps, axis=1) - np.median(steps, axis=1).round()).max() < 0.2
    assert np.abs(steps).max() < 3.2 and np.ptp(np.median(steps, axis=1), axis=0).min() >= 1
    brighter = FrameAugmentation(noise=0.0, brightness=0.3)(video, generator)
    ratio = brighter.amax((1, 2, 3)) / video.amax((1, 2, 3))
    assert ratio.min() >= 0.7 and ratio.max() <= 1.3 and ratio.std() > 0.05
    noisy = FrameAugmentation(noise=0.05)(video, generator) - video
    assert noisy.std() == pytest.approx(0.05, rel=0.05)
    with pytest.raises(ConfigError, match="brightness lies in"):
        FrameAugmentation(brightness=2.0)
