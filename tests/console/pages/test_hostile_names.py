"""Names that others choose run in no view."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from tests.console.pages.served import EVIL, NEEDS_BROWSER, VIEWS, Served, detail, rows

pytestmark = NEEDS_BROWSER


@pytest.mark.parametrize("view", VIEWS)
def test_names_that_others_choose_run_nowhere(view: str, page: Page, served: Served) -> None:
    """Paths, revisions, bundles, labels and keys of inputs."""
    for text in EVIL:
        served.record_hostile(text)
        served.write(text, text)
    page.goto(f"{served.url}{view}")
    if view == "/revisions":
        expect(page.locator("h2", has_text="javascript:window.hit=1")).to_be_visible()
        for summary in page.locator("summary").all():
            summary.click()
    if view == "/decisions":
        expect(rows(page).nth(len(EVIL) - 1)).to_be_visible()
        for number in range(len(EVIL)):
            rows(page).nth(number).click()
            expect(detail(page).locator("h3", has_text="Input")).to_be_visible()
    if view == "":
        page.get_by_text("Parts, caches and bundles").click()
        page.get_by_text("Status of bundles").click()
        expect(page.locator(".worker pre").first).to_contain_text("revision")
    expect(page.locator("main")).not_to_contain_text("Loading")
    assert page.evaluate("window.hit") is None
    assert page.locator("iframe, main script, img, main svg").count() == 0
