"""Everybody can use every view, by the rules of axe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import EVIL, NEEDS_BROWSER, SIGNS, VIEWS, Served

pytestmark = NEEDS_BROWSER


AXE = Path(__file__).parents[3] / "console/node_modules/axe-core/axe.min.js"


@pytest.mark.parametrize("view", [*VIEWS, "/nowhere"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(view: str, scheme: Any, browser: Browser, served: Served) -> None:
    served.decide(EVIL[1])  # allowed, which the candidate denies
    decision_id = served.decide("bob")
    page = new_page(browser, bypass_csp=True, color_scheme=scheme)
    if view == "/log":
        served.write("bob", "/people")
    chosen = f"#decision={decision_id}" if view == "/decisions" else ""
    page.goto(f"{served.url}{view}{chosen}")
    expect(page.locator(SIGNS[view]).first).to_be_visible()
    page.add_script_tag(path=AXE)
    report = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    for width in (1024, 1920, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
    close_page(page)
    violations = [(each["id"], [n["html"] for n in each["nodes"]]) for each in report["violations"]]
    assert violations == []
