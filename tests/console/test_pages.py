"""The pages in a real browser: nothing in a decision or a policy runs, and all can use them."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, Route, expect
from tests.browser import CHROMIUM, chromium, close_page, new_page
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.loader import Loaded
from doorward.bundles.sources import Sources
from doorward.config.configuration import Config
from doorward.config.configuration import Shadow as ShadowOptions
from doorward.console import AuditTail, Console, Process, Ring, Traffic, help_pages
from doorward.console.app import SEARCHES, STREAMS, is_host_allowed
from doorward.console.log_query import Question, Search
from doorward.console.pages import is_built
from doorward.docker.audit import AuditLog, Entry
from doorward.docker.reply import Verdict
from doorward.edge import Parts
from doorward.pdp.pdp import PDP, Tee
from doorward.pdp.snapshot import Settings, build
from doorward.replay.deciding import Version
from doorward.replay.shadow import Shadow
from doorward.rest.app import Api
from doorward.rest.server import HttpServer, Listener, bind
from doorward.telemetry.health import Health, State
from doorward.telemetry.metrics import Metrics
from doorward.transport.peers import Mailbox, Peers

AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
EVIL = [
    "<script>window.hit=1</script>",
    "<img src=x onerror='window.hit=1'>",
    '"><svg onload=window.hit=1>',
    "javascript:window.hit=1",
    "{{constructor.constructor('window.hit=1')()}}",
    "</pre><iframe srcdoc='<script>parent.hit=1</script>'>",
    "\u202ehidden\u0000\u001b[31m",
]
POLICY = """package app

# <script>window.hit=1</script>
default allow := false

allow if {
	input.method == "GET"
	input.user == "<img src=x onerror='window.hit=1'>"
}

unused if input.never
"""
PICTURED = """package people

default allow := false

# Guests read; admins create people as well.
allow if {
	input.method == "GET"
	input.role in {"guest", "admin"}
}

allow if {
	input.method == "POST"
	input.role == "admin"
	lower(input.body.firstname) != input.user
}
"""
"""The policy of the pictures, in which nobody attacks."""
REVISIONS = {text: EVIL[0] for text in EVIL}
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
    pytest.mark.skipif(not is_built(), reason="the console is not built"),
]


VIEWS = ["", "/decisions", "/log", "/request", "/policies", "/revisions", "/shadow", "/playground"]
SIGNS = {
    "": ".overview .ranks",
    "/decisions": ".tree",
    "/log": ".table .verdict",
    "/request": ".try textarea",
    "/policies": ".heat .held",
    "/revisions": ".u-wrap",
    "/shadow": ".table .verdict",
    "/playground": ".side .cm-line span",
    "/nowhere": ".state a",
}
"""What is there when a view is complete."""
PICTURES = Path(__file__).parents[2] / "docs/pictures"


class Served:
    """A decision point with its console, on a port of its own."""

    def __init__(self, folder: Path, peers: Peers | None = None, policy: str = POLICY) -> None:
        ring, traffic = Ring(), Traffic()
        candidate = folder / "candidate.rego"
        candidate.write_text(policy.replace('"GET"', '"POST"'))
        options = ShadowOptions((str(candidate),), share=1.0, max_age=60.0)
        self.shadow = Shadow(
            Version.load(Sources([str(candidate)])),
            options,
            on_kind=lambda _: None,
            on_dropped=lambda _: None,
        )
        self.audit = folder / "audit.log"
        self.pdp = PDP(
            build(
                Loaded({"policy.rego": policy}, revisions=REVISIONS if policy == POLICY else {}),
                Settings(marked=True),
            ),
            Tee(ring, Tee(traffic, Tee(self.shadow, None))),
        )
        health = Health()
        health.set("bundle", State.OK)
        process = Process(
            self.pdp,
            ring,
            health,
            number=0 if peers is None else peers.number,
            traffic=traffic,
            shadow=self.shadow.document,
            docker=AuditTail(str(self.audit)),
            status=lambda: {"bundles": {EVIL[0]: {"active_revision": EVIL[1]}}},
        )
        self.log = folder / "decisions.jsonl"
        self.console = Console(process, peers=peers, log=lambda: [str(self.log)])
        parts = self.pdp, Config(), health, Metrics("test")
        api = Api(*parts, diagnostic=True, console=self.console.answer)
        self.port = free_port()
        address = f"127.0.0.1:{self.port}"
        self.url = f"http://{address}/console"
        self.server = HttpServer([Listener(address, bind(address), api)])
        self.server.start()

    def decide(self, user: str, path: str = "/") -> str:
        document: Any = {"method": "GET", "user": user, "path": path, "password": "hunter2"}
        decision = self.pdp.decide("app/allow", document)
        self.pdp.record(decision, document)
        return decision.decision_id

    def decide_people(self, number: int) -> str:
        """Record a decision of the policy of the pictures, one of a mix."""
        user, role = (("ann", "admin"), ("bob", "admin"), ("carol", "guest"), ("dave", "visitor"))[
            number % 4
        ]
        document: Any = {"method": "GET", "path": f"/people/{number % 7}"}
        if number % 3 == 1:
            document = {"method": "POST", "path": "/people", "body": {"firstname": "Bob"}}
        document |= {"user": user, "role": role}
        decision = self.pdp.decide("people/allow", document)
        self.pdp.record(decision, document)
        return decision.decision_id

    def record_hostile(self, text: str) -> str:
        """Record a decision of which everything that others may name is `text`."""
        document: Any = {"method": text, "path": text, text: text, "labels": {text: [text]}}
        decision = self.pdp.decide("app/allow", document)
        decision = decision._replace(path=text, revision=text, result={text: text})
        self.pdp.record(decision, document)
        return decision.decision_id

    def write(self, user: str, path: str) -> None:
        """Put a decision into the log, as of the past."""
        event = {
            "decision_id": f"past-{user}-{path}",
            "timestamp": "2026-11-23T10:00:00Z",
            "path": f"app/{path}",
            "input": {"method": user, "path": path, "password": "hunter2"},
            "result": user == "ann",
            "bundles": {user: {"revision": user}},
            "error": {"message": path} if user in EVIL else None,
            "custom": {"rules": [{"path": user, "file": path, "row": 1, "failed": 2}]},
        }
        with self.log.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def write_people(self, number: int) -> None:
        """Put a decision of the policy of the pictures into the log."""
        event = {
            "decision_id": f"past-{number}",
            "timestamp": f"2026-11-23T10:{30 - number:02}:07Z",
            "path": "people/allow",
            "input": {"method": "GET", "path": f"/people/{number % 7}", "user": "carol"},
            "result": number % 4 > 0,
            "metrics": {"timer_rego_query_eval_ns": 9_000 + 700 * number},
            "bundles": {"people": {"revision": "2026-11-20"}},
        }
        with self.log.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def status_of_a_stream(self, **headers: str) -> int:
        """What a stream is answered with; it is not read any further."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/console/api/decisions", headers=headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def get(
        self, path: str, method: str = "GET", body: str = "", **headers: str
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        return answer.status, content


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.console.close()
    served.shadow.close()
    served.server.close()


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


@pytest.fixture(scope="module")
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


def rows(page: Page) -> Any:
    """The rows of the table that are elements."""
    return page.locator(".table .body .row")


def detail(page: Page) -> Any:
    """The pane with one decision."""
    return page.get_by_role("complementary", name="One decision")


def test_decisions_come_in_and_nothing_in_them_runs(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/decisions")
    for text in EVIL:
        served.decide(text, text)
    expect(rows(page).first).to_be_visible()
    served.decide("last", "/last")
    expect(rows(page).first).to_contain_text("GET /last")
    for number in range(len(EVIL)):
        rows(page).nth(number + 1).click()
        expect(detail(page).locator("h3", has_text="Why")).to_be_visible()
        expect(detail(page)).not_to_contain_text("hunter2")
    assert page.evaluate("window.hit") is None
    assert page.locator("iframe, svg, main script, img").count() == 0


@pytest.mark.parametrize("view", VIEWS)
def test_names_that_others_choose_run_nowhere(view: str, page: Page, served: Served) -> None:
    """Paths, revisions, bundles, labels and keys of inputs."""
    for text in EVIL:
        served.record_hostile(text)
        served.write(text, text)
    page.goto(f"{served.url}{view}")
    if view == "/revisions":
        expect(page.locator("h2", has_text="javascript:window.hit=1")).to_be_visible()
        for summary in page.locator("summary").all():
            summary.click()
    if view == "/decisions":
        expect(rows(page).nth(len(EVIL) - 1)).to_be_visible()
        for number in range(len(EVIL)):
            rows(page).nth(number).click()
            expect(detail(page).locator("h3", has_text="Input")).to_be_visible()
    if view == "":
        page.get_by_text("Parts, caches and bundles").click()
        page.get_by_text("Status of bundles").click()
        expect(page.locator(".worker pre").first).to_contain_text("revision")
    expect(page.locator("main")).not_to_contain_text("Loading")
    assert page.evaluate("window.hit") is None
    assert page.locator("iframe, main script, img, main svg").count() == 0


def test_ten_thousand_decisions_a_minute_are_shown_without_a_stutter(
    browser: Browser, served: Served
) -> None:
    """What comes in a quarter of a second at this rate takes scripts, styles and layout of the page
    half of what makes a task a long one (50 ms). This is CPU: a busy machine changes nothing, and
    what it takes to draw without a graphics card is not of the page."""
    rounds, each_round = 24, 42
    page = new_page(browser)
    page.goto(f"{served.url}/decisions")
    served.decide("bob", "/round-first")
    expect(rows(page).first).to_contain_text("/round-first")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = busy_ms(session)
    for number in range(rounds):
        for _ in range(each_round):
            served.decide("bob", f"/round-{number}")
        page.wait_for_function(FIRST_ROW, arg=f"/round-{number}", polling=100)
    spent = busy_ms(session) - before
    assert 0 < spent / rounds < 25
    # Nothing was left out on the way, and the page keeps what it may.
    expect(page.locator(".connection")).not_to_contain_text("too fast")
    assert rows(page).count() < 60
    close_page(page)


FIRST_ROW = "text => document.querySelector('.table .body .row').textContent.includes(text)"


def busy_ms(session: CDPSession) -> float:
    """CPU of the main thread of a page: its scripts, styles and layout."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    known = {each["name"]: float(each["value"]) for each in metrics}
    names = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    return 1_000 * sum(known[name] for name in names)


def test_a_page_of_several_workers_says_who_decided_and_who_is_silent(
    browser: Browser, tmp_path: Path
) -> None:
    mailboxes = [Mailbox() for _ in range(3)]
    one, other = (Served(tmp_path, Peers(number, mailboxes)) for number in (0, 1))
    other.console.serve(Parts())
    page = new_page(browser)
    try:
        page.goto(f"{one.url}/decisions")
        one.decide("bob", "/here")
        other_id = other.decide(EVIL[0], "/there")
        expect(rows(page)).to_have_count(2)
        expect(page.locator(".connection")).to_contain_text("without worker 2")
        row = rows(page).filter(has_text="/there")
        expect(row.get_by_role("cell").last).to_have_text("1")
        row.click()
        expect(detail(page)).to_contain_text(other_id[:8])
        expect(detail(page).locator("h3", has_text="Why")).to_be_visible()
        page.get_by_role("link", name="Overview").click()
        expect(page.locator(".health")).to_contain_text("worker 2: does not answer")
        page.get_by_text("Parts, caches and bundles").click()
        expect(page.locator("h3")).to_have_text(["Worker 0", "Worker 1", "Worker 2"])
        assert page.evaluate("window.hit") is None
    finally:
        close_page(page)
        # What the page asked waits for the silent worker as long as this does, and ends before it.
        assert one.get("/console/api/search?limit=0")[0] == 200
        for each in (one, other):
            each.console.close()
            each.shadow.close()
            each.server.close()
        for mailbox in mailboxes:
            mailbox.close()


def test_decisions_from_before_a_restart_are_marked(page: Page, served: Served) -> None:
    started = [1_000]

    def answer(route: Route) -> None:
        route.fulfill(json={"workers": [{"since_ms": started[0]}]})

    def end(route: Route) -> None:
        # The stream ends, and the browser begins the next one after `retry`.
        body = json.dumps({"decisions": [], "docker": [], "skipped": 0, "seconds": []} | LIVE)
        route.fulfill(content_type="text/event-stream", body=f"retry: 50\ndata: {body}\n\n")

    page.route("**/console/api/state", answer)
    page.route("**/console/api/decisions", end)
    served.decide("bob", "/before")
    with page.expect_response("**/console/api/state"):
        page.goto(f"{served.url}/decisions")
    expect(rows(page).first).to_be_visible()
    expect(page.locator(".connection")).not_to_contain_text("restart")
    started[0] = 4_000_000_000_000
    expect(page.locator(".connection")).to_contain_text("from before the restart at")


LIVE = {"silent": [], "workers": 1}


def test_a_list_is_filtered_and_stands_still_when_told(page: Page, served: Served) -> None:
    served.decide("bob", "/filtered")
    served.decide(EVIL[1], "/allowed")
    page.goto(f"{served.url}/decisions")
    page.get_by_label("Search").fill("/filtered")
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="Allowed", exact=True).click()
    expect(rows(page).first).to_contain_text("/allowed")
    expect(page.locator(".table .deny")).to_have_count(0)
    page.get_by_role("button", name="Pause").click()
    served.decide(EVIL[1], "/later")
    page.get_by_role("button", name="Continue").click()
    served.decide(EVIL[1], "/even-later")
    expect(rows(page).first).to_contain_text("/even-later")


def test_the_playground_evaluates_what_is_typed(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/playground")
    expect(page.locator(".cm-content").first).to_contain_text("default allow")
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")  # that of the open file
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".result")).to_have_text("true")  # by an input for which it is
    page.get_by_role("textbox", name="Input").fill('{"user": "ann"}')
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".result")).to_have_text("false")
    expect(page.locator(".playground")).to_contain_text("does not hold")
    expect(page.locator(".cm-gutterElement.covered").first).to_be_visible()
    page.get_by_role("button", name="Python").click()
    expect(page.locator(".python")).to_contain_text("def ")
    page.get_by_label("Query").fill("data.app.")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".errors")).to_contain_text("rego_parse_error")
    page.evaluate("navigator.clipboard.writeText = async () => {}")
    page.get_by_role("button", name="Share as link").click()
    page.wait_for_url("**/playground#share=*")
    page.reload()
    expect(page.get_by_label("Query")).to_have_value("data.app.")
    assert page.evaluate("window.hit") is None


@pytest.mark.parametrize("number", range(8))
def test_an_example_has_an_answer_at_the_first_click(
    number: int, page: Page, served: Served
) -> None:
    page.goto(f"{served.url}/playground")
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")
    page.get_by_label("Example").select_option(str(number))
    expect(page.get_by_label("Query")).not_to_have_value("data.app.allow")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".result")).not_to_have_text("undefined")
    expect(page.locator(".errors")).to_have_count(0)
    if number == 4:
        expect(page.locator(".result")).to_contain_text("WHERE")
        expect(page.locator(".side tbody tr")).to_have_count(2)
    if number == 6:
        expect(page.locator(".outcomes").first).to_contain_text("counterexample")


def test_an_example_stays_when_an_answer_about_the_file_before_comes_late(
    page: Page, served: Served
) -> None:
    late: list[Route] = []
    page.route("**/playground/begin", lambda route: late.append(route))
    with page.expect_request("**/playground/begin"):
        page.goto(f"{served.url}/playground")
    page.get_by_label("Example").select_option("0")
    text = page.get_by_role("textbox", name="Input")
    expect(text).to_contain_text("Charlie")
    with page.expect_response("**/playground/begin"):
        late[0].continue_()
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".result")).to_have_text("true")
    expect(text).to_contain_text("Charlie")
    page.get_by_label("Case").select_option("1")
    expect(page.locator(".result")).to_have_text("true")
    page.get_by_label("Case").select_option("2")
    expect(page.locator(".result")).to_have_text("false")


def test_files_are_added_renamed_deleted_and_dropped(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/playground")
    file = page.get_by_role("combobox", name="File")
    expect(file).to_have_value("policy.rego")
    page.get_by_role("button", name="New file").click()
    page.get_by_label("Name of the file").fill("other.rego")
    page.keyboard.press("Enter")
    expect(file).to_have_value("other.rego")
    expect(page.get_by_role("textbox", name="Policy")).to_contain_text("package other")
    page.get_by_role("button", name="Suggest query").click()
    expect(page.get_by_label("Query")).to_have_value("data.other")
    page.evaluate(DROP, {"name": EVIL[0] + ".rego", "text": "package dropped"})
    expect(page.get_by_role("textbox", name="Policy")).to_contain_text("package dropped")
    page.evaluate(DROP, {"name": "input.json", "text": '{"dropped": 1}'})
    expect(page.get_by_role("textbox", name="Input")).to_contain_text("dropped")
    page.get_by_role("button", name="Delete").click()
    expect(file.locator("option")).to_have_text(["policy.rego", "other.rego"])
    assert page.evaluate("window.hit") is None


def test_a_new_file_is_evaluated_and_proved_at_once_on_a_phone(
    browser: Browser, served: Served
) -> None:
    page = new_page(browser, viewport={"width": 390, "height": 844})
    page.goto(f"{served.url}/playground")
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")
    page.get_by_role("button", name="New file").click()
    page.get_by_label("Name of the file").fill("2 guests.rego")
    page.keyboard.press("Enter")
    policy = page.get_by_role("textbox", name="Policy")
    expect(policy).to_contain_text("package _2_guests")
    policy.fill(
        'package guests\n\nallow if input.role == "guest"\n\n'
        'never_others if {\n\tallow\n\tinput.role != "guest"\n}\n'
    )
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".result")).to_have_text("true")
    expect(page.get_by_label("Query")).to_have_value("data.guests.allow")
    expect(page.locator(".outcomes")).to_contain_text("no input makes it true")
    expect(page.get_by_role("heading", name="Answer")).to_be_in_viewport()
    # A query that somebody typed stays, and so does the input.
    page.get_by_role("textbox", name="Input").fill('{"role": "admin"}')
    page.get_by_role("button", name="New file").click()
    page.keyboard.press("Enter")
    page.get_by_label("Query").fill("input.role")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".result")).to_have_text('"admin"')
    close_page(page)


@pytest.mark.parametrize("editor", ["Policy", "Input", "Data", "Query", ""])
def test_ctrl_enter_evaluates_wherever_one_types(editor: str, page: Page, served: Served) -> None:
    page.goto(f"{served.url}/playground")
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")
    text = page.get_by_role("textbox", name="Policy")
    before = text.inner_text()
    if editor:
        page.get_by_role("textbox", name=editor, exact=True).focus()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".result")).to_have_text("true")
    assert text.inner_text() == before


def test_an_answer_comes_before_its_proofs_and_those_of_other_files_are_folded(
    page: Page, served: Served
) -> None:
    late: list[Route] = []
    page.route("**/playground/prove", lambda route: late.append(route))
    page.goto(f"{served.url}/playground")
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")
    never = "never_x if {\n\tinput.a == 1\n\tinput.a == 2\n}\n"
    for name in ("one", "two"):
        page.evaluate(DROP, {"name": f"{name}.rego", "text": f"package {name}\n\n{never}"})
        expect(page.get_by_role("combobox", name="File")).to_have_value(f"{name}.rego")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".result")).to_have_text("true")
    expect(page.locator(".waits")).to_have_text("Proving the rules of this file…")
    expect(page.locator(".outcomes")).to_have_count(0)
    wait_until(lambda: _is_there(page, late, 1))
    late[0].continue_()
    expect(page.locator(".outcomes")).to_contain_text("data.two.never_x")
    wait_until(lambda: _is_there(page, late, 2))
    late[1].continue_()
    expect(page.locator(".waits")).to_have_count(0)
    expect(page.locator(".playground summary")).to_have_text("1 in other files: 1 proved")
    expect(page.get_by_text("data.one.never_x")).to_be_hidden()


def _is_there(page: Page, late: list[Route], count: int) -> bool:
    page.evaluate("0")  # lets routes arrive
    return len(late) >= count


def test_an_answer_of_an_earlier_text_says_so(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/playground")
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".result")).to_have_text("true")
    expect(page.locator(".covered").first).to_be_visible()
    expect(page.locator(".earlier")).to_have_count(0)
    append(page, "allow if")
    expect(page.locator(".earlier")).to_contain_text("Of an earlier text")
    expect(page.locator(".covered")).to_have_count(0)
    page.get_by_role("button", name="Format").click()
    expect(page.get_by_role("note")).to_contain_text("Not formatted")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.locator(".errors")).to_contain_text("rego_parse_error")
    expect(page.locator(".earlier, .result, .outcomes")).to_have_count(0)


def test_a_draft_survives_a_reload_and_other_views(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/playground")
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")
    page.get_by_role("button", name="New file").click()
    page.keyboard.press("Enter")
    append(page, "allow if input.mine")
    page.get_by_role("textbox", name="Input").fill('{"mine": true}')
    page.get_by_label("Query").fill("data.policy1.allow")
    for leave in (page.reload, lambda: _visit(page, "Overview")):
        leave()
        expect(page.get_by_role("textbox", name="Policy")).to_contain_text("input.mine")
        expect(page.get_by_role("textbox", name="Input")).to_contain_text("mine")
        expect(page.get_by_label("Query")).to_have_value("data.policy1.allow")
        expect(page.get_by_role("note")).to_contain_text("Your draft")
    # An example asks before it takes its place.
    answers = iter([False, True])
    page.on("dialog", lambda each: each.accept() if next(answers) else each.dismiss())
    page.get_by_label("Example").select_option("0")
    expect(page.get_by_role("textbox", name="Policy")).to_contain_text("input.mine")
    expect(page.get_by_label("Example")).to_have_value("")
    page.get_by_label("Example").select_option("0")
    expect(page.get_by_role("textbox", name="Policy")).to_contain_text("package people")
    expect(page.get_by_label("Example")).to_have_value("0")
    page.reload()
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")


def append(page: Page, text: str) -> None:
    """Type into the last line of the open policy."""
    page.get_by_role("textbox", name="Policy").focus()
    page.keyboard.press("Control+End")
    page.keyboard.type(text)
    page.keyboard.press("Escape")  # the list of completions


def _visit(page: Page, view: str) -> None:
    page.get_by_role("link", name=view, exact=True).click()
    expect(page.locator(".playground")).to_have_count(0)
    page.go_back()


def test_a_draft_is_left_for_the_policies_in_force(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/playground")
    expect(page.get_by_label("Query")).to_have_value("data.app.allow")
    append(page, "mine if input.mine")
    page.reload()
    expect(page.get_by_role("textbox", name="Policy")).to_contain_text("mine if input.mine")
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_role("textbox", name="Policy")).not_to_contain_text("mine")
    expect(page.get_by_role("button", name="Start over")).to_have_count(0)


def test_a_playground_alone_leads_to_no_other_view(browser: Browser) -> None:
    console = Console()
    parts = PDP(build(Loaded({}), Settings())), Config(), Health(), Metrics("test")
    api = Api(*parts, diagnostic=True, console=console.answer)
    address = f"127.0.0.1:{free_port()}"
    server = HttpServer([Listener(address, bind(address), api)])
    server.start()
    page = new_page(browser)
    try:
        page.goto(f"http://{address}/console/decisions")
        expect(page.get_by_role("main")).to_contain_text("There is no such view.")
        views = page.get_by_role("navigation").get_by_role("link")
        expect(views).to_have_text(["Playground", "Help"])
        page.get_by_role("link", name="Doorward").click()
        expect(page.get_by_role("button", name="Evaluate")).to_be_visible()
    finally:
        close_page(page)
        console.close()
        server.close()


DROP = """({ name, text }) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name));
    const event = new DragEvent("drop", { bubbles: true, dataTransfer: transfer });
    document.querySelector(".playground").dispatchEvent(event);
}"""


def shared(document: Any) -> str:
    """The part of a link that holds a document."""
    text = document if isinstance(document, bytes) else gzip.compress(json.dumps(document).encode())
    return "#share=" + base64.urlsafe_b64encode(text).decode().rstrip("=")


@pytest.mark.parametrize(
    ("fragment", "said"),
    [
        ("#share=%00", "The link cannot be read"),
        (shared(b"no gzip"), "The link cannot be read"),
        (shared([]), "The link cannot be read"),
        (shared({"files": {"a": {"toString": 1}}}), "its parts are not texts"),
        (shared({"files": {"a": "x"}, "query": EVIL}), "its parts are not texts"),
        (shared({"files": {"a": " " * (3 << 20)}}), "it is too large"),
        (shared({"files": {each: each for each in EVIL}, "query": EVIL[0], "input": EVIL[1]}), ""),
        ("#" + EVIL[0], ""),
    ],
    ids=range(8),
)
def test_a_link_of_anybody_runs_nothing(
    fragment: str, said: str, page: Page, served: Served
) -> None:
    errors: list[Any] = []
    page.on("pageerror", lambda error: errors.append(error))
    page.goto(f"{served.url}/playground{fragment}")
    expect(page.get_by_role("status")).to_contain_text(said or "Evaluate with")
    # What is opened takes the place of an answer: only then is the answer that of the click.
    expect(page.get_by_label("Query")).not_to_have_value("")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_role("status")).not_to_contain_text("Evaluate with")
    assert (page.evaluate("window.hit"), errors) == (None, [])


def test_the_keyboard_leaves_an_editor(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/playground")
    page.get_by_role("textbox", name="Policy").click()
    for _ in range(2):
        page.keyboard.press("Tab")  # it indents
    expect(page.get_by_role("textbox", name="Policy")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.get_by_role("textbox", name="Input")).to_be_focused()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [320, 390, 640, 768, 800, 900])
def test_a_narrow_window_shows_all_without_scrolling_aside(
    view: str, width: int, browser: Browser, served: Served
) -> None:
    served.decide("bob")
    if view == "/log":
        served.write("bob", "/people")
    page = new_page(browser, viewport={"width": width, "height": 844})
    try:
        page.goto(f"{served.url}{view}")
        expect(page.locator("main")).not_to_contain_text("Loading")
        brand = page.locator(".brand")
        before = brand.bounding_box()
        page.get_by_role("button", name="Menu").click()
        # A menu that opens moves nothing of the header.
        assert brand.bounding_box() == before
        assert before is not None
        assert before["y"] >= 0
        expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(9)
        expect(page.get_by_role("link", name="Playground", exact=True)).to_be_in_viewport()
        page.get_by_role("button", name="Menu").click()
        if view == "/decisions":
            page.get_by_role("button", name="Filters").click()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.evaluate(CUT_OFF) == []
        header = page.locator(".top").bounding_box()
        assert header is not None
        assert header["height"] < 60
    finally:
        close_page(page)


CUT_OFF = """() => {
    const inside = ".skip, .hidden, .cm-editor, .heat, .table, .aside-scroll, .source, pre";
    const all = document.querySelectorAll("a, button, input, select, textarea, label, h1, h2, p");
    return [...all].filter((each) => {
        const { left, right, width } = each.getBoundingClientRect();
        if (!width || each.closest(inside)) return false;
        if (getComputedStyle(each).clipPath !== "none") return false;
        return left < -1 || right > innerWidth + 1;
    }).map((each) => each.outerHTML.slice(0, 200));
}"""
"""Controls and texts that reach beyond a window, in whatever clips them there."""


def test_what_is_masked_stays_inside_a_narrow_window(browser: Browser, served: Served) -> None:
    page = new_page(browser, viewport={"width": 390, "height": 844})
    page.goto(f"{served.url}/decisions#decision={served.decide('bob')}")
    expect(detail(page)).to_contain_text("Masked:")
    assert page.evaluate(CUT_OFF) == []
    close_page(page)


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


def test_a_view_that_does_not_exist_leads_to_those_that_do(
    browser: Browser, served: Served
) -> None:
    page = new_page(browser)
    answer = page.goto(f"{served.url}/nowhere")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator("main")).to_contain_text("There is no such view.")
    page.locator("main").get_by_role("link", name="Overview").click()
    expect(page.locator("h1")).to_have_text("Overview")
    close_page(page)
    for path in ("api", "api/nothing", "static/nothing.js"):
        status, text = served.get(f"/console/{path}")
        assert (status, "<html" in text) == (404, False), path


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
    for close in (served.server.close, served.console.close, served.shadow.close):
        request.addfinalizer(close)
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


def test_revisions_show_what_each_decided(page: Page, served: Served) -> None:
    served.decide(EVIL[1], "/allowed")
    served.decide("bob", "/denied")
    page.goto(f"{served.url}/revisions")
    expect(page.locator("article p").first).to_contain_text("denied")
    page.locator("summary").first.click()
    expect(page.locator("table.minutes tbody tr").first).to_be_visible()
    assert page.evaluate("window.hit") is None


def test_shadow_shows_what_a_candidate_decides_otherwise(page: Page, served: Served) -> None:
    decision_id = served.decide(EVIL[1], "/allowed")
    page.goto(f"{served.url}/shadow")
    expect(rows(page).first).to_contain_text("new-deny")
    expect(page.locator(".table")).to_contain_text('input.method == "POST"')
    rows(page).first.click()
    expect(detail(page)).to_contain_text("app/allow")
    assert decision_id in [each["id"] for each in served.shadow.document()["differences"]]
    assert page.evaluate("window.hit") is None


def test_the_log_is_searched_and_nothing_in_it_runs(page: Page, served: Served) -> None:
    served.log.write_text("")
    for text in EVIL:
        served.write(text, text)
    served.write("bob", "/past")
    page.goto(f"{served.url}/log")
    expect(rows(page).first).to_be_visible()  # the newest, before any search
    page.get_by_label("Text").fill("/past")
    page.get_by_role("button", name="Search").click()
    expect(rows(page)).to_have_count(1)
    expect(rows(page).first).to_contain_text("Deniedbob /past")
    # The address holds the question.
    page.wait_for_url("**/log?text=%2Fpast")
    page.get_by_label("Text").fill("/past denied")
    page.keyboard.press("Enter")
    page.wait_for_url("**/log?text=%2Fpast+denied")
    expect(rows(page)).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Text")).to_have_value("/past denied")
    expect(rows(page)).to_have_count(1)
    page.go_back()
    expect(page.get_by_label("Text")).to_have_value("/past")
    for since, count in (("2026-11-22T10:00", 1), ("2026-11-25T10:00", 0)):
        page.get_by_label("From").fill(since)
        page.get_by_role("button", name="Search").click()
        expect(rows(page)).to_have_count(count)
    page.get_by_label("From").fill("")
    page.get_by_label("Text").fill("")
    page.get_by_label("Answer").select_option("Error")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".filters [role=status]")).to_contain_text(f"{len(EVIL)} decisions")
    assert page.evaluate("window.hit") is None
    assert served.get("/console/api/decisions/past-bob-nothing")[0] == 404


def test_a_decision_that_is_not_kept_is_shown_from_the_log(page: Page, served: Served) -> None:
    served.write("eve", "past")
    page.goto(f"{served.url}#decision=past-eve-past")
    expect(detail(page)).to_contain_text("From the log")
    expect(
        detail(page).get_by_role("link", name="Explain with the active policies")
    ).to_be_visible()
    expect(detail(page)).to_contain_text("Masked: /input/password")
    expect(detail(page)).not_to_contain_text("hunter2")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("file=/etc/passwd", "unknown field: file"),
        ("verdict=no", "`verdict` must be one of"),
        (f"text={'x' * 201}", "text is longer than 200 characters"),
        ("since=0&until=now()", "`until` must be a time"),
    ],
)
def test_questions_to_the_log_are_few(query: str, said: str, served: Served) -> None:
    status, text = served.get(f"/console/api/log?{query}")
    assert (status, said in text) == (400, True)


def test_searches_of_the_log_wait_for_each_other(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def newest(_search: Search, _question: Question) -> dict[str, Any]:
        assert go_on.wait(PATIENCE)
        return {"decisions": [], "more": False, "unread": 0}

    monkeypatch.setattr(Search, "newest", newest)
    with ThreadPoolExecutor(SEARCHES + 1) as pool:
        searches = [pool.submit(served.get, "/console/api/log") for _ in range(SEARCHES + 1)]
        status, text = next(as_completed(searches)).result()  # the others have no answer yet
        go_on.set()
        statuses = [each.result()[0] for each in searches]
    assert (status, "too many searches" in text) == (400, True)
    assert sorted(statuses) == [200] * SEARCHES + [400]


def test_decisions_of_the_docker_plugin_are_in_the_same_list(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/decisions")
    log = AuditLog(str(served.audit))
    for number, text in enumerate(EVIL):
        call = {"User": text, "action": "create", "target": text, "Path": text}
        verdict = Verdict(False, text, text)
        log.write(Entry(verdict, call, f"d-{number}", "request", "POST", text, 0.001))
    log.close()
    page.get_by_label("Search").fill("docker")
    expect(rows(page)).to_have_count(len(EVIL))
    for number in range(len(EVIL)):
        rows(page).nth(number).click()
        expect(detail(page).locator("h3", has_text="Why")).to_be_visible()
        expect(detail(page).locator(".facts")).to_contain_text("docker")
    assert page.evaluate("window.hit") is None


def test_the_state_holds_what_the_status_says(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.get_by_text("Parts, caches and bundles").click()
    page.get_by_text("Status of bundles").click()
    expect(page.locator("details pre").last).to_contain_text("active_revision")
    assert page.evaluate("window.hit") is None


def test_a_group_filters_and_the_address_holds_the_filter(page: Page, served: Served) -> None:
    for _ in range(3):
        served.decide("grouped", "/grouped")
    page.goto(f"{served.url}/decisions?text=grouped")
    groups = page.get_by_role("complementary", name="Groups")
    groups.get_by_role("button").first.click()
    expect(page).to_have_url(re.compile(r"[?&]reason=allow"))
    expect(rows(page)).to_have_count(3)
    page.get_by_label("Group by").select_option("user")
    groups.get_by_role("button", name="grouped 3").click()
    expect(page.get_by_role("list", name="Filters in use")).to_contain_text("user grouped")
    page.reload()
    expect(rows(page)).to_have_count(3)
    page.get_by_role("button", name="Remove the filter user").click()
    expect(page).not_to_have_url(re.compile("user=grouped"))


def test_a_search_understands_words_and_a_time(page: Page, served: Served) -> None:
    served.decide("timely", "/timely")
    served.decide(EVIL[1], "/timely")
    page.goto(f"{served.url}/decisions")
    minute = page.evaluate("new Date().toTimeString().slice(0, 5)")
    page.get_by_label("Search").fill(f"timely denied {minute}")
    expect(page).to_have_url(re.compile(r"text=timely\+denied&since=\d+&until=\d+"))
    chips = page.get_by_role("list", name="Filters in use")
    expect(chips).to_contain_text(minute)
    # That minute may be over by now, on a machine that is busy.
    for name in ("from", "to"):
        page.get_by_role("button", name=f"Remove the filter {name}").click()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("Denied")


def test_groups_are_folded_where_a_window_is_narrow(browser: Browser, served: Served) -> None:
    served.decide("folded", "/folded")
    page = new_page(browser, viewport={"width": 390, "height": 700})
    page.goto(f"{served.url}/decisions?text=/folded")
    groups = page.get_by_role("complementary", name="Groups")
    expect(page.get_by_label("Group by")).to_have_count(0)
    groups.get_by_role("button", name="Group by").click()
    page.get_by_label("Group by").select_option("user")
    expect(groups.get_by_role("listitem")).to_contain_text("folded")
    groups.get_by_role("button", name="Close groups").click()
    expect(groups.get_by_role("listitem")).to_have_count(0)
    close_page(page)


def test_a_command_of_docker_is_tried_by_its_user(page: Page, served: Served) -> None:
    served.decide("bob", "/docker")
    page.goto(f"{served.url}/request")
    page.get_by_role("button", name="Docker").click()
    answer = page.locator(".side.answer")
    expect(answer).to_contain_text('"action": "container.create"')
    page.get_by_label("User of the Docker daemon").fill("ann")
    expect(answer).to_contain_text('"User": "ann"')


def test_keys_go_through_decisions(page: Page, served: Served) -> None:
    ids = [served.decide("keys", f"/keys-{number}") for number in range(3)]
    page.goto(f"{served.url}/decisions?text=/keys-")
    expect(rows(page)).to_have_count(3)
    for key, at in (("j", 2), ("j", 1), ("k", 2)):
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"#decision={ids[at]}"))
        # The next key goes on from the decision that is shown.
        expect(detail(page)).to_contain_text(f"/keys-{at}")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_label("Search")).to_have_value("j")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(detail(page)).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("the next or the previous decision")


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


def test_a_request_is_decided_as_one_types(page: Page, served: Served) -> None:
    served.decide("bob", "/typed")
    page.goto(f"{served.url}/request")
    text = page.get_by_role("textbox")
    text.fill(f"curl -H 'X: {EVIL[0]}' http://x/people")
    answer = page.locator(".side.answer")
    expect(answer.locator(".facts")).to_contain_text("Denied")
    text.fill(json.dumps({"method": "GET", "user": EVIL[1], "password": "hunter2"}))
    expect(answer.locator(".facts")).to_contain_text("Allowed")
    expect(answer).not_to_contain_text("hunter2")
    page.get_by_label("Find the smallest change").check()
    text.fill('{"method": "GET", "user": "bob"}')
    expect(answer.locator(".edits")).to_contain_text("input.user")
    assert page.evaluate("window.hit") is None


def test_a_request_is_there_again_when_one_comes_back(page: Page, served: Served) -> None:
    served.decide("bob")
    page.goto(f"{served.url}/request")
    paste = page.get_by_role("textbox", name="A command of curl")
    paste.fill('{"user": "penelope"}')
    expect(page.locator(".answer .verdict")).to_have_text("Denied")
    page.get_by_role("link", name="a decision").click()
    expect(page.locator(".decisions")).to_be_visible()
    page.go_back()
    expect(paste).to_have_value('{"user": "penelope"}')
    page.reload()
    expect(paste).to_have_value('{"user": "penelope"}')
    # An example asks before it takes the place of what was typed, and not of another example.
    answers = iter([False, True])
    page.on("dialog", lambda each: each.accept() if next(answers) else each.dismiss())
    page.get_by_role("button", name="curl", exact=True).click()
    expect(paste).to_have_value('{"user": "penelope"}')
    page.get_by_role("button", name="curl", exact=True).click()
    expect(paste).to_have_value(re.compile("^curl"))
    page.get_by_role("button", name="JSON", exact=True).click()
    expect(paste).to_have_value(re.compile("^{"))


def test_a_decision_is_tried_with_changes(page: Page, served: Served) -> None:
    decision_id = served.decide("bob", "/tried")
    page.goto(f"{served.url}/decisions#decision={decision_id}")
    detail(page).get_by_role("link", name="Try changes").click()
    expect(page.get_by_role("textbox")).to_have_value(re.compile('"path": "/tried"'))
    expect(page.locator(".side.answer .facts")).to_contain_text("Denied")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"text": "{}", "path": "secrets"}, "choose a path"),
        ({"text": "{}", "path": "app"}, "choose a path"),
        ({"text": "podman run x", "path": "app/allow"}, "paste a command"),
        ({"text": "docker compose up", "path": "app/allow"}, "makes many requests: record them"),
        ({"text": "{}", "path": "app/allow", "user": 1}, "must be texts"),
        ({"text": 1, "path": "app/allow"}, "must be texts"),
        ({"text": "{}", "path": "app/allow", "changes": 1}, "must be true or false"),
    ],
)
def test_a_request_is_tried_where_clients_ask(body: Any, text: str, served: Served) -> None:
    served.decide("bob", "/asked")
    before = served.get("/console/api/search?limit=1")[1]
    status, answer = served.get(
        "/console/api/request", "POST", json.dumps(body), **{"Content-Type": "application/json"}
    )
    assert (status, text in answer) == (400, True)
    assert (
        json.loads(served.get("/console/api/search?limit=1")[1])["rows"]
        == (json.loads(before)["rows"])
    )


def test_a_view_that_gets_no_answer_says_so(browser: Browser, served: Served) -> None:
    """Failed at first, then displayed, then stale."""
    page = new_page(browser)
    page.route("**/api/policies", lambda route: route.abort())
    page.goto(f"{served.url}/policies")
    expect(page.get_by_role("alert")).to_contain_text("the server does not answer")
    page.unroute("**/api/policies")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".heat")).to_be_visible()
    page.route("**/api/policies", lambda route: route.abort())
    expect(page.locator(".banner")).to_contain_text("Not updated since")
    expect(page.locator(".heat")).to_be_visible()
    close_page(page)


def test_an_overview_without_its_server_does_not_say_healthy(
    browser: Browser, served: Served
) -> None:
    page = new_page(browser)
    page.goto(served.url)
    expect(page.locator(".health")).to_contain_text("Healthy")
    page.route("**/api/**", lambda route: route.abort())
    expect(page.locator(".health")).to_contain_text("not known: the server does not answer")
    expect(page.locator(".banner").first).to_contain_text("Not updated since")
    close_page(page)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        ("/decisions?text=nothing-has-this", "No kept decision matches"),
        ("/decisions#decision=nothing", "no longer kept"),
        ("/nothing", "There is no such view"),
    ],
)
def test_what_is_empty_says_what_to_do(
    view: str, text: str, browser: Browser, served: Served
) -> None:
    page = new_page(browser)
    page.goto(f"{served.url}{view}")
    expect(page.locator("body")).to_contain_text(text)
    close_page(page)


def test_a_hundred_thousand_rows_are_forty_elements(browser: Browser, served: Served) -> None:
    def page_of(route: Any) -> None:
        before = re.search(r"before=[0-9]+[.]0[.]([0-9]+)", route.request.url)
        last = int(before[1]) if before else 100_001
        row = {
            "time_ms": 1,
            "verdict": "deny",
            "path": "p",
            "request": "GET /",
            "user": "",
            "role": "",
        }
        row |= {"reason": "", "rules": [], "failed": [], "eval_us": 1, "worker": 0, "revision": ""}
        rows = [{**row, "number": n, "id": f"d-{n}"} for n in range(last - 1, last - 10_001, -1)]
        next = None if last - 10_000 <= 1 else [1, 0, last - 10_000]
        groups = {"groups": [], "looked": 1, "complete": True, "silent": []}
        route.fulfill(json={"rows": rows, "next": next, "total": 100_000, **groups})

    page = new_page(browser)
    page.route("**/api/search*", page_of)
    page.goto(f"{served.url}/decisions?text=none")
    table = page.get_by_role("table")
    for count in range(10_000, 100_001, 10_000):
        expect(table).to_have_attribute("aria-rowcount", str(count + 1))
        page.locator(".scroll").evaluate("each => each.scrollTo(0, each.scrollHeight)")
    expect(rows(page).last).to_have_attribute("aria-rowindex", "100001")
    assert rows(page).count() < 60
    close_page(page)


def test_a_revision_says_what_it_changed(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> None:
    served = Served(tmp_path_factory.mktemp("changed"))
    for close in (served.server.close, served.console.close, served.shadow.close):
        request.addfinalizer(close)
    served.decide(EVIL[1], "/changed")
    text = POLICY.replace('"GET"', '"POST"')
    served.pdp.replace(build(Loaded({"policy.rego": text}), Settings(marked=True)))
    served.decide("bob", "/after")
    page = new_page(browser)
    page.goto(f"{served.url}/revisions")
    expect(page.get_by_role("article").first).to_contain_text("in force")
    page.get_by_role("button", name="What did it change?").click()
    expect(page).to_have_url(re.compile("compare="))
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Compare with the active policies").first.click()
    changed = page.get_by_role("article", name="What changed")
    expect(changed).to_contain_text(
        "Of 1 kept decision of that revision 1 is decided differently now"
    )
    expect(changed.locator(".diff .added").last).to_contain_text('input.method == "POST"')
    expect(changed.locator(".changes")).to_contain_text("GET /changed")
    assert page.evaluate("window.hit") is None
    close_page(page)


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
    report = page.evaluate("axe.run()")
    for width in (1024, 1920, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
    close_page(page)
    violations = [(each["id"], [n["html"] for n in each["nodes"]]) for each in report["violations"]]
    assert violations == []


@pytest.mark.parametrize("view", VIEWS)
def test_pictures_of_the_documentation_are_of_this_console(
    view: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory, request: Any
) -> None:
    """With DOORWARD_PICTURES=1 they are taken again."""
    served = Served(tmp_path_factory.mktemp("pictures"), policy=PICTURED)
    request.addfinalizer(served.server.close)
    request.addfinalizer(served.console.close)
    request.addfinalizer(served.shadow.close)
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


def test_a_stream_of_counts_holds_no_decision(served: Served) -> None:
    served.decide("bob", "/counted")
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    connection.request("GET", "/console/api/decisions?limit=0")
    answer = connection.getresponse()
    lines = [answer.readline().decode() for _ in range(2)]
    connection.close()
    message = json.loads(lines[1].removeprefix("data: "))
    assert (message["decisions"], message["docker"]) == ([], [])
    assert sum(each[1] for each in message["seconds"]) > 0


def test_a_page_of_another_site_gets_nothing(served: Served) -> None:
    assert served.get("/console", Host="evil.example")[0] == 403
    assert served.get("/console/api/decisions/x", Host="evil.example:80")[0] == 403
    body = json.dumps({"files": {}, "query": "1"})
    send = "/console/api/playground/evaluate"
    assert served.get(send, "POST", body, **{"Content-Type": "text/plain"})[0] == 415
    json_type = {"Content-Type": "application/json"}
    assert served.get(send, "POST", body, **json_type)[0] == 200
    assert served.get(send, "POST", "{", **json_type)[0] == 400
    assert served.get(send, "POST", "x" * (3 << 20), **json_type)[0] == 413


def test_readers_that_are_many_or_slow_are_refused_and_stop_nobody(served: Served) -> None:
    slow: list[socket.socket] = []

    def open_stream() -> bool:
        """Of its answer 12 bytes are read, and no more. Streams of pages that an earlier test
        closed may still be there."""
        stream = socket.create_connection(("127.0.0.1", served.port))
        stream.sendall(b"GET /console/api/decisions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if stream.recv(12) == b"HTTP/1.1 200":
            slow.append(stream)
            return True
        stream.close()
        return False

    try:
        for _ in range(STREAMS):
            wait_until(open_stream)
        wait_until(lambda: served.get("/console/api/decisions")[0] == 503)
        served.decide("bob", "/meanwhile")
        assert served.get("/console/api/state")[0] == 200
    finally:
        for each in slow:
            each.close()
    wait_until(lambda: served.status_of_a_stream() == 200)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize(
    "path", ["", "/static/console.js", "/api/state", "/api/decisions", "/api/policies", "/api/log"]
)
def test_nothing_is_changed_by_any_method(method: str, path: str, served: Served) -> None:
    status, text = served.get(f"/console{path}", method, "{}", Origin="http://evil.example")
    assert status in (404, 405, 501)
    assert "access-control" not in text.lower()


@pytest.mark.parametrize(
    "event_id", ["9" * 400, "-1.-1", "1.2.3.4", "x.y", "\u00b2.0".encode().decode("latin-1"), "."]
)
def test_a_stream_begins_anew_where_its_id_is_none(event_id: str, served: Served) -> None:
    served.decide("bob", "/first")
    # There may be as many streams as there can be, of readers that have just left.

    def status() -> int:
        code = served.status_of_a_stream(**{"Last-Event-ID": event_id})
        return 0 if code == 503 else code

    assert wait_until(status) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/console/static/../app.py",
        "/console/static/%2e%2e/app.py",
        "/console/static/..%5capp.py",
        "/console/static//etc/passwd",
        "/console/static/.",
        "/console/static/",
        "/console/../v1/data",
        "/console/%2e%2e/v1/policies",
        "/console/api/decisions/..%2f..%2fstate",
        f"/console/api/decisions/{'x' * 4_000}",
        "/console/static/console.js%00.css",
    ],
)
def test_paths_lead_nowhere_else(path: str, served: Served) -> None:
    status, text = served.get(path)
    if status == 307:
        # The path as it would be without its dots, on this server.
        (path,) = re.findall(r'href="(/[^/"][^"]*)"', text)
        status, _ = served.get(path)
    assert status in (400, 404)


def test_only_what_is_there_is_answered(served: Served) -> None:
    assert served.get("/console/static/console.js")[0] == 200
    for path in ("static/..%2fapp.py", "static/app.py", "api/nothing", "static", "etc/passwd"):
        assert served.get(f"/console/{path}")[0] == 404, path
    assert served.get("/console/api/decisions/nothing")[0] == 404
    state = json.loads(served.get("/console/api/state")[1])
    assert state["workers"][0]["parts"] == {"bundle": "OK"}


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost:8282", True),
        ("127.0.0.1:8282", True),
        ("[::1]:8282", True),
        ("[::1]", True),
        ("doorward", True),
        ("console.example:80", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:80", False),
        ("", False),
    ],
)
def test_hosts_that_somebody_else_may_name_are_refused(host: str, is_allowed: bool) -> None:
    assert is_host_allowed(host, frozenset({"console.example"})) is is_allowed
