"""The pane of one decision: its reasons, its policy, and what would change it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.console.pages.served import NEEDS_BROWSER, Served, detail

pytestmark = NEEDS_BROWSER


def test_a_tree_opens_and_leads_into_the_policy(page: Page, served: Served) -> None:
    decision_id = served.decide("bob", "/tree")
    page.goto(f"{served.url}/decisions#decision={decision_id}")
    tree = detail(page).locator(".tree")
    expect(tree.locator("li.failed")).to_contain_text("input.user ==")
    expect(tree).to_contain_text('input.user "bob"')
    tree.get_by_role("button", name="policy.rego:8").click()
    line = detail(page).locator(".source .line.target")
    expect(line).to_contain_text("did not hold")
    expect(line).to_be_in_viewport()
    expect(detail(page).locator(".source .line.held", has_text="input.method")).to_be_visible()
    detail(page).get_by_role("button", name="What is below app.allow").click()
    expect(tree.locator("li")).to_have_count(1)


def test_a_button_finds_what_would_have_to_change(page: Page, served: Served) -> None:
    decision_id = served.decide("bob", "/change")
    page.goto(f"{served.url}/decisions#decision={decision_id}")
    detail(page).get_by_role("button", name="What would have to change?").click()
    edits = detail(page).locator(".edits")
    expect(edits).to_contain_text("input.user")
    expect(edits).to_contain_text("<img src=x")
    assert page.evaluate("window.hit") is None


def test_a_decision_is_tried_with_changes(page: Page, served: Served) -> None:
    decision_id = served.decide("bob", "/tried")
    page.goto(f"{served.url}/decisions#decision={decision_id}")
    detail(page).get_by_role("link", name="Try changes").click()
    expect(page.get_by_role("textbox")).to_have_value(re.compile('"path": "/tried"'))
    expect(page.locator(".side.answer .facts")).to_contain_text("Denied")


def test_a_decision_that_is_not_kept_is_shown_from_the_log(page: Page, served: Served) -> None:
    served.write("eve", "past")
    page.goto(f"{served.url}#decision=past-eve-past")
    expect(detail(page)).to_contain_text("From the log")
    expect(
        detail(page).get_by_role("link", name="Explain with the active policies")
    ).to_be_visible()
    expect(detail(page)).to_contain_text("Masked: /input/password")
    expect(detail(page)).not_to_contain_text("hunter2")
