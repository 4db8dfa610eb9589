"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re


# What a message says to somebody who writes Python, and what it says here.
_WORDS = (
    (r"load with allow_nan=True and call \.drop_nan\(\)", "use --drop-nan"),
    (r"name (?:the columns to observe|some) with columns=\[\.\.\.\]", "name them: --columns a,b"),
    (r"pass time=\.\.\., one of", "give --time with one of"),
    (r"or pass time=([\d.]+)", r"or give a step: --time \1"),
    (r"id, columns and actions are for tables", "--id, --columns and --actions are for tables"),
    (r"\blatent_dim=(\d+)", r"--latent-dim \1"),
    (r"\blatent_dim\b", "--latent-dim"),
    (r"\bdevice='(\w+)'", r"--device \1"),
    (r"\border=(\d)", r"--order \1"),
    (r"\bform='(\w+)'", r"--form \1"),
    (r"\buse horizon=(\d+)", r"use --option horizon=\1"),
    (r"\bsearch is one of", "--search is one of"),
    (r"\bencoder is 'auto', 'identity', a callable or a module", "--encoder is auto or identity"),
    (r"give the user's encoder again: .*", "use it from Python"),
    (r"; learn coordinates first with sjepa\.SJEPA", "; learn coordinates first with sjepa fit"),
    (r"give a library, or fewer columns", "give --terms, or fewer --columns"),
    (r"Give more data or a smaller library", "Give more data or fewer --terms"),
    (r"Rows are times; if x is transposed, give x\.T\.", "Rows are times, columns are quantities."),
    (r"if x is transposed, pass x\.T \(time comes first\)", "rows are times; transpose the file"),
    (r"x looks transposed, pass x\.T \(time comes first\)", "x looks transposed: time comes first"),
    (r"; leave u out", "; leave --actions out, or use --encoder identity"),
)  # fmt: skip


def in_options(message: str) -> str:
    """The message with the names of options in place of the names of arguments."""
    for python, option in _WORDS:
        message = re.sub(python, option, message)
    return message
