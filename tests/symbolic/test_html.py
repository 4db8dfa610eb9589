"""What notebooks show: typeset, escaped, and the same law."""

import xml.etree.ElementTree as ET

import pytest

from sjepa.symbolic import Candidate, Front, Law
from tests.symbolic.test_exports import EVERYTHING, operator_laws


def inner(html: str) -> ET.Element:
    """Reads it with an XML parser, which accepts nothing that is not closed and escaped."""
    return ET.fromstring(f"<div>{html}</div>")


@pytest.mark.parametrize("law", [EVERYTHING, *operator_laws()], ids=lambda law: law.lines()[0][:30])
def test_every_operator_is_typeset_in_well_formed_markup(law: Law) -> None:
    assert len(list(inner(law._repr_html_()).iter("math"))) > len(law.outputs)


def test_each_term_is_a_formula_of_its_own_so_that_long_laws_wrap() -> None:
    law = Law.from_string(["x - 0.5*y + 2*sin(x) - 1"], ["x", "y"])
    right = inner(law._repr_html_()).find(".//span[@class='rhs']")
    assert right is not None
    texts = ["".join(math.itertext()) for math in right.iter("math")]
    assert len(texts) == 4
    # Signs stand at the start of the terms after the first, and never twice.
    assert "".join(texts).replace("\u2062", "") == "x−0.5y+2sin(x)−1"


def test_whole_numbers_lose_their_point() -> None:
    law = Law.from_string("1.0000001*x + 2.0000001*y", ["x", "y"])
    texts = [m.itertext() for m in inner(law._repr_html_()).iter("math")]
    assert ["".join(t).replace("\u2062", "") for t in texts][1:] == ["x", "+2y"]
    assert law.latex() == r"\dot{x} = x + 2 y"


def test_the_dot_stands_on_the_letter_not_on_its_index() -> None:
    law = Law.from_string("z1", ["z1"])
    assert '<msub><mover accent="false"><mi>z</mi><mo>.</mo></mover>' in law.mathml()
    second = Law.from_string("-z1 - z1_dot", ["z1", "z1_dot"], ["z1_dot"]).mathml()
    assert (
        '<msub><mover accent="false"><mi>z</mi><mo>..</mo></mover><mi>1</mi></msub><mo>=' in second
    )
    assert '<msub><mover accent="false"><mi>z</mi><mo>.</mo></mover><mi>1</mi></msub>' in second
    assert "dot" not in second
    step = Law.from_string("0.5*z1", ["z1"], dynamics="discrete")
    assert "<mo>+</mo></msup>" in step.mathml() and "mover" not in step.mathml()


def test_a_number_stands_off_a_name_of_several_letters() -> None:
    law = Law.from_string("1.5*speed - 2*x", ["speed", "x"], ["speed"])
    assert '<mn>1.5</mn><mspace width="0.17em"></mspace><mi>speed</mi>' in law.mathml()
    assert "<mn>2</mn><mo>&#8290;</mo><mi>x</mi>" in law.mathml()


def test_a_front_marks_its_choice_and_escapes_its_notes() -> None:
    laws = [Law.from_string(e, ["x"]) for e in ("x", "x + 0.1*x**3", "x + 0.1*x**3 + 0.01")]
    rows = [Candidate.score(law, [v]) for law, v in zip(laws, (0.3, 1e-4, 9.9e-5), strict=True)]
    front = Front.of(rows, notes=["<script>alert(1)</script>"])
    page = inner(front._repr_html_())
    chosen = page.findall(".//tr[@class='chosen']")
    assert len(chosen) == 1 and "1.00e-04" in "".join(chosen[0].itertext())
    assert page.find(".//script") is None and "<script>" in "".join(page.itertext())
    assert "no law found" in Front.of([], notes=["<b>"])._repr_html_()
    assert "<b>" not in Front.of([], notes=["<b>"])._repr_html_()
