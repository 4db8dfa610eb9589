"""The page in a real Chromium: it follows clicks, copies, fits and prints, without errors."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

import sjepa
from sjepa.report import ReportData, collect, write_report
from tests.report.browser import PROGRAM, Browser
from tests.report.conftest import EVIL, pendulum


pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = Browser()
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def page(front: sjepa.Front, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(front, path, pendulum(), title="A pendulum")


def shown(browser: Browser) -> str:
    return str(browser.run("document.querySelector('#card > div:not([hidden])').innerText"))


def visible(browser: Browser, selector: str) -> list[str]:
    """The text or the lines of what is seen and belongs to one law."""
    return list(
        browser.run(
            f"[...document.querySelectorAll({selector!r})]"
            ".filter(e => e.getClientRects().length && !e.closest('[hidden]'))"
            ".map(e => e.getAttribute('d') || e.textContent)"
        )
    )


def test_clicking_a_law_makes_everything_follow(
    browser: Browser, page: Path, front: sjepa.Front
) -> None:
    """Equations, numbers, paths, what they miss, directions, residuals and scores."""
    browser.show(page)
    assert browser.run("document.querySelectorAll('.point').length") == len(front)
    parts = [
        "#card > [data-law]", "dl.facts[data-law]", "g[data-law].path path",
        "g[data-law] .missed path", "g[data-law] .dots path", "g[data-law].arrow path",
        "figcaption [data-law]",
    ]  # fmt: skip
    chosen = {part: visible(browser, part) for part in parts}
    assert all(chosen.values()) and "The chosen law" in shown(browser)
    browser.click(".point[data-point='1'] .dot")
    browser.move("h1")
    assert "Not the chosen law" in shown(browser)
    for part in parts:
        followed = visible(browser, part)
        assert followed != chosen[part], part
        # Fewer terms may have fewer arrows, but every trajectory keeps its path.
        assert followed and ("arrow" in part or len(followed) == len(chosen[part])), part
    second = collect(front, pendulum()).entries[1]
    assert f"R² {second.scores[0]:.4f}".replace("-", "−") in visible(
        browser, "figcaption [data-law]"
    )
    assert f"{front[1].terms:g} (terms)" in visible(browser, "dl.facts[data-law]")[0]
    browser.click("#back")
    assert {part: visible(browser, part) for part in parts} == chosen
    assert browser.problems == []


def test_pointing_shows_a_law_and_leaves_the_page(
    browser: Browser, page: Path, front: sjepa.Front
) -> None:
    browser.show(page)
    chosen, paths = shown(browser), visible(browser, "g[data-law].path path")
    browser.move(".point[data-point='0'] .dot")
    assert shown(browser) != chosen
    assert visible(browser, "g[data-law].path path") == paths
    browser.move("h1")
    assert shown(browser) == chosen
    assert browser.run("document.querySelectorAll('.point.shown').length") == 1


def test_the_front_can_be_walked_with_the_keyboard(
    browser: Browser, page: Path, front: sjepa.Front
) -> None:
    browser.show(page)
    browser.run("document.querySelector('.point[data-point=\"0\"]').focus()")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.dataset.point") == "1"
    browser.press("Enter")
    browser.run("document.activeElement.blur()")
    assert f"{front[1].terms:g} (terms)" in visible(browser, "dl.facts[data-law]")[0]


@pytest.mark.parametrize("granted", [True, False], ids=["clipboard", "old browser"])
def test_the_shown_law_is_copied_as_latex_python_and_json(
    browser: Browser, page: Path, front: sjepa.Front, granted: bool
) -> None:
    browser.show(page)
    if not granted:
        browser.run("Object.defineProperty(navigator, 'clipboard', {value: undefined}), 0")
    browser.click(".point[data-point='2'] .dot")
    law = front[2].law
    for name, text in (("latex", law.latex()), ("python", law.python()), ("json", law.to_json())):
        browser.click(f"button[data-copy={name}]")
        browser.until("document.getElementById('copied').textContent === 'copied'")
        assert browser.pasted() == text
    assert browser.problems == []


def test_without_a_script_the_chosen_law_is_there(
    browser: Browser, page: Path, front: sjepa.Front
) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.show(page)
        assert "The chosen law" in shown(browser)
        assert len(visible(browser, "g[data-law].path path")) == 6
        assert visible(browser, "button") == []
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_a_video_plays_beside_its_coordinates(
    browser: Browser, recorded: tuple[sjepa.SJEPA, sjepa.Trajectories], tmp_path: Path
) -> None:
    model, videos = recorded
    browser.show(write_report(model, tmp_path / "video.html", videos))
    place = "document.getElementById('now').getAttribute('transform')"
    before, words = browser.run(place), browser.run("document.getElementById('when').textContent")
    assert words.startswith("t = 0: z₁ = ")
    browser.click("#play")
    browser.until(f"{place} !== {before!r}")
    browser.click("#play")
    assert browser.run("document.getElementById('play').textContent") == "Play"
    box = "document.getElementById('video').getBoundingClientRect()"
    assert browser.run(f"{box}.width / {box}.height") == pytest.approx(2.0, abs=0.05)
    assert browser.problems == [] and len(browser.requests) == 2  # the page, and its own picture
    assert browser.requests[1].startswith("data:image/png")


def test_nothing_is_fetched_and_nothing_complained_about(browser: Browser, page: Path) -> None:
    browser.show(page)
    assert browser.requests == [page.as_uri()]
    assert browser.problems == []


def test_texts_from_files_do_nothing(browser: Browser, evil: ReportData, tmp_path: Path) -> None:
    browser.show(write_report(evil, tmp_path / "evil.html"))
    assert browser.run("window.hacked === undefined")
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.title") == EVIL
    assert browser.problems == [] and len(browser.requests) == 1


@pytest.mark.parametrize("width", [320, 375, 768, 1100])
def test_nothing_is_wider_than_the_screen(
    browser: Browser, page: Path, evil: ReportData, tmp_path: Path, width: int
) -> None:
    for path in (page, write_report(evil, tmp_path / "evil.html")):
        browser.show(path, width)
        assert browser.run("document.documentElement.scrollWidth") <= width


def test_letters_are_readable_on_a_telephone(browser: Browser, page: Path) -> None:
    browser.show(page, 375)
    smallest = browser.run(
        "Math.min(...[...document.querySelectorAll('svg text')].map("
        "t => parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.clientWidth / 420))"
    )
    assert smallest >= 8.5


def test_dark_and_light_have_contrast(browser: Browser, page: Path) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        browser.show(page, 1100, scheme)
        picture = Image.open(io.BytesIO(browser.picture())).convert("L")
        low, high = picture.getextrema()
        brightness[scheme] = picture.getpixel((5, 5))
        assert high - low > 180  # type: ignore[operator]
    assert brightness["light"] > 230 and brightness["dark"] < 50  # type: ignore[operator]


def test_formulae_are_typeset_with_a_visible_dot(browser: Browser, page: Path) -> None:
    browser.show(page)
    heights = browser.run(
        "(m => [m.querySelector('mover').getBoundingClientRect().height, "
        "m.querySelector('mover > mi').getBoundingClientRect().height])"
        "(document.querySelector('#card > :not([hidden]) math'))"
    )
    assert heights[0] > heights[1] > 5


def test_it_prints(browser: Browser, page: Path) -> None:
    browser.show(page, 1100, "dark")
    document = browser.pdf()
    assert document.startswith(b"%PDF") and b"/Page" in document
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert visible(browser, "button") == []
    assert len(visible(browser, "g[data-law].path path")) == 6


def test_a_page_without_a_front_has_no_script_errors(browser: Browser, tmp_path: Path) -> None:
    law = sjepa.Law.from_string(["p", "-q"], ["q", "p"])
    browser.show(write_report(collect(law), tmp_path / "law.html"))
    assert browser.problems == []
