"""The admin of Django in a browser: logging in, lists, changes, actions, histories, deletions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test.testcases import LiveServerThread
from playwright.sync_api import Browser, Page
from tests.browser import CHROMIUM, chromium, close_page, new_page
from tests.integrations.test_django_admin import VISIBLE, first_names, users
from tests.waiting import PATIENCE

__all__ = ["users"]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def plain(application: Any) -> Any:
    """Without static files: every page works without its scripts."""
    return application


@pytest.fixture(scope="module", autouse=True)
def browser() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch, chromium() as browser:
        # The driver of the browser has an event loop in this thread, on which nothing waits.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield browser


@pytest.fixture
def address(users: dict[str, User]) -> Iterator[str]:
    server = LiveServerThread("127.0.0.1", plain)
    server.daemon = True
    server.start()
    assert server.is_ready.wait(PATIENCE)
    assert server.error is None
    yield f"http://127.0.0.1:{server.port}/admin"
    server.terminate()
    connections.close_all()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    page = new_page(browser)
    page.goto(f"{address}/login/")
    page.fill("#id_username", "zoe")
    page.fill("#id_password", "secret")
    page.click("input[type=submit]")
    yield page
    close_page(page)


def listed(page: Page) -> list[str]:
    return sorted(page.locator("#result_list tbody .field-username").all_inner_texts())


def test_a_member_of_the_staff_sees_and_changes_what_the_policy_allows(
    page: Page, address: str, users: dict[str, User]
) -> None:
    page.goto(f"{address}/auth/user/")
    assert listed(page) == VISIBLE
    # A row that may not be changed has no field to write into.
    rows = {
        row.locator(".field-username").inner_text(): row
        for row in page.locator("#result_list tbody tr").all()
    }
    assert rows["abel"].locator(".field-first_name input").is_disabled()
    rows["ada"].locator(".field-first_name input").fill("Augusta")
    page.click("input[name=_save]")
    assert first_names()["ada"] == "Augusta"
    assert first_names()["abel"] == "first"
    # A search finds no row that is refused.
    page.goto(f"{address}/auth/user/?q=grace")
    assert listed(page) == []
    for name, status in (("ada", 200), ("grace", 302)):
        for view in ("change", "history", "delete"):
            answer = page.request.get(
                f"{address}/auth/user/{users[name].pk}/{view}/", max_redirects=0
            )
            assert answer.status == status, (name, view)


def choose(page: Page, address: str, names: list[str], action: str, users: dict[str, User]) -> int:
    """Run an action on rows of the list; the status of the answer."""
    page.goto(f"{address}/auth/user/")
    for name in names:
        page.check(f"input[name=_selected_action][value='{users[name].pk}']")
    page.select_option("select[name=action]", action)
    with page.expect_navigation() as navigation:
        page.click("button[name=index]")
    answer = navigation.value
    assert answer is not None
    return answer.status


def test_actions_run_on_rows_that_allow_them(
    page: Page, address: str, users: dict[str, User]
) -> None:
    assert choose(page, address, ["ada", "abel"], "rename", users) == 403
    assert not User.objects.filter(last_name="renamed").exists()
    assert choose(page, address, ["ada", "alan"], "rename", users) == 200
    assert set(User.objects.filter(last_name="renamed").values_list("username", flat=True)) == {
        "ada",
        "alan",
    }
    # `abel` may be seen, and not deleted.
    status = choose(page, address, ["abel"], "delete_selected", users)
    if status == 200 and page.locator("input[type=submit]").count():
        page.locator("input[type=submit]").last.click()
    assert User.objects.filter(username="abel").exists()
