"""A video strip of what the coordinates are read from, where observations are pictures."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Any

import numpy as np

from sjepa.data import Trajectories
from sjepa.errors import ConfigError, DataError
from sjepa.report.content import VideoFrames


# Enough to see the motion; pictures are shrunk to this many pixels a side.
MAX_FRAMES, SIDE = 40, 64
COLUMNS = 8
# Smaller arrays are readings, not pictures.
MIN_SIDE = 8


def video_of(videos: Trajectories, z: np.ndarray, first: int = 0) -> VideoFrames | None:
    """Frames of the first trajectory with its coordinates z (n, d); None where there are none.

    The first of the coordinates belong to frame `first`.
    """
    shape = videos.obs_shape
    color = len(shape) == 3 and shape[0] in (1, 3)
    if not (len(shape) == 2 or color) or min(shape[-2:]) < MIN_SIDE:
        return None
    rows = np.unique(np.linspace(0, len(z) - 1, MAX_FRAMES).astype(int))
    frames = np.asarray(videos.x[0][first + rows], dtype=float)
    if color:
        frames = np.moveaxis(frames, 1, -1)
        frames = frames[..., 0] if frames.shape[-1] == 1 else frames
    low, high = np.nanmin(frames), np.nanmax(frames)
    scaled = (255 * (frames - low) / max(high - low, 1e-300)).astype(np.uint8)
    name = videos.ids[0] if videos.ids else "Trajectory 1"
    return VideoFrames(scaled, videos.t[0][first + rows], z[rows], name)


def as_video(model: Any, video: Any) -> VideoFrames:
    """The video of a report as a user gives it: frames ``(T, *obs)``, or a Trajectories of them."""
    if not hasattr(model, "encoder_"):
        raise ConfigError("A video is for the report of a model, which reads frames.", "video")
    videos = video
    if not isinstance(video, Trajectories):
        videos = Trajectories([np.asarray(video)], model.step_, ids=["the video that was given"])
    z = model.coordinates(videos[:1])
    # With a history the first and last frames have no coordinates.
    first = int(np.searchsorted(videos.t[0], z.t[0][0] * (1 - 1e-12)))
    rows = slice(first, first + len(z.x[0]))
    seen = Trajectories(
        [videos.x[0][rows]], [videos.t[0][rows]], ids=(videos.ids or ())[:1] or None, gaps="keep"
    )
    if (found := video_of(seen, z.x[0])) is None:
        raise DataError(
            f"video: observations of shape {videos.obs_shape} are no pictures; give frames of at "
            f"least {MIN_SIDE} x {MIN_SIDE} pixels."
        )
    return found


def sheet(video: VideoFrames) -> tuple[str, int, int, int, int]:
    """All frames on one PNG as a data address, its columns and rows, and the size of a frame."""
    from PIL import Image

    height, width = video.frames.shape[1:3]
    ratio = min(1.0, SIDE / max(height, width))
    size = max(1, round(width * ratio)), max(1, round(height * ratio))
    columns = min(COLUMNS, len(video.frames))
    lines = -(-len(video.frames) // columns)
    mode = "RGB" if video.frames.ndim == 4 else "L"
    whole = Image.new(mode, (columns * size[0], lines * size[1]))
    for k, frame in enumerate(video.frames):
        picture = Image.fromarray(frame, mode).resize(size, Image.Resampling.BOX)
        whole.paste(picture, (k % columns * size[0], k // columns * size[1]))
    file = io.BytesIO()
    whole.save(file, "PNG", optimize=True)
    address = f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
    return address, columns, lines, *size
