"""The search of the decision log."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.console.pages.served import EVIL, NEEDS_BROWSER, Served, rows
from tests.waiting import PATIENCE

from doorward.console.app import SEARCHES
from doorward.console.log_query import Question, Search

pytestmark = NEEDS_BROWSER


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


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("file=/etc/passwd", "unknown query parameter: file"),
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
