"""Files that hold plain data: written whole or not at all, read without executing anything."""

from sjepa.storage.files import (
    digest_of,
    discard,
    make_folder,
    open_kept,
    read_bounded,
    regular,
    sweep,
    write_whole,
    writing,
    writing_folder,
)
from sjepa.storage.jsonfile import MAX_BYTES, read_json, write_json
from sjepa.storage.tensors import read_state, write_state


__all__ = [
    "MAX_BYTES",
    "digest_of",
    "discard",
    "make_folder",
    "open_kept",
    "read_bounded",
    "read_json",
    "read_state",
    "regular",
    "sweep",
    "write_json",
    "write_state",
    "write_whole",
    "writing",
    "writing_folder",
]
