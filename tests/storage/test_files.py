"""Bytes on disk: whole or not at all, and nothing that others put there is followed or awaited."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sjepa.errors import FormatError, OutputError
from sjepa.storage import (
    digest_of,
    make_folder,
    open_kept,
    read_bounded,
    regular,
    sweep,
    write_json,
    write_whole,
    writing,
    writing_folder,
)


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")
    with pytest.raises(ZeroDivisionError), writing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and names(tmp_path) == {"a"}


def test_the_bytes_reach_the_disk_before_the_name_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the moment of the rename the content must have been synced already."""
    synced: list[bytes] = []
    seen: list[list[bytes]] = []
    fsync, replace = os.fsync, os.replace

    def note_sync(handle: int) -> None:
        fsync(handle)
        if os.path.isfile(name := f"/proc/self/fd/{handle}"):
            synced.append(Path(os.readlink(name)).read_bytes())

    def note_name(draft: Path, path: Path) -> None:
        seen.append(list(synced))
        replace(draft, path)

    monkeypatch.setattr("sjepa.storage.files.os.fsync", note_sync)
    monkeypatch.setattr("sjepa.storage.files.os.replace", note_name)
    write_whole(tmp_path / "a", b"all of it")
    assert seen == [[b"all of it"]]


def test_what_the_system_refuses_is_said_with_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutputError, match=r"no/a cannot be written \(No such file"):
        write_whole(tmp_path / "no" / "a", b"")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sjepa.storage.files.os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device.*make room"):
        write_whole(tmp_path / "a", b"x")
    assert names(tmp_path) == set()


def test_a_draft_that_cannot_be_removed_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, **more: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "unlink", refuse)
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    (tmp_path / ".b.0.unfinished").write_bytes(b"")
    sweep(tmp_path)


def test_writing_replaces_a_link_and_spares_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "a").symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert not (tmp_path / "a").is_symlink() and (tmp_path / "a").read_bytes() == b"new"


def test_sweep_removes_drafts_and_nothing_else(tmp_path: Path) -> None:
    kept = {"a.unfinished", ".lock", ".hidden", ".b.unfinished.old", ".folder.unfinished"}
    for name in kept - {".folder.unfinished"}:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".folder.unfinished").mkdir()
    (tmp_path / ".a.0123abcd.unfinished").write_bytes(b"half")
    (tmp_path / ".link.unfinished").symlink_to(tmp_path / ".hidden")
    (tmp_path / ".dangling.unfinished").symlink_to(tmp_path / "nowhere")
    sweep(tmp_path)
    assert names(tmp_path) == kept | {".link.unfinished", ".dangling.unfinished"}


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with writing_folder(folder) as draft:
        (draft / "one").write_bytes(b"1")
        assert not folder.exists()
    with pytest.raises(ZeroDivisionError), writing_folder(folder) as draft:
        (draft / "two").write_bytes(b"2")
        raise ZeroDivisionError
    assert names(folder) == {"one"} and names(tmp_path) == {"model"}
    with writing_folder(folder) as draft:
        (draft / "three").write_bytes(b"3")
    assert names(folder) == {"three"} and names(tmp_path) == {"model"}


def test_a_folder_that_cannot_take_its_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, moved = tmp_path / "model", os.replace
    folder.mkdir()
    (folder / "law.json").write_text("old")

    def refused(source: Path, target: Path) -> None:
        if target == folder:
            raise PermissionError(errno.EACCES, "Permission denied")
        moved(source, target)

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(OutputError, match="choose another place"), writing_folder(folder) as draft:
        (draft / "law.json").write_text("new")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert (folder / "law.json").read_text() == "old"


@pytest.fixture(params=["link", "dangling", "pipe", "device", "folder"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Something under the name of a file that is no plain file."""
    path = tmp_path / "odd"
    if request.param == "link":
        (tmp_path / "precious").write_bytes(b"mine")
        path.symlink_to(tmp_path / "precious")
    elif request.param == "dangling":
        path.symlink_to(tmp_path / "nowhere")
    elif request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "folder":
        path.mkdir()
    else:
        return Path("/dev/zero")
    return path


def test_what_is_no_plain_file_is_neither_read_nor_written(odd: Path, tmp_path: Path) -> None:
    for attempt in (regular, digest_of, open_kept, lambda p: read_bounded(p, 100)):
        with pytest.raises(FormatError, match="is a link|is not a plain file"):
            attempt(odd)
    assert not (tmp_path / "nowhere").exists()
    if (tmp_path / "precious").exists():
        assert (tmp_path / "precious").read_bytes() == b"mine"


def test_a_file_kept_open_is_made_appended_to_and_never_emptied(tmp_path: Path) -> None:
    for line in (b"one\n", b"two\n"):
        with open_kept(tmp_path / "log") as file:
            file.write(line)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    os.link(tmp_path / "log", tmp_path / "second name")
    with pytest.raises(FormatError, match="another name"):
        open_kept(tmp_path / "log")
    with pytest.raises(OutputError, match="cannot be written"):
        open_kept(tmp_path / "no" / "log")


def test_reading_is_bounded_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345" and regular(path) == 5
    with pytest.raises(FormatError, match="has 5 bytes, more than such a file can have \\(4\\)"):
        read_bounded(path, 4)
    with pytest.raises(FormatError, match="nothing is missing"):
        regular(tmp_path / "nothing")


def test_two_who_keep_a_file_open_do_not_write_over_each_other(tmp_path: Path) -> None:
    with open_kept(tmp_path / "log") as first, open_kept(tmp_path / "log") as second:
        for i in range(3):
            for writer, name in ((first, b"a"), (second, b"b")):
                writer.write(b"%s%d " % (name, i))
                writer.flush()
    assert (tmp_path / "log").read_bytes() == b"a0 b0 a1 b1 a2 b2 "


def test_folders_are_made_with_those_above_them_or_refused_in_one_line(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b" / "c")  # there already
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="cannot be made"):
        make_folder(tmp_path / "file" / "below")


def test_text_in_any_script_stays_readable(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", "kind", 1, {"angle": "θ in °"})
    assert "θ in °" in (tmp_path / "a.json").read_text(encoding="utf-8")
