"""Frames from arrays, folders of pictures and video files, as trajectories.

Files are decoded as what their ending says and as nothing else: a playlist or a call to the network
under the name of a video is not followed, and no picture starts an interpreter of PostScript.
Pixels are counted before they are decoded.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageSequence

from sjepa.data._check import Array
from sjepa.data._folders import check_file, entries, files_in
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError, MissingDependency
from sjepa.settings import path_of
from sjepa.storage import write_whole


# FFmpeg's demuxer for each ending; those of the same family read each other's files.
_DEMUXERS = {".mp4": "mov", ".mov": "mov", ".avi": "avi", ".mkv": "matroska", ".webm": "matroska"}
_FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "GIF")
VIDEO_ENDINGS = (*_DEMUXERS, ".gif")
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
# A frame has at most the pixels of 8K video.
MAX_FRAME = 2**25
# A video has at most this many pixels, and so many more for each byte of its file: videos have a
# hundred, renderings of a dot on black some hundreds, and bombs up to a million.
MAX_PIXELS, PER_BYTE = 2**26, 1_000
# What is kept of one video: 1 GiB as floating-point numbers.
MAX_KEPT = 2**28
# Brightness as the eye sees it (ITU-R BT.601).
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def video(
    x: Any,
    t: Any,
    *,
    state: Any = None,
    gray: bool = False,
    size: int | tuple[int, int] | None = None,
) -> Trajectories:
    """Videos given as arrays (T, H, W) or (T, H, W, C), one or a list of them.

    Bytes are divided by 255. Channels move to the front, where networks expect them; a single one
    is dropped.

    Parameters
    ----------
    t, state : as in :class:`Trajectories`
    gray : bool
        Colors to brightness.
    size : int or (height, width), optional
        Resize, averaging over what a new pixel covers.
    """
    videos = x if isinstance(x, list | tuple) else [x]
    arrays = [
        prepared([np.asarray(frames)], gray, size, f"trajectory {i}")
        for i, frames in enumerate(videos)
    ]
    return Trajectories(arrays, t, state=state)


def read_video(
    path: str | Path,
    *,
    step: float | None = None,
    gray: bool = True,
    size: int | tuple[int, int] | None = None,
    every: int = 1,
) -> Trajectories:
    """Read a video, a folder of pictures, or a folder of such videos and folders.

    Pictures are taken in the order of their names, 2 before 10; all pictures of a folder are one
    video. Files are data: nothing in them is executed.

    Parameters
    ----------
    step : float, optional
        Time between frames; by default what the file says. Pictures have none: give it.
    gray, size : as in :func:`video`
        One value a pixel unless ``gray=False``.
    every : int
        Keep every k-th frame.
    """
    path = path_of(path, "path")
    if every < 1:
        raise DataError(f"every must be at least 1, got {every}.")
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder; check the path.")
    sources = videos_of(path)
    if not sources:
        raise DataError(
            f"{path}: no video ({', '.join(VIDEO_ENDINGS)}) and no folder of pictures "
            f"({', '.join(PICTURE_ENDINGS)})."
        )
    x, steps = [], []
    for source in sources:
        with _refusing(source), ExitStack() as stack:
            frames, recorded = _opened(source, stack)
            seconds = step if step is not None else recorded
            if seconds is None:
                raise DataError("it does not say how much time is between frames; give it.")
            chosen = islice(frames, 0, None, every)
            stacks = _within_memory((f[None] for f in chosen), 1 if gray else 3, size)
            x.append(prepared(stacks, gray, size, "the video"))
        steps.append(seconds * every)
    times = [h * np.arange(len(a)) for h, a in zip(steps, x, strict=True)]
    return Trajectories(x, times)


def videos_of(path: Path) -> list[Path]:
    """The videos at a path: itself, or what a folder holds."""
    found, todo = [], [path]
    while todo:  # folders can be nested deeper than calls of functions
        place = todo.pop()
        if not place.is_dir():
            found += [place] if place.suffix.lower() in VIDEO_ENDINGS and place.is_file() else []
        elif files_in(place, PICTURE_ENDINGS):
            found.append(place)
        else:
            files_in(place, VIDEO_ENDINGS)
            todo += reversed(entries(place))
    return found


def prepared(
    parts: Iterable[Array], gray: bool, size: int | tuple[int, int] | None, where: str
) -> Array:
    """Stacks (n, H, W) or (n, H, W, C) as one array (T, H, W) or (T, C, H, W) from 0 to 1."""
    done = []
    for part in parts:
        if part.ndim not in (3, 4) or (part.ndim == 4 and part.shape[-1] not in (1, 3, 4)):
            raise DataError(
                f"{where}: frames are (T, H, W) or (T, H, W, C) with 1, 3 or 4 channels, "
                f"got {part.shape}."
            )
        bright = part.astype(np.float32)
        if part.dtype.kind in "ub":
            bright /= 1 if part.dtype.kind == "b" else np.iinfo(part.dtype).max
        if bright.ndim == 4:
            bright = bright[..., :3]  # without transparency
            bright = bright @ _LUMA if gray and bright.shape[-1] == 3 else np.moveaxis(bright, 3, 1)
            bright = bright[:, 0] if bright.ndim == 4 and bright.shape[1] == 1 else bright
        done.append(_resized(bright, size))
    shapes = {a.shape[1:] for a in done}
    if len(shapes) != 1:
        raise DataError(f"{where}: frames have different shapes, {sorted(shapes)}; give a size.")
    return np.concatenate(done)


def _resized(frames: Array, size: int | tuple[int, int] | None) -> Array:
    if size is None:
        return frames
    import torch
    from torch.nn import functional

    side = (size, size) if isinstance(size, int) else tuple(size)
    tensor = torch.as_tensor(np.ascontiguousarray(frames))
    batch = tensor[:, None] if tensor.ndim == 3 else tensor
    small = functional.interpolate(
        batch, side, mode="bilinear", antialias=True, align_corners=False
    )
    return (small[:, 0] if tensor.ndim == 3 else small).numpy()


@contextmanager
def _refusing(source: Path) -> Iterator[None]:
    """Whatever is wrong with a file is said in one line with its name."""
    try:
        yield
    except DataError as error:
        text = str(error)
        raise DataError(text if text.startswith(str(source)) else f"{source}: {text}") from error
    except MissingDependency:
        raise
    except Exception as error:  # each decoder has its own words for a broken file
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"{source}: cannot be read as a video or picture. {reason}") from error


def _within_memory(
    stacks: Iterable[Array], channels: int, size: int | tuple[int, int] | None
) -> Iterator[Array]:
    """The stacks, as long as what will be kept of them fits."""
    kept = 0
    for stack in stacks:
        sides = stack.shape[1:3] if size is None else np.broadcast_to(size, 2)
        kept += channels * int(np.prod(sides))
        if kept > MAX_KEPT:
            raise DataError(f"over {MAX_KEPT} values to keep; give a smaller size, or every=k.")
        yield stack
    if not kept:
        raise DataError("there is no frame in it.")


class _Pixels:
    """Counts pixels before they are decoded; a small file has no right to many."""

    def __init__(self, bytes_: int) -> None:
        self.left = MAX_PIXELS + PER_BYTE * bytes_

    def take(self, width: int, height: int, frames: int = 1) -> None:
        self.left -= width * height * frames
        if width * height > MAX_FRAME or self.left < 0:
            raise DataError(
                f"{frames} frames of {width} x {height} pixels are more than such a file can have."
            )


def _opened(source: Path, stack: ExitStack) -> tuple[Iterator[Array], float | None]:
    """Frames (H, W) or (H, W, C), and the time between them if the file says."""
    if source.is_dir():
        pictures = files_in(source, PICTURE_ENDINGS)
        pixels = _Pixels(sum(map(check_file, pictures)))
        return (_picture(p, pixels) for p in pictures), None
    pixels = _Pixels(check_file(source))
    file = stack.enter_context(source.open("rb"))
    if source.suffix.lower() != ".gif":
        return _demuxed(file, _DEMUXERS[source.suffix.lower()], pixels, stack)
    image = stack.enter_context(_image(file))
    width, height = image.size
    pixels.take(width, height, getattr(image, "n_frames", 1))
    seconds = float(image.info.get("duration", 0)) / 1000
    return (np.asarray(f.convert("RGB")) for f in ImageSequence.Iterator(image)), seconds or None


def _demuxed(
    file: BinaryIO, demuxer: str, pixels: _Pixels, stack: ExitStack
) -> tuple[Iterator[Array], float | None]:
    try:
        import av
    except ImportError as error:
        raise MissingDependency("av reads videos. Fix: pip install 'sjepa[video]'.") from error
    # From an open file, and with no protocol by which FFmpeg could open another one.
    options = {"protocol_whitelist": "none"}
    container: Any = av.open(file, format=demuxer, container_options=options)
    stack.enter_context(container)
    if not container.streams.video:
        raise DataError("there is no video in it.")
    stream = container.streams.video[0]
    pixels.take(stream.width, stream.height, max(stream.frames, 1))
    # The frames say their own size, too, and need not keep to that of the file.
    stream.codec_context.options = {"max_pixels": str(MAX_FRAME)}

    def frames() -> Iterator[Array]:
        for number, frame in enumerate(container.decode(stream)):
            if number >= stream.frames:
                pixels.take(frame.width, frame.height)
            yield frame.to_ndarray(format="rgb24")

    rate = stream.guessed_rate or stream.average_rate
    return frames(), 1 / float(rate) if rate else None


def _picture(path: Path, pixels: _Pixels) -> Array:
    with _refusing(path), path.open("rb") as file, _image(file) as image:
        pixels.take(*image.size)
        if image.mode == "I":  # what older releases of Pillow make of 16 bits
            image = image.convert("I;16")
        elif image.mode not in ("1", "L", "I;16", "F", "RGB", "RGBA"):
            image = image.convert("L" if image.mode == "LA" else "RGB")
        return np.asarray(image)


def _image(file: BinaryIO) -> Any:
    """A picture whose header was read, of a kind that is pixels and nothing else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        return Image.open(file, formats=_FORMATS)


def _imageio() -> Any:
    try:
        import imageio.v3 as iio
    except ImportError as error:
        raise MissingDependency(
            "imageio writes videos. Fix: pip install 'sjepa[video]'."
        ) from error
    return iio


def write_video(frames: Sequence[Array] | Array, path: str | Path, step: float) -> Path:
    """Write frames (T, H, W) or (T, C, H, W) between 0 and 1 as a gif or mp4."""
    path = path_of(path, "path")
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise DataError(f"{path}: videos are written as .gif or .mp4.")
    iio = _imageio()
    array = np.asarray(frames)
    if array.ndim == 4:
        array = np.moveaxis(array, 1, -1)
    gray = (255 * np.clip(array, 0, 1)).round().astype(np.uint8)
    if gray.ndim == 3:
        gray = np.repeat(gray[..., None], 3, axis=-1)
    if path.suffix.lower() == ".gif":
        options = {"plugin": "pillow", "duration": 1000 * step, "loop": 0}
    else:
        options = {"plugin": "pyav", "codec": "libx264", "fps": round(1 / step)}
    write_whole(path, iio.imwrite("<bytes>", gray, extension=path.suffix.lower(), **options))
    return path
