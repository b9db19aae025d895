"""The overview: the state of a decision point."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import NEEDS_BROWSER, Served

pytestmark = NEEDS_BROWSER


def test_the_state_holds_what_the_status_says(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.get_by_text("Parts, caches and bundles").click()
    page.get_by_text("Status of bundles").click()
    expect(page.locator("details pre").last).to_contain_text("active_revision")
    assert page.evaluate("window.hit") is None


def test_an_overview_without_its_server_does_not_say_healthy(
    browser: Browser, served: Served
) -> None:
    page = new_page(browser)
    page.goto(served.url)
    expect(page.locator(".health")).to_contain_text("Healthy")
    page.route("**/api/**", lambda route: route.abort())
    expect(page.locator(".health")).to_contain_text("not known: the server does not answer")
    expect(page.locator(".banner").first).to_contain_text("Not updated since")
    close_page(page)
