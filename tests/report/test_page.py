"""What the page says, without a browser."""

import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import sjepa
from sjepa.errors import ConfigError, DataError
from sjepa.report import ReportData, collect, render, write_report
from sjepa.report.comparison import MAX_LAWS, MAX_SIMULATED
from sjepa.report.content import entries_of
from sjepa.report.history import history_table
from sjepa.report.video import video_of
from sjepa.symbolic.intervals import Interval
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
    # Nothing but what the page itself holds: drawings refer to their own parts by "#name".
    assert not re.search(r'(?:src|href)=(?!"data:,"|"#)', page)
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", page)
    assert "default-src 'none'" in page


def test_texts_from_files_stay_texts(evil: ReportData) -> None:
    seen = Elements(render(evil))
    assert seen.tags["script"] == 1 and seen.tags["style"] == 1 and "img" not in seen.tags
    assert not {a for a in seen.attributes if a.startswith("on")}
    # Title (twice), note, fact, backend, trajectory, training caption, recipe: word for word.
    assert seen.text.count(EVIL) >= 7


def test_every_law_of_the_front_is_on_the_page(front: sjepa.Front) -> None:
    page = render(collect(front, pendulum()))
    assert page.count('class="point') == len(front)
    assert page.count("<math>") >= 2 * sum(len(c.law.outputs) for c in front)
    assert page.count('class="point chosen"') == 1
    assert page.count('data-text="latex"') == page.count('data-text="json"') == len(front)


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
    entries, start = entries_of(other, front)
    assert (start, len(entries)) == (i, len(front)) and entries[i].law == other
    stranger = sjepa.Law.from_string("q*p", ["q", "p"])
    entries, start = entries_of(stranger, front)
    assert start == len(front) and entries[start].law == stranger


def test_a_diverging_law_is_shown_and_said() -> None:
    law = sjepa.Law.from_string(["q**2 + 1", "p"], ["q", "p"])
    content = collect(law, pendulum())
    assert any("leave every bound" in warning for warning in content.warnings)
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
    moves = content.entries[0].simulator is not None
    assert page.count("<svg") >= (3 if len(law.inputs) >= columns and moves else 0)
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S).lower()


def test_actions_enter_the_simulation() -> None:
    # x' = -x + u with u = sin t from x(0) = 0 is (sin t - cos t + exp(-t)) / 2.
    t = np.linspace(0, 6, 600)
    exact = (np.sin(t) - np.cos(t) + np.exp(-t)) / 2
    data = sjepa.Trajectories(exact[:, None], t, np.sin(t)[:, None])
    content = collect(sjepa.Law.from_string("u1 - x", ["x", "u1"], ["x"]), data)
    # Actions are held for a step of 0.01: half a step late on average.
    np.testing.assert_allclose(
        content.entries[0].paths[0][:, 0],
        exact[np.searchsorted(t, content.trails[0].t)],
        atol=0.005,
    )
    page = render(content)
    assert page.count('class="action') == 1 and "that were applied: u₁" in page


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
    assert 'id="pareto"' in page and "Simulated" not in page and "Phase portrait" not in page


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


def test_every_law_of_the_front_has_paths_and_scores_of_its_own(front: sjepa.Front) -> None:
    """Against the law's own simulation and score."""
    data = pendulum()
    content = collect(front, data)
    assert len(content.entries) == len(front) <= MAX_LAWS
    for entry, candidate in zip(content.entries, front, strict=True):
        assert entry.law == candidate.law
        assert entry.score == pytest.approx(entry.law.score(data), abs=1e-3)
        own = entry.law.simulate(data.x[1][0], data.t[1]).z
        rows = np.searchsorted(data.t[1], content.trails[1].t)
        np.testing.assert_allclose(entry.paths[1], own[rows], atol=2e-3)
    drawings = render(content).split("<svg")[1:]
    for law in range(len(front)):  # three paths, two residuals, a portrait
        assert sum(f'<g data-law="{law}"' in one for one in drawings) == 3 + 2 + 1


def test_each_trajectory_has_the_score_of_its_own_name() -> None:
    data = pendulum()
    data.ids = ("calm", "lively", "wild")
    law = sjepa.Law.from_string(["p", "-1.6*q"], ["q", "p"])
    content = collect(law, data)
    assert content.trajectories == data.ids
    for i, score in enumerate(content.entries[0].scores):
        assert score == pytest.approx(law.score(data[i]), abs=1e-9)
    text = Elements(render(content)).text
    assert f"lively: R² {content.entries[0].scores[1]:.4f}" in text.replace("−", "-")


def test_held_out_data_are_scored_and_nothing_is_claimed_without_them(front: sjepa.Front) -> None:
    data, law = pendulum(), sjepa.Law.from_string(["p", "-1.6*q - 0.2*p"], ["q", "p"])
    assert "no data held out" in Elements(render(collect(law, data[:2]))).text
    content = collect(law, data[:2], held_out=data[2:])
    assert content.entries[0].held_out == pytest.approx(law.score(data[2:]), abs=1e-9)
    text = Elements(render(content)).text
    assert "no data held out" not in text and "R² of paths held out" in text
    # The search itself compares laws, and says how far each is behind the chosen one.
    assert front.verdict is not None
    text = Elements(render(collect(front, data))).text
    assert "Evidence" in text and front.verdict.word in text


def test_what_a_law_misses_of_the_velocities_is_a_missing_term() -> None:
    """Without its friction the residual of p' is -0.2 p."""
    content = collect(sjepa.Law.from_string(["p", "-1.7*q"], ["q", "p"]), pendulum())
    residual, points = content.entries[0].residual, content.points
    assert residual is not None and points is not None
    np.testing.assert_allclose(residual[:, 1], -0.2 * points[:, 1], atol=1e-3)
    np.testing.assert_allclose(residual[:, 0], 0, atol=1e-3)


@pytest.mark.filterwarnings("ignore::sjepa.errors.NumericalWarning")  # free runs miss a little
def test_form_and_noise_are_said_in_words(front: sjepa.Front) -> None:
    data = pendulum()
    clean = Elements(render(collect(front, data))).text
    assert "time derivatives, point by point" in clean and "none to be seen" in clean
    rng = np.random.default_rng(0)
    data.x = [x + 0.01 * x.std(axis=0) * rng.normal(size=x.shape) for x in data.x]
    noisy = collect(sjepa.discover(data), data)
    assert "weak form" in noisy.facts["Fitted to"]
    shares = [float(n) for n in re.findall(r"([\d.]+) %", noisy.facts["Noise, of the spread"])]
    assert len(shares) == 2 and all(0.7 < share < 1.3 for share in shares)


def test_many_trajectories_and_laws_make_no_endless_page(front: sjepa.Front) -> None:
    many = sjepa.Front(front.candidates * 6, front.measure, "", chosen=0)
    data = pendulum()
    crowd = sjepa.Trajectories(data.x * 10, data.t * 10, names=data.names)
    content = collect(many, crowd)
    assert sum(bool(e.paths) for e in content.entries) <= MAX_LAWS
    assert len(content.trajectories) <= MAX_SIMULATED < len(crowd)
    page = render(content)
    assert len(page) < 1_500_000
    assert "R² of each of the" in page


def test_laws_with_coordinates_of_their_own_are_not_run_in_those_of_another(
    front: sjepa.Front,
) -> None:
    """A search for coordinates has an encoder for each law, and keeps one."""
    data = pendulum()
    model = sjepa.SJEPA(encoder="identity").fit(data)
    model.front_ = replace(front, form="")
    content = collect(model, data)
    assert [bool(e.paths) for e in content.entries].count(True) == 1
    assert "Paths are drawn for the chosen law" in render(content)


def test_pictures_become_a_video(recorded: tuple[sjepa.SJEPA, sjepa.Trajectories]) -> None:
    model, videos = recorded
    content = collect(model, videos)
    assert content.video is not None and len(content.video.frames) <= 40
    page = render(content)
    address = re.search(r'src="data:image/png;base64,([^"]+)"', page)
    assert address is not None
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(address[1]))))
    # The first frame is in the corner, and its spot where the coordinate says.
    brightest = sheet[:12, :24].sum(axis=0).argmax()
    assert np.linspace(-1.5, 1.5, 24)[brightest] == pytest.approx(content.video.z[0, 0], abs=0.1)
    assert collect(model.law_).video is None


def test_a_video_shows_the_middle_of_the_windows_of_a_history(
    recorded: tuple[sjepa.SJEPA, sjepa.Trajectories],
) -> None:
    model, videos = recorded
    whole = collect(model, videos).video
    z = model.encode(videos)[0][3:-3]
    video = video_of(videos, z, 3)
    assert whole is not None and video is not None
    assert video.t[0] == videos.t[0][3] and video.t[-1] == videos.t[0][-4]
    np.testing.assert_array_equal(video.z[0], z[0])
    column = np.linspace(-1.5, 1.5, 24)[video.frames[0].sum(axis=0).argmax()]
    assert column == pytest.approx(float(z[0, 0]), abs=0.1)


def test_actions_may_be_given_beside_observations_and_times(tmp_path: Path) -> None:
    t = np.arange(0, 8, 0.05)
    law = sjepa.Law.from_string(["p", "-q + u"], ["q", "p", "u"], ["q", "p"])
    x, u = np.stack([1 - np.cos(t), np.sin(t)], axis=1), np.ones((len(t), 1))
    assert collect(law, [x], t, [u]).score > 0.999
    model = sjepa.SJEPA(encoder="identity", library=["z2", "z1", "u1"]).fit(
        [x, 2 * x], t, [u, 2 * u]
    )
    page = model.report(tmp_path / "r.html", [x], t, [u]).read_text()
    assert "the actions that were applied" in page


def test_a_given_video_is_shown_in_place_of_the_data(
    recorded: tuple[sjepa.SJEPA, sjepa.Trajectories],
) -> None:
    model, videos = recorded
    episode = sjepa.Trajectories(
        [videos.x[1][10:30]], [videos.t[1][10:30]], ids=["an episode under control"]
    )
    for data in (videos, None):
        content = collect(model, data, video=episode)
        assert content.video is not None and len(content.video.frames) == 20
        np.testing.assert_allclose(content.video.z, model.encode(videos.x[1])[10:30])
        assert "Frames of an episode under control" in render(content)
    bare = collect(model, video=videos.x[1][10:30])
    assert bare.video is not None and "the video that was given" in render(bare)
    with pytest.raises(ConfigError, match="report of a model"):
        collect(model.law_, video=episode)


def test_readings_are_no_video() -> None:
    data = pendulum()
    model = sjepa.SJEPA(encoder="identity").fit(data)
    with pytest.raises(DataError, match="are no pictures"):
        collect(model, data, video=data)


def test_intervals_of_the_terms_are_shown_where_they_were_asked_for(front: sjepa.Front) -> None:
    assert "Uncertainty of each term" not in render(collect(front))
    rows = (Interval("p", "q", -1.7, -1.72, -1.69, 1.0), Interval("p", "q**3", 0, 0, 0, 0.15))
    text = Elements(render(collect(replace(front, intervals=rows)))).text
    assert "pq−1.7−1.72 to −1.69100%" in text and "q**3 (in its place)15%" in text
