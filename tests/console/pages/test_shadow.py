"""The decisions that a candidate decides otherwise."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from tests.console.pages.served import EVIL, NEEDS_BROWSER, Served, detail, rows

pytestmark = NEEDS_BROWSER


def test_shadow_shows_what_a_candidate_decides_otherwise(page: Page, served: Served) -> None:
    decision_id = served.decide(EVIL[1], "/allowed")
    page.goto(f"{served.url}/shadow")
    expect(rows(page).first).to_contain_text("new-deny")
    expect(page.locator(".table")).to_contain_text('input.method == "POST"')
    rows(page).first.click()
    expect(detail(page)).to_contain_text("app/allow")
    assert decision_id in [each["id"] for each in served.shadow.document()["differences"]]
    assert page.evaluate("window.hit") is None
