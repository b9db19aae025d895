"""The policies, with what decisions reached in them."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import EVIL, NEEDS_BROWSER, POLICY, Served

from doorward.bundles.loader import Loaded
from doorward.pdp.snapshot import Settings, build

pytestmark = NEEDS_BROWSER


def test_policies_show_what_no_decision_reached(page: Page, served: Served) -> None:
    served.decide(EVIL[1], "/allowed")
    served.decide("bob", "/denied")
    page.goto(f"{served.url}/policies")
    row = page.locator(".heat tr.head.held")
    expect(row).to_contain_text("allow if {")
    expect(page.get_by_role("status")).to_contain_text("of 2 definitions answered")
    expect(page.locator(".never")).to_contain_text("app.unused")
    expect(page.locator(".heat")).to_contain_text("<script>window.hit=1</script>")
    assert page.evaluate("window.hit") is None


def test_tests_and_metadata_are_beside_the_policies(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> None:
    served = Served(tmp_path_factory.mktemp("tested"))
    request.addfinalizer(served.close)
    noted = f"# METADATA\n# title: {EVIL[0]}\n{POLICY}"
    tests = "package app_test\n\ntest_it if data.app.allow with input as {}\n\ntest_ok if true\n"
    tests += '\nnever_eve if input.user == "eve"\n'
    files = {"policy.rego": noted, "policy_test.rego": tests}
    served.pdp.replace(build(Loaded(files), Settings(marked=True)))
    page = new_page(browser)
    page.goto(f"{served.url}/policies")
    page.get_by_text("Description", exact=True).click()
    expect(page.locator(".notes")).to_contain_text(EVIL[0])
    page.get_by_role("button", name="Run the tests").click()
    expect(page.locator(".tests")).to_contain_text("1 test passed, 1 did not")
    expect(page.locator(".tests")).to_contain_text("data.app_test.test_it")
    expect(page.locator(".tests")).to_contain_text("counterexample data.app_test.never_eve")
    assert page.evaluate("window.hit") is None
    close_page(page)
