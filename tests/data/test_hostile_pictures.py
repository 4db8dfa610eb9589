"""Pictures, videos and their folders that would hang, fill the memory, or reach for other files."""

from __future__ import annotations

import os
import signal
import socket
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sjepa.data import read, read_video, rendered, write_video
from sjepa.errors import DataError
from tests.runs.fuzzing import peak_memory


@pytest.fixture(autouse=True)
def ends_and_stays_small() -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TimeoutError("took more than a minute")

    before = signal.signal(signal.SIGALRM, stop)
    memory = peak_memory()
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert peak_memory() - memory < 1000, "a small file took more than 1 GB"


def png(width: int, height: int) -> bytes:
    """A black picture of one bit a pixel: a thousand pixels take a byte."""
    row = b"\0" * (1 + -(-width // 8))
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", data), (b"IEND", b"")]
    body = (
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


@pytest.mark.parametrize("sides", [(13_000, 13_000), (8_000, 8_000), (5_000, 5_000)])
def test_pixels_are_counted_before_they_are_decoded(tmp_path: Path, sides: tuple[int, int]) -> None:
    content = png(*sides)
    assert len(content) < 70_000
    for k in range(8):
        (tmp_path / f"{k}.png").write_bytes(content)
    with pytest.raises(DataError, match="pixels"):
        read_video(tmp_path, step=0.1, size=8)


def test_a_gif_of_many_frames_is_counted_before_it_is_decoded(tmp_path: Path) -> None:
    """Each frame paints one pixel of a large screen."""
    Image.new("P", (1, 1)).save(tmp_path / "a.gif")
    one = (tmp_path / "a.gif").read_bytes()
    start = one.index(b",\0\0\0\0")
    screen = one[:6] + struct.pack("<HH", 5000, 5000) + one[10:start]
    (tmp_path / "a.gif").write_bytes(screen + 50 * one[start:-1] + b";")
    with pytest.raises(DataError, match="pixels"):
        read(tmp_path / "a.gif")


def test_pictures_of_every_mode_are_what_they_show(tmp_path: Path) -> None:
    """Half gray, however it is stored."""
    for mode in ("L", "LA", "P", "RGB", "RGBA", "I;16"):
        place = tmp_path / mode
        place.mkdir()
        if mode == "I;16":
            picture = Image.fromarray(np.full((4, 6), 128 * 257, np.uint16))
        else:
            picture = Image.new("L", (6, 4), 128).convert(mode)
        picture.save(place / "a.png")
        picture.save(place / "b.png")
        found = read_video(place, step=0.1)
        assert found.obs_shape == (4, 6)
        np.testing.assert_allclose(found.x[0], 128 / 255, atol=0.01)


def test_a_pipe_among_pictures_is_not_awaited(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DataError, match="not a plain file"):
        read_video(tmp_path, step=0.1)


@pytest.mark.parametrize("ending", ["png", "tif", "jpg"])
def test_no_picture_is_a_program(tmp_path: Path, ending: str) -> None:
    """PostScript under another name would be given to an interpreter."""
    text = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(ran) (w) file closefile\n%%EOF\n"
    (tmp_path / f"a.{ending}").write_bytes(text)
    with pytest.raises(DataError, match="cannot be read"):
        read_video(tmp_path, step=0.1)


# Folders ---------------------------------------------------------------------------------------


def test_links_to_the_folder_itself_end(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(DataError):
        read(tmp_path)
    (tmp_path / "a.csv").write_text("t,x\n0,1\n1,2\n2,3\n")
    assert read(tmp_path).names == ("x",)


def test_folders_nested_deeper_than_calls_are_searched(tmp_path: Path) -> None:
    inner = tmp_path
    for _ in range(1200):
        inner = inner / "a"
        inner.mkdir()
    try:
        with pytest.raises(DataError):
            read(tmp_path)
    finally:  # deeper than pytest could remove them, too
        while inner != tmp_path:
            inner.rmdir()
            inner = inner.parent


@pytest.mark.parametrize("name", ["a.csv", "a.png", "a.gif"])
def test_a_folder_of_data_does_not_reach_out(tmp_path: Path, name: str) -> None:
    """Links within it are as good as files."""
    inside, outside = tmp_path / "data", tmp_path / f"secret{Path(name).suffix}"
    inside.mkdir()
    if name == "a.csv":
        outside.write_text("t,x\n0,1\n1,2\n2,3\n")
    else:
        frames = [Image.new("L", (4, 4), k) for k in range(3)]
        more = {"save_all": True, "append_images": frames} if name == "a.gif" else {}
        frames[0].save(outside, **more)
    (inside / name).symlink_to(outside)
    with pytest.raises(DataError, match="link"):
        read(inside, time="t" if name == "a.csv" else 0.1)
    (inside / name).unlink()
    (inside / f"b{outside.suffix}").write_bytes(outside.read_bytes())
    (inside / name).symlink_to(inside / f"b{outside.suffix}")
    assert len(read(inside, time="t" if name == "a.csv" else 0.1)) == (1 if name == "a.png" else 2)


# Videos ----------------------------------------------------------------------------------------


def test_a_playlist_does_not_read_its_neighbor(tmp_path: Path) -> None:
    pytest.importorskip("av")
    frames = rendered("pendulum", trajectories=1, length=5, size=16).x[0]
    write_video(frames, tmp_path / "secret.mp4", step=0.1)
    for ending in ("mp4", "mkv", "avi", "mov", "webm"):
        path = tmp_path / f"a.{ending}"
        for text in (
            "ffconcat version 1.0\nfile secret.mp4\n", "#EXTM3U\n#EXTINF:1,\nsecret.mp4\n"
        ):  # fmt: skip
            path.write_text(text)
            with pytest.raises(DataError):
                read_video(path)


def test_a_session_description_does_not_listen(tmp_path: Path) -> None:
    """FFmpeg would open the port it names and wait there for a stream."""
    pytest.importorskip("av")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "a.mp4").write_text(
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
        f"m=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\n"
    )
    with pytest.raises(DataError):
        read_video(tmp_path / "a.mp4")
