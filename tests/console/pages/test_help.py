"""The documentation as a part of the console."""

from __future__ import annotations

import gzip
import http.client
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import NEEDS_BROWSER, Served
from tests.waiting import PATIENCE

from doorward.console import help_pages

pytestmark = NEEDS_BROWSER


def test_help_is_the_documentation_and_runs_its_own_scripts_alone(
    browser: Browser, served: Served
) -> None:
    page = new_page(browser)
    page.goto(f"{served.url}/decisions")
    page.get_by_role("link", name="Help").click()
    expect(page.locator("body")).to_contain_text("Read this.")
    expect(page.locator("body")).to_contain_text("Loaded.")
    assert (page.title(), page.evaluate("window.hit")) == ("Helped", None)
    assert page.evaluate("document.body.clientWidth") == 77  # a style of a script's
    close_page(page)
    assert served.get("/console/help")[0] == 303
    for path in ("nothing.html", "../app.py", "%2e%2e/app.py", "index.html/x"):
        assert served.get(f"/console/help/{path}")[0] in (307, 404), path


def test_help_that_was_not_built_is_a_view_that_says_how_to_get_it(
    browser: Browser, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(help_pages, "FOLDER", tmp_path)
    monkeypatch.setattr(help_pages, "CHECKOUT", tmp_path)
    page = new_page(browser)
    page.goto(f"{served.url}/decisions")
    page.get_by_role("link", name="Help").click()
    expect(page.locator("h1")).to_have_text("Help")
    expect(page.locator("main")).to_contain_text("make site in the clone builds it")
    page.reload()
    expect(page.locator("main")).to_contain_text("make site in the clone builds it")
    close_page(page)
    status, text = served.get("/console/help/index.html")
    assert (status, "`make site` builds it" in text) == (404, True)


def test_help_of_a_clone_is_what_make_site_left_there(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(help_pages, "FOLDER", tmp_path / "none")
    monkeypatch.setattr(help_pages, "CHECKOUT", tmp_path)
    site = tmp_path / "build/site"
    site.mkdir(parents=True)
    (site / "index.html").write_text("<body class=x>In the clone.</body>")
    # An installed package is not in a clone.
    assert served.get("/console/help/index.html")[0] == 404
    (tmp_path / "mkdocs.yml").touch()
    status, text = served.get("/console/help/index.html")
    assert (status, "In the clone." in text) == (200, True)
    assert 'In the clone.<nav aria-label="Console"' in text


def test_texts_are_sent_as_gzip_to_those_who_take_it(served: Served) -> None:
    for path in ("static/console.js", "help/index.html"):
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
        connection.request("GET", f"/console/{path}", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        content = gzip.decompress(answer.read()).decode()
        assert answer.headers["content-encoding"] == "gzip"
        connection.close()
        assert content == served.get(f"/console/{path}")[1]
