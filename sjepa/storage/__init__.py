"""Files that hold plain data: written whole or not at all, read without executing anything."""

from sjepa.storage.files import read_bounded, regular, sweep, write_whole
from sjepa.storage.jsonfile import read_json, write_json
from sjepa.storage.tensors import read_state, write_state


__all__ = [
    "read_bounded",
    "read_json",
    "read_state",
    "regular",
    "sweep",
    "write_json",
    "write_state",
    "write_whole",
]
