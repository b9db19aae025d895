"""The pictures of the documentation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import NEEDS_BROWSER, PICTURED, SIGNS, VIEWS, Served

pytestmark = NEEDS_BROWSER


PICTURES = Path(__file__).parents[3] / "docs/pictures"


@pytest.mark.parametrize("view", VIEWS)
def test_pictures_of_the_documentation_are_of_this_console(
    view: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> None:
    """With DOORWARD_PICTURES=1 they are taken again."""
    served = Served(tmp_path_factory.mktemp("pictures"), policy=PICTURED)
    request.addfinalizer(served.close)
    ids = [served.decide_people(number) for number in range(38)]
    last = ids[-1]  # bob, who may not create a Bob
    page = new_page(browser, viewport={"width": 1200, "height": 720})
    if view == "/log":
        for number in range(15):
            served.write_people(number)
    page.goto(f"{served.url}{view}{f'#decision={last}' if view == '/decisions' else ''}")
    if view == "/request":
        page.get_by_role("textbox").fill('{"method": "GET", "role": "visitor", "user": "dave"}')
        expect(page.locator(".side.answer .tree")).to_be_visible()
    expect(page.locator(SIGNS[view]).first).to_be_visible()
    picture = page.screenshot()
    close_page(page)
    file = PICTURES / f"console{view.replace('/', '-')}.png"
    if os.environ.get("DOORWARD_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        file.write_bytes(picture)
    # Times and fonts differ from one machine to the next; the size of what is shown does not.
    assert picture[16:24] == file.read_bytes()[16:24]
    assert file.name in (PICTURES.parent / "console.md").read_text()
