"""The official SDK: lists show and calls run what the policy allows, with validated arguments."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer

from doorward.integrations.mcp_server import ServerPolicy
from doorward.pdp import DecisionPoint, from_modules

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/mcp/official.py"
POLICY = """package mcp

default allow := false

allow if {
	input.method in {"tools/list", "resources/list", "prompts/list", "prompts/get"}
	not startswith(input.name, "secret")
	input.name != "file:///secret"
}

allow if {
	input.method == "tools/call"
	input.name in {"delete", "add"}
	not input.arguments.force == true
	input.user.id == "ann"
}

allow := {"allowed": true, "budget": {}} if {
	input.method == "tools/call"
	input.name == "spend"
}

allow := {"allowed": false, "message": "not that one"} if {
	input.method == "resources/read"
	input.name == "file:///open"
}
"""


def server_with(point: DecisionPoint, calls: list[Any]) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("test")
    server.middleware.append(ServerPolicy(server, point, user=lambda: {"id": "ann"}))

    @server.tool()
    def delete(name: str, force: bool = False) -> str:
        calls.append((name, force))
        return name

    @server.tool()
    def spend() -> str:
        calls.append("spend")
        return ""

    @server.tool()
    def secret() -> str:
        calls.append("secret")
        return ""

    @server.resource("file:///open")
    def open_file() -> str:
        return "open"

    @server.resource("file:///secret")
    def secret_file() -> str:
        return "secret"

    @server.prompt()
    def greet(name: str) -> str:
        return name

    @server.prompt()
    def secret_prompt() -> str:
        return ""

    return server


async def refused(awaitable: Any) -> str:
    with pytest.raises(MCPError) as caught:
        await awaitable
    return str(caught.value)


def test_lists_show_and_calls_run_what_the_policy_allows() -> None:
    calls: list[Any] = []

    async def run(point: DecisionPoint) -> None:
        async with Client(server_with(point, calls)) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["delete", "spend"]
            assert len((await client.list_resources()).resources) == 1
            assert [each.name for each in (await client.list_prompts()).prompts] == ["greet"]
            await client.call_tool("delete", {"name": "a"})
            # Each of these becomes True before the tool gets it.
            for force in (True, 1, "yes", "true"):
                arguments = {"name": "a", "force": force}
                assert "does not allow" in await refused(client.call_tool("delete", arguments))
            invalid = await refused(client.call_tool("delete", {"force": 7}))
            assert "invalid arguments: name: Field required; force: " in invalid
            assert "Unknown tool" in await refused(client.call_tool("secret", {}))
            assert "Unknown tool" in await refused(client.call_tool("nothing", {}))
            assert "budgets are not supported" in await refused(client.call_tool("spend", {}))
            assert "not that one" in await refused(client.read_resource("file:///open"))
            assert "does not allow" in await refused(client.read_resource("file:///secret"))
            assert (await client.get_prompt("greet", {"name": "x"})).messages
            assert "does not allow" in await refused(client.get_prompt("secret_prompt"))

    with from_modules({"p.rego": POLICY}) as point:
        asyncio.run(run(point))
    assert calls == [("a", False)]


def test_a_token_says_who_calls_before_the_option_user(monkeypatch: pytest.MonkeyPatch) -> None:
    token = AccessToken(token="t", client_id="agent", scopes=[], subject="kim")
    monkeypatch.setattr("doorward.integrations.mcp_server.get_access_token", lambda: token)
    calls: list[Any] = []

    async def run(point: DecisionPoint) -> None:
        async with Client(server_with(point, calls)) as client:
            assert "does not allow" in await refused(client.call_tool("delete", {"name": "a"}))
            token.subject = "ann"
            await client.call_tool("delete", {"name": "b"})

    with from_modules({"p.rego": POLICY}) as point:
        asyncio.run(run(point))
    assert calls == [("b", False)]


def test_a_policy_that_fails_refuses_everything() -> None:
    async def run(point: DecisionPoint) -> None:
        async with Client(server_with(point, [])) as client:
            assert (await client.list_tools()).tools == []
            assert "Unknown tool" in await refused(client.call_tool("delete", {"name": "a"}))

    with from_modules({"p.rego": "package other"}) as point:
        asyncio.run(run(point))


@pytest.mark.parametrize(
    ("agent", "names"), [("support", {"order_status", "refund"}), ("guest", {"order_status"})]
)
def test_the_example(agent: str, names: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT", agent)
    example = runpy.run_path(str(EXAMPLE), run_name="example")

    async def run() -> None:
        async with Client(example["server"]) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == names
            await client.call_tool("order_status", {"order": 1})
            if agent == "support":
                await client.call_tool("refund", {"order": 1, "amount": 100})
            await refused(client.call_tool("refund", {"order": 1, "amount": 101}))

    with example["point"]:
        asyncio.run(run())
