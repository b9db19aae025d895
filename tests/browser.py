"""Chromium for tests, of which nothing is expected to be fast."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.waiting import PATIENCE

__all__ = ["CHROMIUM", "chromium", "new_page"]

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
_MILLISECONDS: Final = 1_000 * PATIENCE

expect.set_options(timeout=_MILLISECONDS)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=_MILLISECONDS
        )
        try:
            yield browser
        finally:
            browser.close()


def new_page(browser: Browser, **options: Any) -> Page:
    """A page in a context of its own, as `Browser.new_page` makes it; close its `context`."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(_MILLISECONDS)
    return page
