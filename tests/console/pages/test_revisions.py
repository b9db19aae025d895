"""The revisions, with what each decided and changed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import EVIL, NEEDS_BROWSER, POLICY, Served

from doorward.bundles.loader import Loaded
from doorward.pdp.snapshot import Settings, build

pytestmark = NEEDS_BROWSER


def test_revisions_show_what_each_decided(page: Page, served: Served) -> None:
    served.decide(EVIL[1], "/allowed")
    served.decide("bob", "/denied")
    page.goto(f"{served.url}/revisions")
    expect(page.locator("article p").first).to_contain_text("denied")
    page.locator("summary").first.click()
    expect(page.locator("table.minutes tbody tr").first).to_be_visible()
    assert page.evaluate("window.hit") is None


def test_a_revision_says_what_it_changed(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> None:
    served = Served(tmp_path_factory.mktemp("changed"))
    request.addfinalizer(served.close)
    served.decide(EVIL[1], "/changed")
    text = POLICY.replace('"GET"', '"POST"')
    served.pdp.replace(build(Loaded({"policy.rego": text}), Settings(marked=True)))
    served.decide("bob", "/after")
    page = new_page(browser)
    page.goto(f"{served.url}/revisions")
    expect(page.get_by_role("article").first).to_contain_text("in force")
    page.get_by_role("button", name="What did it change?").click()
    expect(page).to_have_url(re.compile("compare="))
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Compare with the active policies").first.click()
    changed = page.get_by_role("article", name="What changed")
    expect(changed).to_contain_text(
        "Of 1 kept decision of that revision 1 is decided differently now"
    )
    expect(changed.locator(".diff .added").last).to_contain_text('input.method == "POST"')
    expect(changed.locator(".changes")).to_contain_text("GET /changed")
    assert page.evaluate("window.hit") is None
    close_page(page)
