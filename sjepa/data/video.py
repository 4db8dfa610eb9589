"""Frames from arrays, folders of pictures and video files, as trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sjepa.data._array_files import natural
from sjepa.data._check import Array
from sjepa.data.trajectories import Trajectories
from sjepa.errors import DataError, MissingDependency
from sjepa.storage import write_whole


VIDEO_ENDINGS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".gif")
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
# Brightness as the eye sees it (ITU-R BT.601).
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def video(
    x: Any,
    t: Any,
    *,
    state: Any = None,
    grey: bool = False,
    size: int | tuple[int, int] | None = None,
) -> Trajectories:
    """Videos given as arrays (T, H, W) or (T, H, W, C), one or a list of them.

    Bytes are divided by 255. Channels move to the front, where networks expect them; a single one
    is dropped.

    Parameters
    ----------
    t, state : as in :class:`Trajectories`
    grey : bool
        Colours to brightness.
    size : int or (height, width), optional
        Resize, averaging over what a new pixel covers.
    """
    videos = x if isinstance(x, list | tuple) else [x]
    arrays = [
        prepared([np.asarray(one)], grey, size, f"trajectory {i}") for i, one in enumerate(videos)
    ]
    return Trajectories(arrays, t, state=state)


def read_video(
    path: str | Path,
    *,
    step: float | None = None,
    grey: bool = True,
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
    grey, size : as in :func:`video`
        One value a pixel unless ``grey=False``.
    every : int
        Keep every k-th frame.
    """
    path = Path(path)
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
        frames, own = _opened(source)
        seconds = step if step is not None else own
        if seconds is None:
            raise DataError(f"{source}: it does not say how much time is between frames; give it.")
        x.append(prepared(_every(frames, every, source), grey, size, str(source)))
        steps.append(seconds * every)
    times = [h * np.arange(len(a)) for h, a in zip(steps, x, strict=True)]
    return Trajectories(x, times)


def videos_of(path: Path) -> list[Path]:
    """The videos at a path: itself, or what a folder holds."""
    if path.is_file():
        return [path] if path.suffix.lower() in VIDEO_ENDINGS else []
    if not path.is_dir():
        return []
    inside = sorted(path.iterdir(), key=natural)
    if any(p.suffix.lower() in PICTURE_ENDINGS for p in inside):
        return [path]
    return [one for p in inside if not p.name.startswith(".") for one in videos_of(p)]


def prepared(
    parts: Iterable[Array], grey: bool, size: int | tuple[int, int] | None, where: str
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
            bright = bright @ _LUMA if grey and bright.shape[-1] == 3 else np.moveaxis(bright, 3, 1)
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


def _every(frames: Iterator[Array], every: int, source: Path) -> Iterator[Array]:
    """One frame at a time as a stack of one; broken files say which frame."""
    number = -1
    try:
        for number, frame in enumerate(frames):
            if number % every == 0:
                yield frame[None]
    except DataError:
        raise
    except Exception as error:  # each decoder has its own words for a broken file
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"{source}: cannot be read after frame {number}. {reason}") from error
    if number < 0:
        raise DataError(f"{source}: there is no frame in it.")


def _opened(source: Path) -> tuple[Iterator[Array], float | None]:
    """Frames (H, W) or (H, W, C), and the time between them if the file says."""
    iio = _imageio()
    if source.is_dir():
        pictures = [p for p in sorted(source.iterdir(), key=natural) if _is_picture(p)]
        return (iio.imread(p, plugin="pillow") for p in pictures), None
    pillow = source.suffix.lower() == ".gif"
    plugin = "pillow" if pillow else "pyav"
    options = {"mode": "RGB"} if pillow else {}
    try:
        about = iio.immeta(source, plugin=plugin, exclude_applied=False)
    except ImportError as error:
        raise MissingDependency("av reads videos. Fix: pip install 'sjepa[video]'.") from error
    except Exception as error:  # as above
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"{source}: cannot be read as a video. {reason}") from error
    rate = about.get("fps")
    seconds = 1 / float(rate) if rate else float(about.get("duration", 0)) / 1000 if pillow else 0.0
    return iio.imiter(source, plugin=plugin, **options), seconds or None


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURE_ENDINGS and not path.name.startswith(".")


def _imageio() -> Any:
    try:
        import imageio.v3 as iio
    except ImportError as error:
        raise MissingDependency(
            "imageio reads videos and pictures. Fix: pip install 'sjepa[video]'."
        ) from error
    return iio


def write_video(frames: Sequence[Array] | Array, path: str | Path, step: float) -> Path:
    """Write frames (T, H, W) or (T, C, H, W) between 0 and 1 as a gif or mp4."""
    path = Path(path)
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise DataError(f"{path}: videos are written as .gif or .mp4.")
    iio = _imageio()
    array = np.asarray(frames)
    if array.ndim == 4:
        array = np.moveaxis(array, 1, -1)
    grey = (255 * np.clip(array, 0, 1)).round().astype(np.uint8)
    if grey.ndim == 3:
        grey = np.repeat(grey[..., None], 3, axis=-1)
    if path.suffix.lower() == ".gif":
        options = {"plugin": "pillow", "duration": 1000 * step, "loop": 0}
    else:
        options = {"plugin": "pyav", "codec": "libx264", "fps": round(1 / step)}
    write_whole(path, iio.imwrite("<bytes>", grey, extension=path.suffix.lower(), **options))
    return path
