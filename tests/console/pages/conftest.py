"""A server of each file, and a browser: pages that report what they must not do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from tests.browser import chromium, close_page, new_page
from tests.console.pages.served import Served

from doorward.console import help_pages


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.close()


HELP = """<!doctype html>
<title>Help</title><script>document.title = "Helped"</script><p>Read this.</p>
<script src="site.js"></script><img src=x onerror="window.hit = 1">"""


@pytest.fixture(scope="module", autouse=True)
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A documentation of one page, whether the site was built here or not."""
    folder = tmp_path_factory.mktemp("help")
    (folder / "index.html").write_text(HELP)
    (folder / "site.js").write_text(
        "document.head.append(Object.assign(document.createElement('style'),"
        " {textContent: 'body { width: 77px }'})); document.body.append('Loaded.')"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(help_pages, "FOLDER", folder)
        yield


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """A page that fails the test where it asks elsewhere, or its policy refuses something."""
    page = new_page(browser)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on(
        "request",
        lambda r: problems.append(r.url) if f"127.0.0.1:{served.port}/" not in r.url else None,
    )
    yield page
    close_page(page)
    assert [each for each in problems if not each.startswith("data:")] == []
