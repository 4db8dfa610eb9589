"""Ways to spoil a file, and what must hold whatever is in it."""

from __future__ import annotations

import json
import resource
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from sjepa.errors import SjepaError


# Bytes that mean something to one format or another.
TOKENS = [
    b"\x00", b"\xff" * 8, b"\n", b",", b'"', b"nan", b"inf", b"1e999", b"-1", b"PAR1", b"PK\x03\x04",
    b"\x89HDF", b"{", b"]", b"999999999999", b"__import__('os').system('x')", b"\x80\x04\x95", b"'",
    b"\x93NUMPY", b"\xef\xbb\xbf", b"\xe2\x88\x9e", b"\x7f\xff\xff\xff\xff\xff\xff\xff",
]  # fmt: skip

edits = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "repeat", "replace", "swap"]),
        st.floats(0, 1),
        st.floats(0, 1),
        st.sampled_from(TOKENS) | st.binary(max_size=12),
    ),
    min_size=1,
    max_size=4,
)


def spoil(data: bytes, changes: list[tuple[str, float, float, bytes]]) -> bytes:
    """Apply edits at relative positions."""
    for kind, where, much, token in changes:
        i = int(where * len(data))
        n = int(much * min(len(data), 64))
        if kind == "flip" and data:
            i = min(i, len(data) - 1)
            data = data[:i] + bytes([data[i] ^ (1 << int(much * 7))]) + data[i + 1 :]
        elif kind == "cut":
            data = data[:i] if much > 0.5 else data[:i] + data[i + n :]
        elif kind == "insert":
            data = data[:i] + token + data[i:]
        elif kind == "repeat":
            data = data[:i] + data[i : i + n] * 3 + data[i:]
        elif kind == "replace":
            data = data[:i] + token + data[i + len(token) :]
        elif kind == "swap":
            data = data[i:] + data[:i]
    return data


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([10**400, -1, 0, 2**63, "z1", "sin(z1)", "1e999", "../../etc", []])
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested data."""
    found = [path] if path else []
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in items:
        found += places(value, (*path, key))
    return found


def changed(data: Any, where: float, value: Any, remove: bool) -> Any:
    """Nested data with one value replaced or removed."""
    data = json.loads(json.dumps(data))
    spots = places(data)
    *path, last = spots[min(int(where * len(spots)), len(spots) - 1)]
    inner = data
    for key in path:
        inner = inner[key]
    if remove:
        del inner[last]
    else:
        inner[last] = value
    return data


# What became of the calls so far, and the CPU time of the longest.
outcomes: Counter[str] = Counter()
longest = [0.0]


def only_our_errors(call: Callable[[], object], seconds: float = 10.0) -> bool:
    """Success, or our own error in one line, in bounded time; anything else is raised."""
    start = time.process_time()
    outcome = "foreign"
    try:
        call()
        outcome = "answered"
    except SjepaError as error:
        outcome = "refused"
        assert "\n" not in str(error).strip(), f"more than one line: {error}"
        assert len(str(error)) < 2000, f"a message of {len(str(error))} characters"
    except KeyboardInterrupt:  # somebody's wish
        outcome = "stopped"
        raise
    finally:
        outcomes[outcome] += 1
        took = time.process_time() - start
        longest[0] = max(longest[0], took)
        assert took < seconds, f"took {took:.1f} s"
    return outcome == "answered"


def peak_memory() -> float:
    """Most memory this process ever had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
