"""What the page says, without a browser."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sjepa
from sjepa.errors import ConfigError, DataError
from sjepa.report import ReportData, collect, render, write_report
from sjepa.report.content import history_table
from tests.report.conftest import EVIL, pendulum


class Elements(HTMLParser):
    """Counts elements and collects their text, as an HTML reader sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_no_network(front: sjepa.Front) -> None:
    page = render(collect(front, pendulum()))
    assert not re.search(r'(?:src|href)=(?!"data:,")', page)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", page)
    assert "default-src 'none'" in page


def test_texts_from_files_stay_texts(evil: ReportData) -> None:
    seen = Elements(render(evil))
    assert seen.tags["script"] == 1 and seen.tags["style"] == 1 and "img" not in seen.tags
    assert not {a for a in seen.attributes if a.startswith("on")}
    # Title (twice), note, fact, backend, training caption, recipe: all there, word for word.
    assert seen.text.count(EVIL) >= 6


def test_every_law_of_the_front_is_on_the_page(front: sjepa.Front) -> None:
    page = render(collect(front, pendulum()))
    assert page.count('class="point') == len(front)
    assert page.count("<math>") >= 2 * sum(len(c.law.outputs) for c in front)
    assert page.count('class="point chosen"') == 1


def test_the_score_is_that_of_the_estimator() -> None:
    data = pendulum()
    model = sjepa.SJEPA(encoder="identity").fit(data)
    content = collect(model, data)
    assert content.score == pytest.approx(model.score(data), abs=1e-9)
    assert content.notes == tuple(model.diagnostics_)
    assert "encoder='identity'" in "\n".join(content.recipe)
    assert content.names == model.law_.inputs


def test_the_recipe_of_a_law_gives_the_law_again() -> None:
    law = sjepa.Law.from_string(["p", "-0.123456789012345*sin(q)"], ["q", "p"])
    space: dict[str, object] = {}
    exec("\n".join(collect(law).recipe), space)  # our own words
    assert space["law"] == law


def test_a_refined_law_is_found_on_the_front_by_its_structure(front: sjepa.Front) -> None:
    i = next(i for i, c in enumerate(front) if c.law == front.best())
    other = front.best().with_coefficients(front.best().coefficients * 1.01)
    assert ReportData("", other, front).chosen() == i
    assert ReportData("", sjepa.Law.from_string("q*p", ["q", "p"]), front).chosen() is None


def test_a_diverging_law_is_shown_and_said() -> None:
    law = sjepa.Law.from_string(["q**2 + 1", "p"], ["q", "p"])
    content = collect(law, pendulum())
    assert any("leave every bound" in note for note in content.notes)
    page = render(content)
    assert "diverges" in page and "nan" not in page.split("<script>")[0].lower().replace(
        "finance", ""
    )


@pytest.mark.parametrize(
    ("law", "columns"),
    [
        (sjepa.Law.from_string("-0.5*x", ["x"]), 1),
        (sjepa.Law.from_string("0.5*x", ["x"], dynamics="discrete"), 1),
        (sjepa.Law.from_string("-1.7*z1", ["z1", "z1_dot"], ["z1_dot"]), 1),
        (sjepa.Law.from_string(["y", "-x", "0.1*z"], ["x", "y", "z"]), 3),
        (sjepa.Law.from_string(["0", "0"], ["x", "y"]), 2),
        (sjepa.Law.from_string("x*y", ["x", "y"], ["force"]), 2),
    ],
    ids=["one", "map", "second order", "three", "nothing moves", "not of motion"],
)
def test_laws_of_every_kind_have_a_page(law: sjepa.Law, columns: int) -> None:
    t = np.linspace(0, 5, 80)
    x = np.stack([np.cos(t + k) for k in range(columns)], axis=1)
    content = collect(law, [x, 0.5 * x], [t, t])
    page = render(content)
    assert page.count("<svg") >= (3 if len(law.inputs) >= columns and content.simulator else 0)
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S).lower()


def test_actions_enter_the_simulation() -> None:
    # x' = -x + u with u = sin t from x(0) = 0 is (sin t - cos t + exp(-t)) / 2.
    t = np.linspace(0, 6, 600)
    exact = (np.sin(t) - np.cos(t) + np.exp(-t)) / 2
    data = sjepa.Trajectories(exact[:, None], t, np.sin(t)[:, None])
    content = collect(sjepa.Law.from_string("u1 - x", ["x", "u1"], ["x"]), data)
    # Actions are held for a step of 0.01: half a step late on average.
    np.testing.assert_allclose(
        content.trails[0].path[:, 0], exact[np.searchsorted(t, content.trails[0].t)], atol=0.005
    )
    assert "<svg" in render(content)


def test_history_in_long_form_keeps_the_order_of_events() -> None:
    rows = [("warm", 0, 1, "loss", 3.0), ("warm", 0, 2, "loss", 2.0), ("space", 1, 1, "loss", 1.0)]
    rows += [
        ("space", 1, 1, "risk", 0.5),
        ("warm", 0, 2, "risk", 0.7),
        ("final", 0, 0, "omega", 3.0),
    ]
    table = history_table(
        pd.DataFrame(rows, columns=["stage", "cycle", "epoch", "metric", "value"])
    )
    assert table["step"].tolist() == [1, 2, 3] and table["loss"].tolist() == [3.0, 2.0, 1.0]
    assert table["risk"].tolist()[1:] == [0.7, 0.5]
    assert history_table(pd.DataFrame()).empty


def test_a_report_without_data_leaves_out_what_it_cannot_show(front: sjepa.Front) -> None:
    page = render(collect(front))
    assert 'id="pareto"' in page and "Simulated" not in page and "Portrait" not in page


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: write_report(sjepa.SJEPA(), p / "r.html"), "not fitted"),
        (lambda p: write_report("law", p / "r.html"), "a model, a front or a law"),
        (lambda p: write_report(sjepa.Law.from_string("x", ["x"]), p / "no" / "r.html"), "create it"),
        (lambda p: write_report(sjepa.Law.from_string("x", ["x"]), p), "is a folder"),
        (lambda p: collect(sjepa.Law.from_string("x", ["x"]), np.ones((5, 1))), "times as t"),
        (lambda p: collect(sjepa.Law.from_string("x", ["x"]), np.ones((5, 3)), 0.1), "not the state"),
        (lambda p: collect(sjepa.Law.from_string("x+u", ["x", "u"], ["x"]), np.ones((5, 1)), 0.1), "actions u"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_in_one_line(make: object, message: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, DataError), match=message) as refusal:
        make(tmp_path)  # type: ignore[operator]
    assert "\n" not in str(refusal.value)
    assert not list(tmp_path.iterdir())
