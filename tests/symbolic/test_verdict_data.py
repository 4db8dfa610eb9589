"""Verdicts as plain data: what is written is read back, and nothing else is."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from sjepa import Front, Law
from sjepa.errors import FormatError
from sjepa.symbolic.front import Candidate
from sjepa.symbolic.verdict import Domain, Rival, Verdict


LAW = Law.from_string(["p", "-sin(q)"], ["q", "p"])
DOMAIN = Domain((-1.0, -2.0), (1.0, 2.0), (0.01, 0.02), 12.5, 400)
RIVAL = Rival(Law.from_string(["p", "-0.97*q + 0.13*q**3"], ["q", "p"]), 3.5)


def verdict(adequate: bool | None) -> Verdict:
    reasons, figures = ("One reason.", "Another."), {"p_value": 0.25}
    return Verdict(LAW, adequate, (RIVAL,), reasons, figures, DOMAIN)


@pytest.mark.parametrize("adequate", [True, False, None])
def test_a_verdict_is_read_back_as_it_was(adequate: bool | None) -> None:
    one = verdict(adequate)
    again = Verdict.from_dict(json.loads(json.dumps(one.to_dict(), allow_nan=False)))
    assert again == one and again.adequate is adequate and again.word == one.word


def test_words_and_reasons_are_printed() -> None:
    words = {verdict(a).word for a in (True, False, None)}
    assert len(words) == 3
    text = repr(verdict(False))
    assert verdict(False).word in text and "One reason." in text and "sin(q)" in text
    assert "0.13*q**3" in repr(RIVAL) and "3.5" in repr(RIVAL)


def test_figures_that_are_no_numbers_do_not_break_the_file() -> None:
    one = Verdict(LAW, True, figures={"good": 1.0, "none": math.nan, "much": math.inf})
    json.dumps(one.to_dict(), allow_nan=False)
    assert dict(Verdict.from_dict(one.to_dict()).figures) == {"good": 1.0}


SPOILT: dict[str, Any] = {
    "no law": {"law": None},
    "a law that is no law": {"law": {"expressions": ["__import__('os')"], "inputs": ["q"]}},
    "a word for adequate": {"adequate": "yes"},
    "a number for adequate": {"adequate": 2},
    "one for adequate": {"adequate": 1},
    "rivals that are a number": {"rivals": 7},
    "a rival without odds": {"rivals": [{"law": LAW.to_dict()}]},
    "a rival with bad odds": {"rivals": [{"law": LAW.to_dict(), "odds": "many"}]},
    "a rival with odds that are no number": {"rivals": [{"law": LAW.to_dict(), "odds": math.nan}]},
    "a rival that is a text": {"rivals": ["x"]},
    "reasons that are a text": {"reasons": "because"},
    "reasons that are numbers": {"reasons": [1]},
    "no reasons": {"reasons": None},
    "figures that are a list": {"figures": [1.0]},
    "figures that are texts": {"figures": {"p_value": "small"}},
    "figures that are no numbers": {"figures": {"p_value": math.nan}},
    "a domain that is a text": {"domain": "here"},
    "a domain without sides": {"domain": {"duration": 1.0, "samples": 3}},
    "a domain without end": {
        "domain": {"low": [0.0], "high": [math.inf], "noise": [1.0], "duration": 1.0, "samples": 3}
    },
}


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_verdicts_are_refused_in_one_line(name: str) -> None:
    data = {**verdict(True).to_dict(), **SPOILT[name]}
    with pytest.raises(FormatError) as refusal:
        Verdict.from_dict(data)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("key", ["law", "adequate", "rivals", "reasons", "figures"])
def test_missing_parts_are_refused(key: str) -> None:
    data = verdict(True).to_dict()
    del data[key]
    with pytest.raises(FormatError):
        Verdict.from_dict(data)


@pytest.mark.parametrize("spoilt", ["adequate", 3, [], {"law": LAW.to_dict()}])
def test_fronts_refuse_what_is_no_verdict(spoilt: Any) -> None:
    front = Front.of([Candidate.score(LAW, [0.01])])
    assert Front.from_dict({**front.to_dict(), "verdict": None}).verdict is None
    with pytest.raises(FormatError):
        Front.from_dict({**front.to_dict(), "verdict": spoilt})


def test_fronts_of_before_there_were_verdicts_are_read() -> None:
    data = Front.of([Candidate.score(LAW, [0.01])]).to_dict()
    del data["verdict"]
    for row in data["laws"]:
        del row["evidence"], row["standard_error"]
        row["free_run"] = 1.02
    data["warnings"] = ["what was said then"]
    assert Front.from_dict(data).verdict is None
