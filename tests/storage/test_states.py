"""Nested data, JSON and tensors on disk: back to the last bit, or refused with the reason."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from sjepa.errors import FormatError
from sjepa.storage import read_json, write_json
from sjepa.storage.tensors import pack, read_state, unpack, write_state


def same(a: Any, b: Any) -> bool:
    """Equality that tells types, nan and the bits of tensors apart."""
    if isinstance(a, torch.Tensor):
        kinds = isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape
        return kinds and a.contiguous().numpy().tobytes() == b.contiguous().numpy().tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


STATES = [
    None, True, False, 0, -7, 2**80, "", "é\n", 0.1, -0.0, math.inf, -math.inf, math.nan,
    [], (), {}, [1, [2.5, (None, "x")]], {"a": 1, 3: "b", "3": (4,)}, {"tensor": "0"},
    {"float": "nan"}, {"tuple": [1]}, {"dict": [["a", 1]]},
    torch.tensor([[1.5, math.nan], [-0.0, math.inf]], dtype=torch.float64),
    {"w": torch.arange(6).reshape(2, 3), "b": [torch.tensor(2.5), torch.zeros(0)]},
    torch.arange(12.0).reshape(3, 4).T, torch.tensor(1.0).expand(5), torch.tensor([True, False]),
]  # fmt: skip


@pytest.mark.parametrize("state", STATES, ids=lambda s: repr(s)[:30])
def test_what_is_written_comes_back_to_the_last_bit(state: Any, tmp_path: Path) -> None:
    assert same(unpack(*pack(state)), state)
    write_state(tmp_path / "a", "kind", 1, state)
    assert same(read_state(tmp_path / "a", "kind", 1), state)


@pytest.mark.parametrize("state", [{1.5: 0}, {True: 0}, {None: 0}, {1, 2}, b"x", 1j, [object()]])
def test_what_is_no_plain_data_is_refused_when_it_is_written(state: Any) -> None:
    with pytest.raises(FormatError, match="not plain data"):
        pack(state)


@pytest.mark.parametrize(
    "text",
    [
        "[", "1" * 5000, "[" * 100_000, '{"a": 1}', '{"tuple": [1], "float": "nan"}', "{}",
        '{"float": "1e5"}', '{"float": "infinity"}', '{"tuple": {}}', '{"dict": {}}',
        '{"dict": [["a"]]}', '{"dict": [["a", 1, 2]]}', '{"dict": [[[], 1]]}',
        '{"dict": [[1.5, 1]]}', '{"tensor": "9"}', '{"tensor": 0}',
    ],
    ids=range(16),
)  # fmt: skip
def test_texts_that_pack_never_writes_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        unpack(text, {"0": torch.zeros(1)})


def test_the_copy_in_a_state_is_its_own(tmp_path: Path) -> None:
    """Later changes of the network must not reach into what was packed."""
    weights = torch.ones(3)
    _, tensors = pack({"w": weights})
    weights += 1
    assert tensors["0"].tolist() == [1, 1, 1]


# Kinds and versions of files -------------------------------------------------------------------


@pytest.mark.parametrize("write, read", [(write_json, read_json), (write_state, read_state)])
def test_a_file_of_another_kind_or_version_is_refused(
    write: Any, read: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    for version in (1, 2):
        write(path, "kind", version, {"x": 1})
        assert read(path, "kind", 2)["x"] == 1  # older files stay readable
    with pytest.raises(FormatError, match="is not a other file"):
        read(path, "other", 2)
    with pytest.raises(FormatError, match="version 2, this release reads up to 1: install a newer"):
        read(path, "kind", 1)
    for damaged in (0, -1):
        write(path, "kind", damaged, {"x": 1})
        with pytest.raises(FormatError, match="its format version is"):
            read(path, "kind", 2)
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="damaged"):
        read(path, "kind", 2)
    path.unlink()
    with pytest.raises(FormatError, match="is missing"):
        read(path, "kind", 2)


@pytest.mark.parametrize("version", [True, 1.0, "1", None])
def test_a_version_is_a_whole_number(version: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(json.dumps({"format": "kind", "version": version}))
    with pytest.raises(FormatError, match="its format version is"):
        read_json(tmp_path / "a", "kind", 1)


@pytest.mark.parametrize("content", [b"[1]", b"7", b"\xff", b"{", b"[" * 100_000, b'{"a": 1}'])
def test_json_that_is_no_file_of_ours_is_refused_in_one_line(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FormatError) as error:
        read_json(tmp_path / "a", "kind", 1)
    assert "\n" not in str(error.value) and str(tmp_path / "a") in str(error.value)


def test_json_cannot_hold_what_json_has_no_word_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        write_json(tmp_path / "a", "kind", 1, {"x": math.nan})
    assert not list(tmp_path.iterdir())


# Digests ---------------------------------------------------------------------------------------


def rewritten(path: Path, change: Any) -> None:
    """The same file with other tensors under the old description and digest."""
    from safetensors import safe_open

    with safe_open(str(path), "pt") as file:
        about = file.metadata()
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}
    path.write_bytes(save(change(tensors), about))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {**t, "0": t["0"] + 1},
        lambda t: {**t, "0": t["0"].reshape(3, 2)},
        lambda t: {**t, "0": t["0"].view(torch.int64)},
        lambda t: {"0": t["1"], "1": t["0"]},
        lambda t: {"0": t["0"]},
        lambda t: {**t, "2": t["0"].clone()},
        lambda t: {**t, "1": -t["1"]},
    ],
    ids=["value", "shape", "type", "swapped", "missing", "more", "sign of zero"],
)
def test_tensors_that_are_not_those_of_the_digest_are_refused(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    state = {"a": torch.arange(6.0, dtype=torch.float64).reshape(2, 3), "b": torch.zeros(2, 3)}
    write_state(path, "kind", 1, state)
    rewritten(path, dict)
    assert same(read_state(path, "kind", 1), state)
    rewritten(path, change)
    with pytest.raises(FormatError, match="do not match their checksum"):
        read_state(path, "kind", 1)


def test_a_description_that_is_not_that_of_the_digest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    content = write_state(path, "kind", 1, {"rate": 0.25, "w": torch.zeros(2)})
    assert content.count(b"0.25") == 1
    path.write_bytes(content.replace(b"0.25", b"0.75"))
    with pytest.raises(FormatError, match="do not match their checksum"):
        read_state(path, "kind", 1)


def test_safetensors_of_others_are_not_ours(tmp_path: Path) -> None:
    for about in (None, {"a": "b"}, {"sjepa": "null"}, {"sjepa": "[1]"}, {"sjepa": "{"}):
        (tmp_path / "a").write_bytes(save({"x": torch.zeros(2)}, about))
        with pytest.raises(FormatError, match="is not a kind file|damaged"):
            read_state(tmp_path / "a", "kind", 1)


def test_writing_json_returns_the_bytes_of_the_file(tmp_path: Path) -> None:
    content = write_json(tmp_path / "law.json", "sjepa-law", 1, {"a": "ä"})
    assert content == (tmp_path / "law.json").read_bytes()
    assert json.loads(content) == {"format": "sjepa-law", "version": 1, "a": "ä"}
