"""The page in a real Chromium: no errors, no requests, hover and click work, it fits and prints."""

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
    return str(browser.run("document.querySelector('#panel > div:not([hidden])').innerText"))


def test_pointing_shows_a_law_and_clicking_keeps_it(
    browser: Browser, page: Path, front: sjepa.Front
) -> None:
    browser.show(page)
    assert browser.run("document.querySelectorAll('.point').length") == len(front)
    chosen = shown(browser)
    assert "chosen" in chosen
    browser.move(".point[data-law='0'] .dot")
    assert f"Complexity {front.complexity(front[0]):g}," in shown(browser)
    browser.move("h1")
    assert shown(browser) == chosen
    browser.click(".point[data-law='1'] .dot")
    browser.move("h1")
    assert f"Complexity {front.complexity(front[1]):g}," in shown(browser)
    assert browser.run("document.querySelectorAll('.point.shown').length") == 1
    assert browser.problems == []


def test_the_front_can_be_walked_with_the_keyboard(
    browser: Browser, page: Path, front: sjepa.Front
) -> None:
    browser.show(page)
    browser.run("document.querySelector('.point[data-law=\"0\"]').focus()")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.dataset.law") == "1"
    browser.press("Enter")
    browser.run("document.activeElement.blur()")
    assert f"Complexity {front.complexity(front[1]):g}," in shown(browser)


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
        "(document.querySelector('.law math'))"
    )
    assert heights[0] > heights[1] > 5


def test_it_prints(browser: Browser, page: Path) -> None:
    browser.show(page, 1100, "dark")
    document = browser.pdf()
    assert document.startswith(b"%PDF") and b"/Page" in document
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('#panel')).display") == "none"


def test_a_page_without_a_front_has_no_script_errors(browser: Browser, tmp_path: Path) -> None:
    law = sjepa.Law.from_string(["p", "-q"], ["q", "p"])
    browser.show(write_report(collect(law), tmp_path / "law.html"))
    assert browser.problems == []
