"""Chromium for tests, of which nothing is expected to be fast.

Pages with the same options share a context, and are closed by `close_page`, which leaves nothing of
them behind: a context of its own costs each page half a second of CPU. They also share a process,
for which an empty page of their host stays open: a process of its own costs 0.3 s.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright
from tests.waiting import PATIENCE

__all__ = ["CHROMIUM", "chromium", "close_page", "new_page"]

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
_MILLISECONDS: Final = 1_000 * PATIENCE

_CONTEXTS: Final[dict[Browser, dict[str, BrowserContext]]] = {}
"""Of each browser, by their options."""
_EMPTY: Final[dict[BrowserContext, Page]] = {}
"""The page of each context that keeps the process of the other ones."""
_ARGUMENTS: Final = ("--no-sandbox", "--process-per-site")

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
            for context in _CONTEXTS.pop(browser, {}).values():
                _EMPTY.pop(context, None)
            browser.close()


def new_page(browser: Browser, **options: Any) -> Page:
    """A page in a context with these options."""
    contexts = _CONTEXTS.setdefault(browser, {})
    key = repr(sorted(options.items()))
    if key not in contexts:
        contexts[key] = browser.new_context(**options)
    page = contexts[key].new_page()
    page.set_default_timeout(_MILLISECONDS)
    return page


def close_page(page: Page) -> None:
    """Close a page, and forget what it stored."""
    with suppress(Error):  # a page that failed to load has no storage
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    page.context.clear_cookies()
    _keep_process(page)
    page.close()


def _keep_process(page: Page) -> None:
    """Open an empty page of the same host, of which no server hears, unless there is one."""
    site = urlsplit(page.url)
    if site.scheme != "http" or not site.hostname:
        return
    if page.context not in _EMPTY:
        _EMPTY[page.context] = page.context.new_page()
        _EMPTY[page.context].route("**", lambda route: route.fulfill(content_type="text/html"))
    empty = _EMPTY[page.context]
    if urlsplit(empty.url).hostname != site.hostname:
        empty.goto(f"http://{site.netloc}/", timeout=_MILLISECONDS)
