"""Files that hold plain data: written whole or not at all, read without executing anything.

Tensors have their own module, :mod:`sjepa.storage.tensors`: it needs torch, most files do not.
"""

from sjepa.storage.csvfile import without_guards, write_csv
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


__all__ = [
    "MAX_BYTES",
    "digest_of",
    "discard",
    "make_folder",
    "open_kept",
    "read_bounded",
    "read_json",
    "regular",
    "sweep",
    "without_guards",
    "write_csv",
    "write_json",
    "write_whole",
    "writing",
    "writing_folder",
]
