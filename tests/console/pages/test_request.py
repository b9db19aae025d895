"""A request that is decided while somebody types it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.console.pages.served import EVIL, NEEDS_BROWSER, Served

pytestmark = NEEDS_BROWSER


def test_a_command_of_docker_is_tried_by_its_user(page: Page, served: Served) -> None:
    served.decide("bob", "/docker")
    page.goto(f"{served.url}/request")
    page.get_by_role("button", name="Docker").click()
    answer = page.locator(".side.answer")
    expect(answer).to_contain_text('"action": "container.create"')
    page.get_by_label("User of the Docker daemon").fill("ann")
    expect(answer).to_contain_text('"User": "ann"')


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


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"text": "{}", "path": "secrets"}, "no recent decision is about this document"),
        ({"text": "{}", "path": "app"}, "no recent decision is about this document"),
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
