"""The list of decisions: live, filtered, grouped, by keys, and of any length."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, Route, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import EVIL, NEEDS_BROWSER, Served, detail, rows

from doorward.docker.audit import AuditLog, Entry
from doorward.docker.reply import Verdict
from doorward.edge import Parts
from doorward.transport.peers import Mailbox, Peers

pytestmark = NEEDS_BROWSER


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
            each.close()
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
