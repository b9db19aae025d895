"""Every view in a window as narrow as that of a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import NEEDS_BROWSER, VIEWS, Served, detail

pytestmark = NEEDS_BROWSER


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """One page that visits everything, and stores nothing."""
    page = new_page(browser)
    yield page
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    close_page(page)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [320, 390, 640, 768, 800, 900])
def test_a_narrow_window_shows_all_without_scrolling_aside(
    view: str, width: int, page: Page, served: Served
) -> None:
    served.decide("bob")
    if view == "/log":
        served.write("bob", "/people")
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{served.url}{view}")
    expect(page.locator("main")).not_to_contain_text("Loading")
    brand = page.locator(".brand")
    before = brand.bounding_box()
    page.get_by_role("button", name="Menu").click()
    # A menu that opens moves nothing of the header.
    assert brand.bounding_box() == before
    assert before is not None
    assert before["y"] >= 0
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(9)
    expect(page.get_by_role("link", name="Playground", exact=True)).to_be_in_viewport()
    page.get_by_role("button", name="Menu").click()
    if view == "/decisions":
        page.get_by_role("button", name="Filters").click()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(CUT_OFF) == []
    header = page.locator(".top").bounding_box()
    assert header is not None
    assert header["height"] < 60


CUT_OFF = """() => {
    const inside = ".skip, .hidden, .cm-editor, .heat, .table, .aside-scroll, .source, pre";
    const all = document.querySelectorAll("a, button, input, select, textarea, label, h1, h2, p");
    return [...all].filter((each) => {
        const { left, right, width } = each.getBoundingClientRect();
        if (!width || each.closest(inside)) return false;
        if (getComputedStyle(each).clipPath !== "none") return false;
        return left < -1 || right > innerWidth + 1;
    }).map((each) => each.outerHTML.slice(0, 200));
}"""
"""Controls and texts that reach beyond a window, in whatever clips them there."""


def test_what_is_masked_stays_inside_a_narrow_window(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{served.url}/decisions#decision={served.decide('bob')}")
    expect(detail(page)).to_contain_text("Masked:")
    assert page.evaluate(CUT_OFF) == []
