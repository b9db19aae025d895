"""Views without an answer, without rows, and without a place."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import NEEDS_BROWSER, Served

pytestmark = NEEDS_BROWSER


def test_a_view_that_gets_no_answer_says_so(browser: Browser, served: Served) -> None:
    """Failed at first, then displayed, then stale."""
    page = new_page(browser)
    page.route("**/api/policies", lambda route: route.abort())
    page.goto(f"{served.url}/policies")
    expect(page.get_by_role("alert")).to_contain_text("the server does not answer")
    page.unroute("**/api/policies")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".heat")).to_be_visible()
    page.route("**/api/policies", lambda route: route.abort())
    expect(page.locator(".banner")).to_contain_text("Not updated since")
    expect(page.locator(".heat")).to_be_visible()
    close_page(page)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        ("/decisions?text=nothing-has-this", "No kept decision matches"),
        ("/decisions#decision=nothing", "no longer kept"),
        ("/nothing", "There is no such view"),
    ],
)
def test_what_is_empty_says_what_to_do(
    view: str, text: str, browser: Browser, served: Served
) -> None:
    page = new_page(browser)
    page.goto(f"{served.url}{view}")
    expect(page.locator("body")).to_contain_text(text)
    close_page(page)


def test_a_view_that_does_not_exist_leads_to_those_that_do(
    browser: Browser, served: Served
) -> None:
    page = new_page(browser)
    answer = page.goto(f"{served.url}/nowhere")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator("main")).to_contain_text("There is no such view.")
    page.locator("main").get_by_role("link", name="Overview").click()
    expect(page.locator("h1")).to_have_text("Overview")
    close_page(page)
    for path in ("api", "api/nothing", "static/nothing.js"):
        status, text = served.get(f"/console/{path}")
        assert (status, "<html" in text) == (404, False), path
