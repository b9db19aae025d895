"""Chromium for tests, of which nothing is expected to be fast.

Pages share a context, and are closed by `close_page`, which leaves nothing of them behind: each
context costs half a second of CPU. They share a process as well, for which an empty page stays
open.

A headless shell is Chromium without the windows and menus around a page, which take a third of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)
from tests.waiting import PATIENCE

__all__ = ["CHROMIUM", "chromium", "close_page", "new_page"]

_NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM: Final = next(filter(None, map(shutil.which, _NAMES)), None)
_MILLISECONDS: Final = 1_000 * PATIENCE

_CONTEXTS: Final[dict[tuple[Browser, bool], BrowserContext]] = {}
"""Of each browser, the one where policies for scripts hold, and the one where they do not."""
_ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
)
"""Not `--disable-threaded-compositing`, with which some pages draw no frame that a click waits for,
and not `--single-process`, which ends with a page."""

expect.set_options(timeout=_MILLISECONDS)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=_ARGUMENTS, timeout=_MILLISECONDS
        )
        try:
            yield browser
        finally:
            for bypass_csp in (False, True):
                _CONTEXTS.pop((browser, bypass_csp), None)
            browser.close()


def new_page(
    browser: Browser,
    *,
    bypass_csp: bool = False,
    viewport: ViewportSize | None = None,
    color_scheme: Literal["light", "dark"] | None = None,
) -> Page:
    """A page, where the policy of a server for its scripts holds or, for a test's own, not."""
    key = browser, bypass_csp
    if key not in _CONTEXTS:
        _CONTEXTS[key] = browser.new_context(bypass_csp=bypass_csp)
        _CONTEXTS[key].new_page()  # it keeps the process of the others
    page = _CONTEXTS[key].new_page()
    page.set_default_timeout(_MILLISECONDS)
    if viewport is not None:
        page.set_viewport_size(viewport)
    if color_scheme is not None:
        page.emulate_media(color_scheme=color_scheme)
    return page


def close_page(page: Page) -> None:
    """Close a page, and forget what it stored."""
    with suppress(Error):  # a page that failed to load has no storage
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    page.context.clear_cookies()
    page.close()
