"""Random expressions as text, and rewrites of them that keep the value.

Expressions are nested tuples ``(kind, ...)`` of our own, so that the tests do not lean on the
algebra system that they test.
"""

from __future__ import annotations

import random
from typing import Any


Tree = tuple[Any, ...]
VARIABLES = ("x", "y", "z")
UNARY = ("sin", "cos", "tanh", "abs", "exp_clip", "log_safe", "sqrt_safe")


def random_tree(rng: random.Random, depth: int) -> Tree:
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.7:
            return ("var", rng.choice(VARIABLES))
        return ("num", rng.choice([2, 3, -1, 0.5, 1.5, -0.25, 0.1, 2.75]))
    kind = rng.choices(["add", "mul", "div", "pow", "call", "safe_div"], [5, 4, 1, 1, 3, 1])[0]
    if kind == "pow":
        return ("pow", random_tree(rng, depth - 1), rng.choice([2, 3]))
    if kind == "call":
        return ("call", rng.choice(UNARY), random_tree(rng, depth - 1))
    if kind == "div":  # a denominator that is never zero
        square = ("pow", random_tree(rng, depth - 1), 2)
        return ("div", random_tree(rng, depth - 1), ("add", square, ("num", 1.5)))
    return (kind, random_tree(rng, depth - 1), random_tree(rng, depth - 1))


def text(tree: Tree) -> str:
    match tree:
        case ("var", name):
            return str(name)
        case ("num", value):
            return f"({value})" if value < 0 else str(value)
        case ("add", a, b):
            return f"({text(a)} + {text(b)})"
        case ("sub", a, b):
            return f"({text(a)} - {text(b)})"
        case ("mul", a, b):
            return f"({text(a)} * {text(b)})"
        case ("div", a, b):
            return f"({text(a)} / {text(b)})"
        case ("pow", a, n):
            return f"({text(a)})**{n}" if n >= 0 else f"({text(a)})**({n})"
        case ("neg", a):
            return f"(-{text(a)})"
        case ("call", name, a):
            return f"{name}({text(a)})"
        case ("safe_div", a, b):
            return f"safe_div({text(a)}, {text(b)})"
    raise AssertionError(tree)


def rewrite(tree: Tree, rng: random.Random) -> Tree:
    """Rewrite every node with some probability, bottom up."""
    tree = tuple(rewrite(part, rng) if isinstance(part, tuple) else part for part in tree)
    if rng.random() < 0.5:
        tree = _rewrite_node(tree, rng)
    if rng.random() < 0.15:
        tree = rng.choice(
            [
                ("add", tree, ("num", 0)),
                ("mul", ("num", 1), tree),
                ("neg", ("neg", tree)),
                ("div", tree, ("num", 1)),
                ("mul", ("num", 4), ("mul", tree, ("num", 0.25))),
                ("sub", ("add", tree, ("num", 0.75)), ("num", 0.75)),
            ]
        )
    return tree


def _rewrite_node(tree: Tree, rng: random.Random) -> Tree:
    match tree:
        case ("num", value) if isinstance(value, float):
            return rng.choice(
                [("add", ("num", value - 1), ("num", 1)), ("mul", ("num", value * 2), ("num", 0.5))]
            )
        case ("add", a, ("add", b, c)):
            return ("add", ("add", c, a), b)
        case ("add", a, b):
            return rng.choice([("add", b, a), ("sub", a, ("neg", b))])
        case ("mul", a, ("add", b, c)):
            return ("add", ("mul", a, b), ("mul", c, a))
        case ("mul", ("add", a, b), c):
            return ("add", ("mul", b, c), ("mul", a, c))
        case ("mul", a, b):
            return rng.choice([("mul", b, a), ("neg", ("mul", ("neg", a), b))])
        case ("div", a, b):
            return ("mul", a, ("pow", b, -1))
        case ("pow", a, 2):
            return ("mul", a, a)
        case ("pow", a, 3):
            return ("mul", ("pow", a, 2), a)
        case ("call", "sin" | "tanh" as name, a):
            return ("neg", ("call", name, ("neg", a)))
        case ("call", "cos" | "abs" | "log_safe" | "sqrt_safe" as name, a):
            return ("call", name, ("neg", a))
        case ("safe_div", a, b):
            return ("neg", ("safe_div", ("neg", a), b))
    return tree
