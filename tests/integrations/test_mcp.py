"""Tool calls through real MCP clients: in process, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import enum
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import McpError, ToolError
from fastmcp.server.auth import AccessToken
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, PromptReference
from mcp_types.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, SERVER_REQUESTS
from pydantic import BaseModel
from tests.integrations.servers import uvicorn_port
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.integrations.mcp import BudgetError, PolicyMiddleware, SqliteBudget
from doorward.pdp import from_folder, from_modules
from doorward.telemetry.rate_limited_log import RateLimitedLog

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/mcp"


POLICY = """package mcp

default allow := false

allow if startswith(input.method, "tools/list")

allow if {
	input.method == "tools/call"
	input.name == "add"
	input.arguments.a < 10
	input.user.id == "ann"
}

allow := {"allowed": false, "message": "too large"} if {
	input.method == "tools/call"
	input.name == "add"
	input.arguments.a >= 10
}

allow := {"allowed": true, "budget": data.budget} if {
	input.method == "tools/call"
	input.name == "spend"
}

allow if {
	input.method in {"resources/list", "resources/read", "prompts/list", "prompts/get"}
	contains(input.name, "open")
}

allow if {
	input.method == "resources/templates/list"
	contains(input.name, "open")
}
"""


class Memory:
    """A counter that can fail."""

    fails = False

    def __init__(self) -> None:
        self.spent = 0

    def spend(self, key: str, cost: int, limit: int, seconds: int) -> bool:
        if self.fails:
            raise BudgetError("gone")
        self.spent += cost
        return self.spent <= limit


def server(point: Any, **options: Any) -> FastMCP:
    options.setdefault("user", lambda: {"id": "ann"})
    mcp: FastMCP = FastMCP("test", middleware=[PolicyMiddleware(point, **options)])

    @mcp.tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    @mcp.tool(tags={"money"})
    def spend() -> str:
        return "spent"

    @mcp.tool
    def other() -> str:
        return "other"

    @mcp.resource("data://open")
    def open_resource() -> str:
        return "open"

    @mcp.resource("data://closed")
    def closed_resource() -> str:
        return "closed"

    @mcp.resource("open://{name}")
    def template(name: str) -> str:
        return name

    @mcp.resource("shut://{name}")
    def shut(name: str) -> str:
        return name

    @mcp.prompt
    def open_prompt() -> str:
        return "hello"

    @mcp.prompt
    def closed_prompt() -> str:
        return "hello"

    return mcp


def ask(mcp: Any, work: Callable[[Client[Any]], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(mcp) as client:
            return await work(client)

    return asyncio.run(run())


def call(mcp: Any, name: str, **arguments: Any) -> str:
    """The text of the result, or of the error."""

    async def work(client: Client[Any]) -> str:
        try:
            result = await client.call_tool(name, arguments)
        except ToolError as error:
            return f"error: {error}"
        return str(result.data)

    answer: str = ask(mcp, work)
    return answer


def test_calls_are_decided_on_with_their_arguments() -> None:
    with from_modules({"p.rego": POLICY}) as point:
        mcp = server(point)
        assert call(mcp, "add", a=1, b=2) == "3"
        assert call(mcp, "add", a=10) == "error: too large"
        assert call(mcp, "other") == "error: the policy does not allow it"
        assert "Unknown tool: 'missing'" in call(mcp, "missing")
        # The tool gets numbers.
        assert call(mcp, "add", a="1") == "2"
        assert call(mcp, "add", a="10") == "error: too large"
        assert call(mcp, "add", a="x").startswith("error: invalid arguments: a: ")
        assert call(server(point, user=lambda: None), "add", a=1).startswith("error")


def test_a_token_says_who_calls_before_the_option_user(monkeypatch: pytest.MonkeyPatch) -> None:
    token = AccessToken(token="t", client_id="agent", scopes=[], claims={"sub": "kim"})
    monkeypatch.setattr("doorward.integrations.mcp.get_access_token", lambda: token)
    with from_modules({"p.rego": POLICY}) as point:
        mcp = server(point, user=lambda: {"id": "ann"})
        assert call(mcp, "add", a=1) == "error: the policy does not allow it"
        token.claims["sub"] = "ann"
        assert call(server(point, user=lambda: {"id": "kim"}), "add", a=1, b=2) == "3"


VALIDATED = """package mcp

default allow := false

allow if input.method == "tools/list"

allow if {
	input.name == "wipe"
	not input.arguments.force == true
	input.arguments.count < 10
	input.arguments.mode == "soft"
	input.arguments.until == "2026-01-02"
	input.arguments.owner.name == "ann"
	not input.arguments.context
}
"""


class Mode(enum.Enum):
    SOFT = "soft"
    HARD = "hard"


class Owner(BaseModel):
    name: str = "ann"


@pytest.mark.parametrize("strict", [False, True])
def test_a_call_is_decided_on_with_what_the_tool_gets(strict: bool) -> None:
    seen: list[dict[str, Any]] = []
    with from_modules({"m.rego": VALIDATED}) as point:
        middleware = [PolicyMiddleware(point)]
        mcp = FastMCP("shop", middleware=middleware, strict_input_validation=strict)

        @mcp.tool
        def wipe(
            context: Context,
            force: bool = False,
            count: int = 1,
            mode: Mode = Mode.SOFT,
            until: date = date(2026, 1, 2),
            owner: Owner = Owner(),  # noqa: B008  # what a tool may have
            more: list[str] | None = None,
        ) -> str:
            seen.append({"force": force, "count": count, "mode": mode})
            return "wiped"

        async def call(**arguments: Any) -> str:
            async with Client(mcp) as client:
                try:
                    return str((await client.call_tool("wipe", arguments)).data)
                except ToolError as error:
                    return str(error)

        allowed: list[dict[str, Any]] = [
            {}, {"force": False}, {"count": 9, "mode": "soft"}, {"until": "2026-01-02"},
            {"owner": {"name": "ann"}},
        ]  # fmt: skip
        for arguments in allowed:
            assert asyncio.run(call(**arguments)) == "wiped", arguments
        refused: list[dict[str, Any]] = [
            {"force": "yes"}, {"force": 1}, {"force": "true"}, {"force": True}, {"count": "13"},
            {"count": 13.0}, {"mode": "hard"}, {"until": "2026-01-03"}, {"owner": {"name": "bob"}},
            {"count": "many"}, {"nothing": 1}, {"context": 1},
        ]  # fmt: skip
        before = len(seen)
        for arguments in refused:
            assert asyncio.run(call(**arguments)) != "wiped", arguments
        assert len(seen) == before


def test_a_tool_that_is_no_function_gets_what_fulfils_its_schema() -> None:
    with from_modules({"m.rego": VALIDATED}) as point:
        inner = FastMCP("inner")

        @inner.tool(name="wipe")
        def inner_wipe(
            force: bool = False, count: int = 1, mode: str = "soft", until: str = "2026-01-02"
        ) -> str:
            return "wiped"

        outer = FastMCP("outer", middleware=[PolicyMiddleware(point)])
        outer.mount(inner)

        async def call(**arguments: Any) -> str:
            async with Client(outer) as client:
                try:
                    return str((await client.call_tool("wipe", arguments)).data)
                except ToolError as error:
                    return str(error)

        owner = "the policy does not allow it"
        assert asyncio.run(call()) == owner  # there is no owner in its arguments
        for arguments in ({"force": "yes"}, {"force": 1}, {"count": "13"}):
            assert "do not match its schema" in asyncio.run(call(**arguments))


def test_what_is_not_listed_is_not_known() -> None:
    closed = 'package mcp\nallow if input.name == "add"\n'
    with from_modules({"p.rego": closed}) as point:
        mcp = server(point)
        names = [tool.name for tool in ask(mcp, lambda client: client.list_tools())]
        assert names == ["add"]
        assert call(mcp, "other") == "error: Unknown tool: 'other'"
        assert call(mcp, "add", a=1) == "2"


def test_resources_and_prompts_are_decided_on_too() -> None:
    with from_modules({"p.rego": POLICY}) as point:
        mcp = server(point)

        async def work(client: Client[Any]) -> list[Any]:
            with pytest.raises(McpError):
                await client.read_resource("data://closed")
            with pytest.raises(McpError):
                await client.get_prompt("closed_prompt")
            return [
                [str(each.uri) for each in await client.list_resources()],
                [each.name for each in await client.list_prompts()],
                [each.name for each in await client.list_resource_templates()],
                (await client.read_resource("data://open"))[0].text,  # type: ignore[union-attr] # text by its type
                len((await client.get_prompt("open_prompt")).messages),
            ]

        assert ask(mcp, work) == [["data://open"], ["open_prompt"], ["template"], "open", 1]


def test_completions_and_requests_of_other_kinds_are_decided_on() -> None:
    policy = """package mcp

allow if {
	input.method == "completion/complete"
	input.name == "open_prompt"
	input.arguments.argument.name == "topic"
}
"""
    requests: list[str] = []
    with from_modules({"p.rego": policy}) as point:
        mcp = FastMCP("completions", middleware=[PolicyMiddleware(point)])

        @mcp.completion
        async def complete(ref: Any, argument: Any, context: Any) -> list[str]:
            requests.append(ref.name)
            return ["secret"]

        async def work(client: Client[Any]) -> list[str]:
            async def values(name: str, argument: str = "topic") -> list[str]:
                reference = PromptReference(type="ref/prompt", name=name)
                given = {"name": argument, "value": ""}
                return list((await client.complete(reference, given)).values)

            for name, argument in (("closed_prompt", "topic"), ("open_prompt", "other")):
                with pytest.raises(McpError, match="does not allow"):
                    await values(name, argument)
            return await values("open_prompt")

        assert ask(mcp, work) == ["secret"]
    assert requests == ["open_prompt"]


def test_the_version_that_would_run_is_decided_on() -> None:
    by_tag = 'package mcp\nallow if "safe" in input.tags\n'
    with from_modules({"p.rego": by_tag}) as point:
        mcp: FastMCP = FastMCP("test", middleware=[PolicyMiddleware(point)])

        @mcp.tool(name="act", version="1", tags={"unsafe"})
        def old() -> str:
            return "old"

        @mcp.tool(name="act", version="2", tags={"safe"})
        def new() -> str:
            return "new"

        async def work(client: Client[Any]) -> list[str]:
            answers = []
            for meta in (None, {"version": "2"}, {"version": "1"}, {"version": {"lt": "2"}}, "1"):
                given: dict[str, Any] = {} if meta is None else {"meta": {"fastmcp": meta}}
                try:
                    answers.append(str((await client.call_tool("act", {}, **given)).data))
                except (ToolError, McpError) as error:
                    answers.append(str(error)[:12])
            return answers

        answers = ask(mcp, work)
        assert answers[:3] == ["new", "new", "Unknown tool"]
        assert "old" not in answers


def test_a_policy_that_fails_refuses_everything() -> None:
    with from_modules({"p.rego": "package mcp\nallow := 1\nallow := 2 if input.name\n"}) as point:
        mcp = server(point)
        assert ask(mcp, lambda client: client.list_tools()) == []
        assert call(mcp, "add", a=1) == "error: Unknown tool: 'add'"


FREE = {"ping", "server/discover", "logging/setLevel"}
"""What belongs to the connection; `initialize` begins one."""


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_every_method_of_the_protocol_is_decided_on_or_the_connections_own(version: str) -> None:
    """By requests of JSON-RPC as attackers write them, of methods that no server has as well."""
    server = FastMCP(
        "shop",
        middleware=[PolicyMiddleware(from_modules({"p.rego": "package mcp\n\nallow := false"}))],
    )
    server.tool(lambda: "classified", name="tool")
    server.resource("r://page")(lambda: "classified")
    server.prompt(lambda: "classified", name="prompt")
    known = {method for method, _ in [*CLIENT_REQUESTS, *SERVER_REQUESTS, *CLIENT_NOTIFICATIONS]}
    odd = {"tools/call ", "TOOLS/CALL", "tools", "", "nonsense/method", "rpc.discover"}
    given: dict[str, dict[str, Any]] = {
        "tools/call": {"name": "tool", "arguments": {}},
        "resources/read": {"uri": "r://page"},
        "prompts/get": {"name": "prompt"},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": version,
    }
    own = {"protocolVersion": version, "clientInfo": {"name": "a", "version": "1"}}

    def exchange(client: httpx.Client, body: Any, **more: str) -> str:
        return client.post("/mcp", headers=headers | more, json=body).text

    with (
        uvicorn_port(server.http_app(json_response=True)) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client,
    ):
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
        begun = client.post(
            "/mcp", headers=headers, json={**begin, "params": {**own, "capabilities": {}}}
        )
        if session := begun.headers.get("mcp-session-id"):
            headers["mcp-session-id"] = session
        for method in sorted(known - {"initialize"} | odd):
            params = given.get(method, {})
            more = {"mcp-method": method.strip()}
            if version >= "2026":
                prefix = "io.modelcontextprotocol/"
                meta = {prefix + name: value for name, value in own.items()}
                params = {**params, "_meta": {**meta, f"{prefix}clientCapabilities": {}}}
                if subject := params.get("name") or params.get("uri"):
                    more["mcp-name"] = subject
            body = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
            said = exchange(client, body, **more)
            assert "classified" not in said, method
            refused = (
                "the policy does not allow it", "Unknown tool", "does not match",
                '[]', "Method not found",
            )  # fmt: skip
            assert method in FREE or any(each in said for each in refused), (method, said)
            batch = exchange(client, [body, body], **more)
            assert '"error"' in batch
            assert "classified" not in batch


def test_a_list_in_pages_holds_what_the_policy_allows() -> None:
    policy = 'package mcp\n\nallow if input.name in {"t0", "t3", "t4"}\n'
    server = FastMCP(
        "shop", middleware=[PolicyMiddleware(from_modules({"p.rego": policy}))], list_page_size=2
    )
    for number in range(6):
        server.tool(lambda: 1, name=f"t{number}")

    async def names() -> list[list[str]]:
        pages, cursor = [], None
        async with Client(server) as client:
            while True:
                page = await client.list_tools_mcp(cursor=cursor)
                pages.append([tool.name for tool in page.tools])
                cursor = page.next_cursor
                if cursor is None:
                    return pages

    assert [name for page in asyncio.run(names()) for name in page] == ["t0", "t3", "t4"]


def test_each_round_of_a_call_is_decided_on_and_spends() -> None:
    """A tool that asks its user is called again with the answer, maybe with other arguments."""
    policy = """package mcp

allow if input.method == "tools/list"

allow := {"allowed": true, "budget": {"key": "k", "limit": 3, "seconds": 60}} if {
	input.method == "tools/call"
	not input.responses.who.content.value == "root"
}
"""
    spent: list[int] = []
    answer = "ann"

    class Counter:
        def spend(self, key: str, cost: int, limit: int, seconds: int) -> bool:
            spent.append(cost)
            return len(spent) <= limit

    point = from_modules({"p.rego": policy})
    server = FastMCP("shop", middleware=[PolicyMiddleware(point, budget=Counter())])

    async def ask(ctx: Context) -> Any:
        if ctx.input_responses is None:
            schema = {"type": "object", "properties": {"value": {"type": "string"}}}
            form = ElicitRequestFormParams(message="who?", requested_schema=schema)
            return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)})
        given: Any = ctx.input_responses["who"]
        return str(given.content["value"])

    ask.__annotations__["ctx"] = Context
    server.tool(ask)

    async def answered(*_: Any) -> dict[str, str]:
        return {"value": answer}

    async def run() -> str:
        async with Client(server, elicitation_handler=answered) as client:
            result = await client.call_tool("ask")
            return str(result.content[0].text)

    assert asyncio.run(run()) == "ann"
    assert spent == [1, 1]
    answer = "root"
    with pytest.raises(ToolError, match="the policy does not allow it"):
        asyncio.run(run())
    assert spent == [1, 1, 1]
    answer = "ann"
    with pytest.raises(ToolError, match="the budget is used up"):
        asyncio.run(run())


@pytest.mark.parametrize(
    "budget",
    [
        {"key": "k", "limit": 2, "seconds": 0},
        {"key": "k", "limit": "2", "seconds": 60},
        {"key": 1, "limit": 2, "seconds": 60},
        {"key": "k" * 600, "limit": 2, "seconds": 60},
        {"key": "k", "limit": 2, "seconds": 60, "cost": -1},
        {"key": "k", "limit": True, "seconds": 60},
        [],
        {},
    ],
)
def test_a_budget_that_cannot_be_counted_refuses(budget: Any) -> None:
    with from_modules({"p.rego": POLICY}, {"budget": budget}) as point:
        mcp = server(point, budget=Memory())
        assert (
            call(mcp, "spend")
            == "error: the budget cannot be counted: the log of the server says why"
        )


def test_the_log_says_why_a_budget_cannot_be_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doorward.integrations.mcp._quiet", RateLimitedLog())
    with from_modules({"p.rego": POLICY}, {"budget": {"key": "k"}}) as point:
        call(server(point), "spend")
        call(server(point, budget=Memory()), "spend")
    reasons = [vars(each)["reason"] for each in caplog.records if hasattr(each, "reason")]
    assert len(reasons) == 2
    assert "give PolicyMiddleware a `budget`" in reasons[0]
    assert "`key` of at most" in reasons[1]


def test_a_budget_is_spent_and_denies_when_it_cannot_be_read() -> None:
    budget = {"key": "ann", "limit": 2, "seconds": 3600}
    with from_modules({"p.rego": POLICY}, {"budget": budget}) as point:
        counter = Memory()
        mcp = server(point, budget=counter)
        answers = [call(mcp, "spend") for _ in range(3)]
        assert answers == ["spent", "spent", "error: the budget is used up"]
        counter.fails = True
        assert (
            call(mcp, "spend")
            == "error: the budget cannot be counted: the log of the server says why"
        )
        assert (
            call(server(point), "spend")
            == "error: the budget cannot be counted: the log of the server says why"
        )


def test_a_counter_in_a_file_is_atomic_and_begins_anew(tmp_path: Path) -> None:
    counter = SqliteBudget(tmp_path / "budget.db", timeout=PATIENCE)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: counter.spend("k", 1, 50, 10**9), range(80)))
    assert sum(taken) == 50
    assert not counter.spend("k", 1, 50, 10**9)
    assert counter.spend("other", 50, 50, 10**9)
    with closing(sqlite3.connect(tmp_path / "budget.db")) as database, database:
        database.execute("UPDATE budget SET began = 0 WHERE key = 'other'")
    assert counter.spend("other", 50, 50, 3600)
    assert not counter.spend("other", 1, 50, 3600)
    (tmp_path / "budget.db").write_bytes(b"not a database, and longer than its head" * 10)
    with pytest.raises(BudgetError):
        counter.spend("k", 1, 50, 3600)


@pytest.mark.parametrize(
    ("costs", "spent"),
    [
        ([5, 3, 1], [False, True, False]),
        ([2, 2, 1], [True, False, True]),
        ([0, 4, 3, 0], [True, False, True, True]),
    ],
)
def test_no_cost_of_a_counter_in_a_file_exceeds_the_limit(
    costs: list[int], spent: list[bool], tmp_path: Path
) -> None:
    counter = SqliteBudget(tmp_path / "budget.db", timeout=PATIENCE)
    assert [counter.spend("k", cost, 3, 10**9) for cost in costs] == spent


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "BUDGET_FILE": str(folder / "budget.db"), **more}


def test_the_example_over_stdio(tmp_path: Path) -> None:
    transport = StdioTransport(
        sys.executable, [str(EXAMPLE / "gateway.py")], env=environment(tmp_path)
    )

    async def work(client: Client[Any]) -> list[Any]:
        names = [tool.name for tool in await client.list_tools()]
        answers = []
        for name, arguments in [
            ("order_status", {"order": 1}),
            ("refund", {"order": 1, "amount": 500}),
            *[("refund", {"order": 1, "amount": 50})] * 4,
            ("delete_order", {"order": 1}),
        ]:
            try:
                answers.append((await client.call_tool(name, arguments)).data)
            except ToolError as error:
                answers.append(str(error))
        return [sorted(names), answers]

    names, answers = ask(transport, work)
    assert names == ["order_status", "refund"]
    assert answers == [
        "order 1 is on its way",
        "refunds of this size are for people",
        *["refunded 50 for order 1"] * 3,
        "the budget is used up",
        "Unknown tool: 'delete_order'",
    ]


def test_the_example_over_http(tmp_path: Path) -> None:
    port = free_port()
    gateway = subprocess.Popen(
        [sys.executable, str(EXAMPLE / "gateway.py"), "--http"],
        env=environment(tmp_path, PORT=str(port), AGENT="guest"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: gateway.poll() is not None or _accepts(port))
        mcp = f"http://127.0.0.1:{port}/mcp"
        names = [tool.name for tool in ask(mcp, lambda client: client.list_tools())]
        assert names == ["order_status"]
        assert call(mcp, "refund", order=1, amount=1) == "error: Unknown tool: 'refund'"
        assert call(mcp, "order_status", order=1) == "order 1 is on its way"
    finally:
        gateway.terminate()
        gateway.wait(PATIENCE)


def _accepts(port: int) -> bool:
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)):
            return True
    except OSError:
        return False


def test_the_examples_policy_by_itself() -> None:
    with from_folder(EXAMPLE / "policy.rego", EXAMPLE / "data.json") as point:
        document = {"method": "tools/call", "name": "refund", "tags": ["write"]}
        unknown = point.decide_now("mcp/allow", document)
        assert not unknown.allowed
