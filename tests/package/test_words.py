"""Public text uses the terms of the field: none of the words that were retired for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]

# Retired word (a pattern, whole words, any case): what to write instead.
RETIRED = {
    r"elegant": "joint",
    r"bent|bends?|bending|curved coordinates?": "nonlinear (polynomial) encoder, curvature",
    r"stretch(es)?": "segment",
    r"bumps?": "test function",
    r"free(ly)? runs?|runs? freely|free rollouts?": "simulation, rollout",
    r"doubts?|doubted|doubtful": "warning, flagged",
    r"forgets?|forgetful|forgetting|forgotten|remember\w*": "information loss",
    r"leads? elsewhere": "rollouts diverge from the data",
    r"go(es|ing)? round|from turn to turn|after a turn": "circular coordinate, winds",
    r"push(es|ed)?": "control input",
    r"told|anew|spelt|dearer|grown": "reported, again, written, more expensive, extended",
    r"films?|filmed": "video",
    r"polish\w*|rungs?": "refine, round of successive halving",
    r"admission|admitted|inadmissible": "checks, passed, failed",
    r"open numbers?|numbers? (left )?open|numbers inside|numbers of (a|the|its) law": "nonlinear parameters, coefficients",
    r"(what|that) (a|the|this|its|each) laws? (leaves?|left)|what (it|they) (leaves?|left)": "residual",
    r"leaves? [^.;]{0,40} (unexplained|of the variance|of held-out data)": "residual, unexplained variance",
    r"miss(es)? (the data|by|\{|at most|much)": "error",
    r"go(es)? on(?! (a|the)\b)": "continues, resumes",
    r"(said )?in (plain )?words|that is said": "reported",
    r"rests (of|at|between)|where it rests|two rests": "equilibria",
    r"How sure|What to know|How to make it again": "Uncertainty, Diagnostics, Reproduce",
    r"wide (set|library)": "extended library",
    r"journal": "recorder",
    r"\w*(canonical|linear|standard|penal|minim|maxim|initial|vector|recogn|summar|normal|optim|parametr"
    r"|regular|general|diagonal|custom|factor|discret|token)is(e[ds]?|er|ers|ing|ations?)": "-ize",
    r"\w*colour\w*|cent(re|red|res)|grey|neighbour\w*|(mis)?behaviours?|favour\w*|honour\w*|judgement"
    r"|labelled|modell(ed|ing)|cancell(ed|ing)|licence|analyse[ds]?|towards|catalogue|misspelt": "American spelling",
}

# What may stay: a pattern of the whole phrase, and why.
ALLOWED = {
    r"Learning Elegant Latent Dynamics": "title of the paper",
    r"elegant dynamics": "the paper's name of its first experiment",
    r"hybrid_(un)?regularised": "the paper's conditions, as stored in results",
}

WORDS = {word: re.compile(rf"(?<!\w)(?:{word})(?!\w)", re.IGNORECASE) for word in RETIRED}
EXCEPT = re.compile("|".join(f"(?:{phrase})" for phrase in ALLOWED))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """What people read of a file, with lines: all of a page; docstrings and texts of a module."""
    source = path.read_text(encoding="utf-8")
    if path.name == "CHANGELOG.md":  # its section "Words" and its code name what was there before
        source = re.sub(
            r"### Words.*?(?=\n###)", lambda m: "\n" * m[0].count("\n"), source, flags=re.S
        )
        source = re.sub(r"`[^`]*`", lambda m: "\n" * m[0].count("\n"), source)
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for i, line in enumerate(node.value.splitlines()):
                yield node.lineno + i, line


def retired_in(text: str) -> list[str]:
    text = EXCEPT.sub("", text)
    return [f"{m.group()!r}: say {RETIRED[w]}" for w, p in WORDS.items() for m in p.finditer(text)]


def public_files() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")]
    shown = [ROOT / "sjepa/report/page.html", ROOT / "sjepa/report/page.js"]
    code = [p for part in ("sjepa", "backends") for p in ROOT.glob(f"{part}/**/*.py")]
    files = [p for p in (*pages, *shown, *code) if "_build" not in p.parts]
    return sorted(files)


def test_public_text_has_none_of_the_retired_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in public_files()
        for line, text in texts(path)
        for word in retired_in(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["Bent coordinates", "it leads elsewhere", "two neighbours"])
def test_retired_words_are_found(text: str) -> None:
    assert retired_in(text)


@pytest.mark.parametrize(
    "text", ["SJEPA: Learning Elegant Latent Dynamics", "a bentonite", "color"]
)
def test_other_words_are_not(text: str) -> None:
    assert not retired_in(text)
