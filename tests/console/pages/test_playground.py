"""The playground: files, examples, answers, proofs, drafts and links."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.browser import close_page, new_page
from tests.console.pages.served import EVIL, NEEDS_BROWSER, Served
from tests.ports import free_port
from tests.waiting import wait_until

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.console import Console
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rest.app import Api
from doorward.rest.server import HttpServer, Listener, bind
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

pytestmark = NEEDS_BROWSER


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
